//! Foreign text in front of the owner: nothing in it may act on a terminal or reorder a line.

use std::path::Path;

/// Whether a character does something instead of being seen.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}'
        )
}

/// `text` with every character that acts written as `\u{…}`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A path in the same way.
pub fn visible_path(path: &Path) -> String {
    visible(&path.display().to_string())
}

/// `text` as one line of at most `max` characters, without what acts.
pub fn one_line(text: &str, max: usize) -> String {
    let plain: String = text
        .chars()
        .map(|character| {
            if character.is_whitespace() {
                ' '
            } else {
                character
            }
        })
        .filter(|character| !acts(*character))
        .collect();
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max) {
        None => line,
        Some(_) => {
            let kept: String = line.chars().take(max.saturating_sub(1)).collect();
            format!("{kept}…")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_and_nothing_breaks_the_line() {
        assert_eq!(visible("a\u{1b}[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
        assert_eq!(one_line("a\n\tb \u{202e}c\u{7}\r\nd", 300), "a b c d");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("abcd", 4), "abcd");
        // A line break in a path cannot fake a line of the prompt.
        assert_eq!(visible_path("/a\n/confirm".as_ref()), "/a\\n/confirm");
    }
}
