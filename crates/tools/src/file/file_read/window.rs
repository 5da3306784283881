//! Some lines of a text that streams by.

use fermix_types::text::prefix;

/// Which lines are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// The first, from 1.
    pub(super) first: u64,
    /// How many; nothing means all.
    pub(super) lines: Option<u64>,
    /// The most text, in bytes.
    pub(super) cap: usize,
}

/// Keeps the wanted lines and counts the others.
pub(super) struct Window {
    wish: Wish,
    text: String,
    /// The number of the line that the next character belongs to.
    line: u64,
    /// Bytes of that line so far.
    line_bytes: u64,
    /// Where that line starts in `text`.
    line_start: usize,
    /// The last line of which something is kept.
    last: Option<u64>,
    /// The first wanted line that did not fit.
    left_out: Option<u64>,
    /// A line that is alone more than the cap.
    cut: Option<Cut>,
}

struct Cut {
    line: u64,
    bytes: u64,
}

impl Window {
    pub(super) fn new(wish: Wish) -> Self {
        Self {
            wish,
            text: String::new(),
            line: 1,
            line_bytes: 0,
            line_start: 0,
            last: None,
            left_out: None,
            cut: None,
        }
    }

    /// Takes the next piece of the text.
    pub(super) fn feed(&mut self, piece: &str) {
        for part in piece.split_inclusive('\n') {
            let body = part.strip_suffix('\n').unwrap_or(part);
            if self.line >= self.wish.first && !self.is_full() {
                self.keep(part, body);
            } else if let Some(cut) = self.cut.as_mut().filter(|cut| cut.line == self.line) {
                cut.bytes += body.len() as u64;
            }
            self.line_bytes += part.len() as u64;
            if part.len() > body.len() {
                self.line += 1;
                self.line_bytes = 0;
                self.line_start = self.text.len();
            }
        }
    }

    fn keep(&mut self, part: &str, body: &str) {
        // A line break alone is no reason to cut.
        if self.text.len() + body.len() <= self.wish.cap {
            self.text.push_str(part);
            self.last = Some(self.line);
        } else if self.line_start == 0 {
            let room = self.wish.cap.saturating_sub(self.text.len());
            self.text.push_str(prefix(body, room));
            self.last = Some(self.line);
            self.cut = Some(Cut {
                line: self.line,
                bytes: self.line_bytes + body.len() as u64,
            });
        } else {
            self.text.truncate(self.line_start);
            self.last = Some(self.line - 1);
            self.left_out = Some(self.line);
        }
    }

    /// Whether nothing that comes can be kept.
    pub(super) fn is_full(&self) -> bool {
        let has_enough = |lines| self.line.saturating_sub(self.wish.first) >= lines;
        self.left_out.is_some()
            || self.cut.is_some()
            || (self.line >= self.wish.first && self.wish.lines.is_some_and(has_enough))
    }

    /// How many lines came by. A last line without a line break is one.
    pub(super) fn lines_seen(&self) -> u64 {
        self.line - 1 + u64::from(self.line_bytes > 0)
    }

    /// The first wanted line.
    pub(super) fn first(&self) -> u64 {
        self.wish.first
    }

    /// The first and the last line that are shown.
    pub(super) fn shown(&self) -> Option<(u64, u64)> {
        self.last.map(|last| (self.wish.first, last))
    }

    /// Whether every line that came by is shown in full.
    pub(super) fn is_everything(&self) -> bool {
        let is_cut = self.left_out.is_some() || self.cut.is_some();
        !is_cut && self.shown() == Some((1, self.lines_seen()))
    }

    /// The kept text and, when some of it had to be left out, the words that say how to go on.
    /// `total` is the number of lines when it is known.
    pub(super) fn into_text(mut self, total: Option<u64>) -> String {
        let cap = self.wish.cap / 1024;
        if let Some(line) = self.left_out {
            self.text
                .push_str(&format!("[cut at {cap} KB: continue with offset {line}]"));
        }
        if let Some(cut) = self.cut {
            let shown = self.text.len();
            let of = total.map_or(String::new(), |_| format!(" of {}", cut.bytes));
            let onward = match total {
                Some(total) if total <= cut.line => String::new(),
                _ => format!("; continue with offset {}", cut.line + 1),
            };
            self.text.push_str(&format!(
                "\n[cut at {cap} KB: line {} is longer than that; its first {shown}{of} bytes are shown{onward}]",
                cut.line
            ));
        }
        self.text
    }
}
