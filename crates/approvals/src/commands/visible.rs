//! Text that shows everything it holds, for the owner's eyes.

/// `text` with everything that cannot be seen, or that changes how the rest is seen, written out as
/// `⟨U+202E⟩`. Line breaks stay.
pub(super) fn visible(text: &str) -> String {
    written_out(text, |letter| letter == '\n')
}

/// `text` as [`visible`], on one line.
pub(super) fn one_line(text: &str) -> String {
    written_out(text, |_| false)
}

fn written_out(text: &str, stays: impl Fn(char) -> bool) -> String {
    use std::fmt::Write as _;
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if stays(letter) || !is_deceptive(letter) {
            shown.push(letter);
        } else {
            let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(letter));
        }
    }
    shown
}

/// `text` as [`visible`], each line behind a margin, so that no line of it can pose as one of ours.
pub(super) fn quoted(text: &str) -> String {
    let mut shown = String::new();
    for line in visible(text).split('\n') {
        shown.push_str("  │ ");
        shown.push_str(line);
        shown.push('\n');
    }
    shown
}

/// Controls, white space that is not a plain blank, direction marks and overrides, joiners, variation
/// selectors, tags, private and unassigned marks, and our own margin and brackets.
fn is_deceptive(letter: char) -> bool {
    letter.is_control()
        || (letter.is_whitespace() && letter != ' ')
        || matches!(letter,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{E000}'..='\u{F8FF}'
            | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{10FFFF}' | '│' | '⟨' | '⟩')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        assert_eq!(
            visible("ls\u{202E}\tx\u{200B}"),
            "ls⟨U+202E⟩⟨U+0009⟩x⟨U+200B⟩"
        );
        assert_eq!(visible("ls -la # grüße 日本"), "ls -la # grüße 日本");
        assert_eq!(quoted("a\nFolder: /safe"), "  │ a\n  │ Folder: /safe\n");
        assert_eq!(visible("⟨U+0009⟩"), "⟨U+27E8⟩U+0009⟨U+27E9⟩");
    }
}
