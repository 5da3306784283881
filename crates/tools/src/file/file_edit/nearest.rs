//! What a missed anchor is shown: the lines it was probably meant to be. They are shown and never
//! edited, since a guess that is wrong damages the file.

use fermix_types::text;

use super::anchor::first_position;

/// How many lines are shown, and how many bytes of each.
const SHOWN_LINES: usize = 12;
const SHOWN_BYTES: usize = 200;
/// How alike a line must be to be worth showing; 1 is the same pairs of bytes.
const ALIKE: f32 = 0.6;
/// How much of a line is compared, in bytes.
const COMPARED: usize = 400;

/// The sentence after "old_string not found".
pub(super) fn hint(file: &[u8], anchor: &str) -> String {
    if file.starts_with(&[0xFF, 0xFE]) || file.starts_with(&[0xFE, 0xFF]) {
        return "The file is UTF-16, and edits are made on UTF-8 text; convert it first".to_owned();
    }
    if let Some((first, last)) = apart_from_whitespace(file, anchor.as_bytes()) {
        return format!(
            "Only whitespace or line endings differ from line {first}; copy the text exactly:\n{}",
            numbered(file, first, last)
        );
    }
    match most_alike(file, anchor) {
        Some(line) => {
            let last = line + anchor.trim().lines().count().saturating_sub(1);
            format!(
                "The nearest text starts at line {line}; read the file and copy the text exactly:\n{}",
                numbered(file, line, last)
            )
        }
        None => "Nothing in the file is close to it; read the file again".to_owned(),
    }
}

/// The first and last line of the place that differs from the anchor in whitespace alone.
fn apart_from_whitespace(file: &[u8], anchor: &[u8]) -> Option<(usize, usize)> {
    let bare = |text: &[u8]| -> Vec<u8> {
        text.iter()
            .copied()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect()
    };
    let wanted = bare(anchor);
    if wanted.is_empty() {
        return None;
    }
    let start = first_position(&bare(file), &wanted)?;
    let (mut line, mut seen, mut first) = (1, 0, None);
    for byte in file {
        if *byte == b'\n' {
            line += 1;
        } else if !byte.is_ascii_whitespace() {
            if seen == start {
                first = Some(line);
            }
            seen += 1;
            if seen == start + wanted.len() {
                break;
            }
        }
    }
    first.map(|first| (first, line))
}

/// The line most like the anchor's first line that says something, when one is like it at all.
fn most_alike(file: &[u8], anchor: &str) -> Option<usize> {
    let wanted = anchor.lines().map(str::trim).find(|line| line.len() > 2)?;
    let wanted = Pairs::of(wanted.as_bytes());
    let mut best: Option<(f32, usize)> = None;
    for (line, text) in (1..).zip(file.split(|byte| *byte == b'\n')) {
        let alike = wanted.likeness(text.trim_ascii());
        if alike >= ALIKE && best.is_none_or(|(so_far, _)| alike > so_far) {
            best = Some((alike, line));
        }
    }
    best.map(|(_, line)| line)
}

/// The pairs of neighbouring bytes of one line, as a set.
struct Pairs {
    set: Vec<bool>,
    count: usize,
}

impl Pairs {
    fn of(line: &[u8]) -> Self {
        let mut set = vec![false; 1 << 16];
        let mut count = 0;
        for pair in pairs(line) {
            set[pair] = true;
            count += 1;
        }
        Self { set, count }
    }

    /// Twice the pairs in common by the pairs of both.
    fn likeness(&self, line: &[u8]) -> f32 {
        let (mut common, mut count) = (0_usize, 0_usize);
        for pair in pairs(line) {
            common += usize::from(self.set[pair]);
            count += 1;
        }
        let common = common.min(self.count);
        if count + self.count == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "at most a few hundred")]
        let likeness = 2.0 * common as f32 / (count + self.count) as f32;
        likeness
    }
}

fn pairs(line: &[u8]) -> impl Iterator<Item = usize> + '_ {
    line[..line.len().min(COMPARED)]
        .windows(2)
        .map(|pair| usize::from(pair[0]) << 8 | usize::from(pair[1]))
}

/// Lines `first` to `last` with their numbers, cut to what fits an answer.
fn numbered(file: &[u8], first: usize, last: usize) -> String {
    let last_shown = last.min(first + SHOWN_LINES - 1);
    let lines = file.split(|byte| *byte == b'\n');
    let mut shown: Vec<String> = (1..)
        .zip(lines)
        .skip(first - 1)
        .take(last_shown + 1 - first)
        .map(|(number, line)| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES * 2)]);
            format!("{number}: {}", text::shortened(&line, SHOWN_BYTES))
        })
        .collect();
    if last > last_shown {
        shown.push(format!("… {} more lines", last - last_shown));
    }
    shown.join("\n")
}
