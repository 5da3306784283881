//! Looking through one file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use fermix_sandbox::OpenFile;
use fermix_types::ToolError;
use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind,
    SinkMatch,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

/// Larger files are not searched, in bytes (spec/02 §4.6).
pub(super) const MAX_FILE: u64 = 32 * 1024 * 1024;
/// Where a NUL makes a file binary (spec/02 §4.6).
const SNIFFED: usize = 4096;
/// The longest line, in bytes. One line of each searched file is in memory.
const MAX_LINE: usize = 8 * 1024 * 1024;
/// The most of a line that is shown, in characters (spec/02 §4.6).
const MAX_TEXT: usize = 500;
/// How much of that stands before the match when the line goes on behind it.
const LEAD: usize = 200;
/// The most memory a compiled pattern takes, in bytes.
const MAX_PATTERN_SIZE: usize = 10 * 1024 * 1024;
/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 4 * 1024;

/// One line with a match.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    line: u64,
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

/// The matches of one file.
pub(super) struct Matches {
    pub(super) lines: Vec<Line>,
    /// Whether the file has more of them.
    pub(super) has_more: bool,
}

/// Files that were not searched.
#[derive(Default)]
pub(super) struct Skipped {
    large: AtomicUsize,
    long_lined: AtomicUsize,
    unreadable: AtomicUsize,
}

impl Skipped {
    pub(super) fn unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        [
            (&self.large, "larger than 32 MiB"),
            (&self.long_lined, "with a line longer than 8 MiB, in part"),
            (&self.unreadable, "that could not be read"),
        ]
        .into_iter()
        .filter_map(|(count, what)| match count.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(format!("skipped 1 file {what}")),
            count => Some(format!("skipped {count} files {what}")),
        })
    }
}

/// Looks through files, several at once.
pub(super) struct Looker {
    matcher: RegexMatcher,
    context: usize,
    deadline: Instant,
    cancel: CancellationToken,
    /// Searchers that are not in use; each holds a buffer worth keeping.
    idle: Mutex<Vec<(Searcher, RegexMatcher)>>,
    timed_out: AtomicBool,
}

impl Looker {
    pub(super) fn new(
        pattern: &str,
        is_regex: bool,
        context: usize,
        deadline: Instant,
        cancel: CancellationToken,
    ) -> Result<Self, ToolError> {
        let refused = |tag: &'static str, why: String| ToolError::new(tag, format!("{tag}: {why}"));
        if pattern.len() > MAX_PATTERN {
            return Err(refused(
                "invalid_pattern",
                format!("a pattern has at most {MAX_PATTERN} bytes"),
            ));
        }
        if !is_regex && pattern.contains(['\n', '\r']) {
            return Err(refused(
                "invalid_pattern",
                "a pattern cannot hold a line break, because files are searched line by line; search for one of the lines"
                    .to_owned(),
            ));
        }
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(!is_regex)
            .multi_line(true)
            // `$` matches before both kinds of line break, and nothing matches across one.
            .crlf(true)
            .size_limit(MAX_PATTERN_SIZE)
            .dfa_size_limit(MAX_PATTERN_SIZE)
            .build(pattern)
            .map_err(|error| refused("invalid_regex", error.to_string()))?;
        Ok(Self {
            matcher,
            context,
            deadline,
            cancel,
            idle: Mutex::default(),
            timed_out: AtomicBool::new(false),
        })
    }

    /// Whether a file was left in the middle because the time was up.
    pub(super) fn is_timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }

    /// At most `most` matches of one file; nothing when it was not searched.
    pub(super) fn look(&self, opened: OpenFile, most: usize, skipped: &Skipped) -> Option<Matches> {
        if opened.len > MAX_FILE {
            skipped.large.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        match is_binary(&opened.file) {
            Ok(false) => {}
            Ok(true) => return None,
            Err(_) => {
                skipped.unreadable();
                return None;
            }
        }
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let pooled = idle().pop();
        let (mut searcher, matcher) =
            pooled.unwrap_or_else(|| (self.searcher(), self.matcher.clone()));
        let mut sink = Collect {
            matcher: &matcher,
            most,
            context: self.context,
            before: VecDeque::new(),
            matches: Matches {
                lines: Vec::new(),
                has_more: false,
            },
        };
        // A file that grows while it is read ends at the cap.
        let reader = Watched {
            file: opened.file.take(MAX_FILE),
            looker: self,
        };
        let ended = searcher.search_reader(&matcher, reader, &mut sink);
        let matches = sink.matches;
        if let Err(error) = ended {
            if error.kind() == io::ErrorKind::TimedOut {
                self.timed_out.store(true, Ordering::Relaxed);
            } else if error.kind() == io::ErrorKind::Other {
                // The searcher's own word for a buffer that would have to grow too far.
                skipped.long_lined.fetch_add(1, Ordering::Relaxed);
            } else {
                skipped.unreadable();
            }
        }
        idle().push((searcher, matcher));
        Some(matches)
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(MAX_LINE))
            // A mapped file that somebody cuts short would end the process.
            .memory_map(MmapChoice::never())
            .binary_detection(BinaryDetection::none())
            .build()
    }
}

fn is_binary(file: &File) -> io::Result<bool> {
    let mut head = [0; SNIFFED];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(memchr::memchr(0, &head[..filled]).is_some())
}

/// A file whose reading ends when the time is up or the turn is stopped.
struct Watched<'a> {
    file: io::Take<File>,
    looker: &'a Looker,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() >= self.looker.deadline || self.looker.cancel.is_cancelled() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

struct Collect<'a> {
    matcher: &'a RegexMatcher,
    most: usize,
    context: usize,
    before: VecDeque<String>,
    matches: Matches,
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.matches.lines.len() >= self.most {
            self.matches.has_more = true;
            return Ok(false);
        }
        let bytes = found.bytes();
        let at = self
            .matcher
            .find(bytes)
            .ok()
            .flatten()
            .map_or(0, |at| at.start());
        self.matches.lines.push(Line {
            line: found.line_number().unwrap_or_default(),
            text: excerpt(bytes, at),
            before: self.before.drain(..).collect(),
            after: Vec::new(),
        });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        let text = excerpt(line.bytes(), 0);
        match line.kind() {
            SinkContextKind::After => {
                if let Some(last) = self.matches.lines.last_mut() {
                    last.after.push(text);
                }
            }
            SinkContextKind::Before | SinkContextKind::Other => {
                if self.before.len() == self.context {
                    self.before.pop_front();
                }
                self.before.push_back(text);
            }
        }
        Ok(true)
    }
}

/// A line without the space at its end, or the part of a long one around the byte `at`, with `…`
/// where something is left out.
fn excerpt(line: &[u8], at: usize) -> String {
    // Whitespace beyond ASCII is left to the end, where the text is short.
    let line = line.trim_ascii_end();
    if line.len() <= MAX_TEXT {
        return String::from_utf8_lossy(line).trim_end().to_owned();
    }
    // A character has at most four bytes, so this holds every character that could be shown.
    let at = at.min(line.len());
    let from = at.saturating_sub(MAX_TEXT * 4);
    let to = line.len().min(at + MAX_TEXT * 4);
    // The cut may have split a character; what is left of it is not shown.
    let from = from
        + line[from..at]
            .iter()
            .take(3)
            .take_while(|byte| **byte & 0xC0 == 0x80)
            .count()
            * usize::from(from > 0);
    let before: Vec<char> = String::from_utf8_lossy(&line[from..at]).chars().collect();
    let after: Vec<char> = String::from_utf8_lossy(&line[at..to]).chars().collect();
    if from == 0 && to == line.len() && before.len() + after.len() <= MAX_TEXT {
        return before
            .into_iter()
            .chain(after)
            .collect::<String>()
            .trim_end()
            .to_owned();
    }
    let behind = after.len().min(MAX_TEXT - LEAD.min(before.len()));
    let ahead = before.len().min(MAX_TEXT - behind);
    let start = if from > 0 || ahead < before.len() {
        "…"
    } else {
        ""
    };
    let end = if to < line.len() || behind < after.len() {
        "…"
    } else {
        ""
    };
    let shown: String = before[before.len() - ahead..]
        .iter()
        .chain(&after[..behind])
        .collect();
    format!("{start}{shown}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_shown_around_its_match() {
        let check = |line: &str, at: usize, expected: &str| {
            assert_eq!(excerpt(line.as_bytes(), at), expected, "{at}");
        };
        check("short  \t\r\n", 0, "short");
        check("non-breaking\u{a0}\n", 0, "non-breaking");
        let exact = "ä".repeat(500);
        check(&exact, 0, &exact);
        let long = format!("{}NEEDLE{}", "ä".repeat(5_000), "ö".repeat(5_000));
        let around = format!("…{}NEEDLE{}…", "ä".repeat(200), "ö".repeat(294));
        check(&long, 10_000, &around);
        // At either end, the room that is not needed on one side goes to the other.
        check(&long, 0, &format!("{}…", "ä".repeat(500)));
        let tail = format!("{}NEEDLE", "ä".repeat(5_000));
        check(&tail, 10_000, &format!("…{}NEEDLE", "ä".repeat(494)));
    }
}
