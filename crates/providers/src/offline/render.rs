//! Tool results as a person reads them. Results are data: nothing here looks for instructions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use fermix_types::text::{prefix, shortened};
use serde_json::Value;

/// The most entries of a list that are shown.
pub(super) const MAX_LISTED: usize = 60;
/// The most of one line of a search that is shown, in bytes.
const MAX_LINE: usize = 240;

/// A result's text and the remarks behind it.
pub(super) fn without_notes(text: &str) -> (&str, Vec<&str>) {
    split_notes(text, |_, _| true)
}

fn split_notes(text: &str, is_note: impl Fn(&str, &str) -> bool) -> (&str, Vec<&str>) {
    let mut rest = text;
    let mut notes = Vec::new();
    loop {
        let (before, line) = rest.rsplit_once('\n').unwrap_or(("", rest));
        let note = line
            .strip_prefix("[note: ")
            .and_then(|note| note.strip_suffix(']'))
            .filter(|note| is_note(note, before));
        let Some(note) = note else {
            break;
        };
        notes.insert(0, note);
        rest = before;
    }
    (rest, notes)
}

/// What a read gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileText<'a> {
    /// The lines.
    pub(super) text: &'a str,
    /// Remarks other than which lines these are.
    pub(super) notes: Vec<&'a str>,
    /// The first and the last line, and how many the file has when that is known.
    pub(super) lines: (u64, u64, Option<u64>),
    /// Whether there were remarks; the line break in front of them may have been the file's.
    pub(super) has_remarks: bool,
}

impl<'a> FileText<'a> {
    /// Reads the result of reading `path`. A file may itself end with lines that look like
    /// remarks, so of a text file only the remarks that reads are known to make count.
    pub(super) fn read(path: &str, text: &'a str) -> Self {
        let lower = path.to_lowercase();
        let is_document = [".pdf", ".docx", ".xlsx"]
            .iter()
            .any(|end| lower.ends_with(end));
        let (text, mut notes) = split_notes(text, |note, before| {
            is_document
                || span(note).is_some_and(|lines| fits(before, lines))
                || note == "the file is empty"
                || note.starts_with("decoded from ")
                || note.starts_with("bytes that are not text ")
        });
        let has_remarks = !notes.is_empty();
        // The last one is the read's own, whatever the file says before it.
        let given = notes.iter().rev().find_map(|note| span(note));
        notes.retain(|note| span(note).is_none());
        // A read that says nothing about lines gave all of them.
        let count = text.lines().count() as u64;
        Self {
            text,
            notes,
            lines: given.unwrap_or((1, count, Some(count))),
            has_remarks,
        }
    }

    /// Whether these are all lines of the file, as they are in it.
    pub(super) fn is_whole(&self) -> bool {
        let (first, last, total) = self.lines;
        let says_empty = self.notes == ["the file is empty"];
        first == 1 && total == Some(last) && (self.notes.is_empty() || says_empty)
    }
}

/// Whether `text` can be the lines of which a remark speaks: the last line may be blank, and a line
/// about a cut may follow.
fn fits(text: &str, (first, last, _): (u64, u64, Option<u64>)) -> bool {
    let said = last.saturating_sub(first) + 1;
    said.abs_diff(text.lines().count() as u64) <= 1
}

/// "lines 3-9 of 40".
fn span(note: &str) -> Option<(u64, u64, Option<u64>)> {
    let words = note.strip_prefix("lines ")?;
    let (span, total) = match words.split_once(" of ") {
        Some((span, total)) => (span, Some(total.parse().ok()?)),
        None => (words, None),
    };
    let (first, last) = span.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?, total))
}

/// What outside text says, without the frame around it, and whether there was one.
pub(super) fn unframed(text: &str) -> (String, bool) {
    let Some(start) = text.find("<untrusted_tool_result ") else {
        return (text.to_owned(), false);
    };
    let inside = text[start..]
        .split_once(">\n")
        .map(|(_, inside)| inside)
        .and_then(|inside| inside.split_once("\n\n"))
        .map_or("", |(_notice, content)| content);
    let (content, after) = inside
        .rsplit_once("</untrusted_tool_result>")
        .unwrap_or((inside, ""));
    (
        format!("{}{}{after}", &text[..start], content.trim_end()),
        true,
    )
}

/// An error's words without the prefix the dispatcher puts in front.
pub(super) fn error_words(text: &str) -> String {
    let (text, _) = unframed(text);
    let words = text
        .strip_prefix("Error executing tool: ")
        .or_else(|| text.strip_prefix("Error: "))
        .unwrap_or(&text);
    shortened(words.trim(), 1500)
}

/// Whether an error says that there is no such file.
pub(super) fn is_not_found(text: &str) -> bool {
    let words = first_line(&error_words(text)).to_lowercase();
    words.contains("not found") || words.contains("no such file")
}

/// Whether an error says that the path is a folder.
pub(super) fn is_directory(text: &str) -> bool {
    let words = first_line(&error_words(text)).to_lowercase();
    words.contains("is a directory") || words.contains("is a folder")
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Text in a block that it cannot close, at most `cap` bytes. Also how many whole lines are shown
/// when some are left out.
pub(super) fn block(text: &str, cap: usize) -> (String, Option<usize>) {
    let text = text.trim_end_matches(['\n', '\r']);
    let mut shown = prefix(text, cap);
    let mut lines = None;
    if shown.len() < text.len() {
        shown = shown.rsplit_once('\n').map_or(shown, |(whole, _)| whole);
        lines = Some(shown.lines().count());
    }
    let longest = shown
        .split(|each| each != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    (format!("{fence}\n{shown}\n{fence}"), lines)
}

/// Text as inline code, on one line.
pub(super) fn code(text: &str) -> String {
    let text = shortened(text, 300).replace(['\n', '\r'], " ");
    if text.contains('`') {
        format!("\"{text}\"")
    } else {
        format!("`{text}`")
    }
}

/// The first JSON value of a result.
pub(super) fn json(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text)
        .into_iter()
        .next()?
        .ok()
}

/// The files of one search for names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundPaths {
    pub(super) paths: Vec<String>,
    /// How many there are, when the search could count them.
    pub(super) total: Option<usize>,
}

/// The paths of a file search.
pub(super) fn paths(text: &str) -> Option<FoundPaths> {
    let (body, notes) = without_notes(text);
    let Value::Array(items) = json(body)? else {
        return None;
    };
    let paths: Vec<String> = items
        .into_iter()
        .filter_map(|item| match item {
            Value::String(path) => Some(path),
            _ => None,
        })
        .collect();
    let truncated: Vec<&str> = notes
        .into_iter()
        .filter(|note| note.starts_with("truncated"))
        .collect();
    // "The first 1000 of 1234 files": a search that saw everything says how many there are.
    let counted = |note: &str| {
        let (_, after) = note.split_once("the first ")?.1.split_once(" of ")?;
        after.split_once(" files")?.0.parse().ok()
    };
    let total = match truncated.as_slice() {
        [] => Some(paths.len()),
        [note] => counted(note),
        _ => None,
    };
    Some(FoundPaths { paths, total })
}

/// One line that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundLine {
    pub(super) path: String,
    pub(super) line: u64,
    pub(super) text: String,
}

/// The lines of a content search, and whether there are more than it gave.
pub(super) fn found_lines(text: &str) -> Option<(Vec<FoundLine>, bool)> {
    let (body, notes) = without_notes(text);
    let value = json(body)?;
    let lines = value
        .get("matches")?
        .as_array()?
        .iter()
        .filter_map(|entry| {
            Some(FoundLine {
                path: entry.get("path")?.as_str()?.to_owned(),
                line: entry.get("line")?.as_u64()?,
                text: entry
                    .get("text")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
            })
        });
    let flagged = |key| value.get(key).and_then(Value::as_bool).unwrap_or(false);
    let cut = flagged("truncated")
        || flagged("timed_out")
        || notes.iter().any(|note| note.contains("truncated"));
    Some((lines.collect(), cut))
}

/// `paths` as a list.
pub(super) fn path_list(paths: &[String]) -> String {
    let mut list = String::new();
    for path in paths.iter().take(MAX_LISTED) {
        let _ = writeln!(list, "- {}", shortened(path, MAX_LINE));
    }
    if paths.len() > MAX_LISTED {
        let _ = writeln!(list, "- … and {} more", paths.len() - MAX_LISTED);
    }
    list.trim_end().to_owned()
}

/// Found lines as `path:line: text`, which editors and terminals can open; at most `most`.
pub(super) fn line_list<'a>(
    lines: &'a [FoundLine],
    most: usize,
    shown: impl Fn(&'a str) -> &'a str,
) -> String {
    let mut list = String::new();
    for found in lines.iter().take(most) {
        let _ = writeln!(list, "{}", line(found, shown(&found.path)));
    }
    if lines.len() > most {
        let _ = writeln!(list, "… and {} more lines", lines.len() - most);
    }
    list.trim_end().to_owned()
}

/// Each file once, as its first line that was found, and how many more of them it holds.
pub(super) fn file_list<'a>(
    lines: &'a [FoundLine],
    counts: &BTreeMap<&str, usize>,
    shown: impl Fn(&'a str) -> &'a str,
) -> String {
    let mut list = String::new();
    let mut listed = BTreeSet::new();
    for found in lines {
        if listed.len() == MAX_LISTED {
            break;
        }
        if !listed.insert(found.path.as_str()) {
            continue;
        }
        let more = counts.get(found.path.as_str()).map_or(0, |count| count - 1);
        let more = if more == 0 {
            String::new()
        } else {
            format!(" (and {})", number(more, "more line"))
        };
        let _ = writeln!(list, "{}{more}", line(found, shown(&found.path)));
    }
    if counts.len() > MAX_LISTED {
        let _ = writeln!(list, "… and {} more files", counts.len() - MAX_LISTED);
    }
    list.trim_end().to_owned()
}

fn line(found: &FoundLine, path: &str) -> String {
    let text = shortened(found.text.trim(), MAX_LINE);
    format!("{path}:{}: {text}", found.line)
}

/// "1 file", "3 files".
pub(super) fn number(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}
