//! Writes, edits and appends.

use serde_json::json;

use super::{Desk, Done, Work};
use crate::offline::render::{FileText, code, error_words, is_not_found, number};

/// Writes `content` to `path`; with `only_new`, not over a file that exists.
pub(super) fn write(path: &str, content: &str, only_new: bool, desk: &mut Desk<'_, '_>) -> Work {
    if !desk.toolbox.has("file_write") || (only_new && !desk.toolbox.has("file_read")) {
        return desk.unavailable("write files");
    }
    if is_document(path) {
        return Ok(Done::failed(no_document(path)));
    }
    if !desk.toolbox.has("file_read") {
        return put(path, content, Before::Unknown, desk);
    }
    // A write replaces the whole file: "create" does not ask for that, and whoever did not know
    // that there was one has to hear of it.
    let look = desk
        .ledger
        .ask(desk.call("file_read", &[("path", json!(path)), ("limit", json!(1))]))?;
    if !look.is_error && only_new {
        return Ok(Done::failed(format!(
            "{} exists already, so I did not create it. To replace all of it, say: write \"the text\" to {path}",
            code(path)
        )));
    }
    let before = if !look.is_error {
        let (.., lines) = FileText::read(path, look.text).lines;
        Before::Lines(lines)
    } else if is_not_found(look.text) {
        Before::Nothing
    } else if only_new {
        return Ok(Done::failed(format!(
            "I did not create {}: {}",
            code(path),
            error_words(look.text)
        )));
    } else {
        Before::Unknown
    };
    put(path, content, before, desk)
}

/// Whether a name is one of a document, which text written into it would break.
fn is_document(path: &str) -> bool {
    let lower = path.to_lowercase();
    [".pdf", ".docx", ".xlsx"]
        .iter()
        .any(|end| lower.ends_with(end))
}

fn no_document(path: &str) -> String {
    format!(
        "I write plain text only, which {} would not be, so I changed nothing.",
        code(path)
    )
}

/// What a path held before something was written to it.
#[derive(Clone, Copy)]
enum Before {
    Unknown,
    Nothing,
    /// A file, with its number of lines where that is known.
    Lines(Option<u64>),
}

fn put(path: &str, content: &str, before: Before, desk: &mut Desk<'_, '_>) -> Work {
    let written = desk.ledger.ask(desk.call(
        "file_write",
        &[("path", json!(path)), ("content", json!(content))],
    ))?;
    desk.ledger.has_changed_things();
    if written.is_error {
        return Ok(Done::failed(format!(
            "I could not write {}: {}",
            code(path),
            error_words(written.text)
        )));
    }
    let size = number(content.len(), "byte");
    let name = code(path);
    let text = match before {
        _ if written.text.contains("unchanged") => {
            format!("{name} already held exactly this text, so nothing changed.")
        }
        Before::Nothing if content.is_empty() => format!("Created {name}, which is empty."),
        Before::Nothing => format!("Created {name} ({size})."),
        Before::Lines(Some(0)) => format!("Wrote {size} to {name}, which was empty."),
        Before::Lines(Some(lines)) => {
            let lines = number(usize::try_from(lines).unwrap_or(usize::MAX), "line");
            format!("Replaced all of {name} ({lines} before, {size} now).")
        }
        Before::Lines(None) => format!("Replaced all of {name} ({size} now)."),
        Before::Unknown => format!("Wrote {size} to {name}."),
    };
    Ok(Done::said(text).about(vec![path.to_owned()]))
}

/// Replaces one piece of text, or all of them.
pub(super) fn edit(path: &str, old: &str, new: &str, all: bool, desk: &mut Desk<'_, '_>) -> Work {
    if !desk.toolbox.has("file_edit") {
        return desk.unavailable("edit files");
    }
    let mut arguments = vec![
        ("path", json!(path)),
        ("old_string", json!(old)),
        ("new_string", json!(new)),
    ];
    if all {
        arguments.push(("replace_all", json!(true)));
    }
    let edited = desk.ledger.ask(desk.call("file_edit", &arguments))?;
    desk.ledger.has_changed_things();
    let name = code(path);
    if !edited.is_error {
        if edited.text.contains("unchanged") {
            return Ok(
                Done::said(format!("{name} already reads so, so nothing changed."))
                    .about(vec![path.to_owned()]),
            );
        }
        let times = edited
            .text
            .strip_prefix("Replaced ")
            .and_then(|rest| rest.split_once(" occurrence"))
            .and_then(|(times, _)| times.parse::<usize>().ok());
        let times = times.map_or_else(String::new, |times| format!(", {}", number(times, "time")));
        let text = if new.is_empty() {
            format!("Removed {} from {name}{times}.", code(old))
        } else {
            format!(
                "Replaced {} with {} in {name}{times}.",
                code(old),
                code(new)
            )
        };
        return Ok(Done::said(text).about(vec![path.to_owned()]));
    }
    Ok(Done::failed(not_edited(
        path,
        old,
        new,
        &error_words(edited.text),
    )))
}

/// Why an edit was not made, in words for a person.
fn not_edited(path: &str, old: &str, new: &str, words: &str) -> String {
    let name = code(path);
    let quotable = |text: &str| !text.contains(['"', '\n']) && text.len() <= 80;
    if words.starts_with("old_string is not unique") {
        let count = words
            .split_once("found ")
            .and_then(|(_, rest)| rest.split_once(' '))
            .map_or("several", |(count, _)| count);
        let lines = words
            .split_once("at lines ")
            .and_then(|(_, rest)| rest.split_once(" of "))
            .map_or_else(String::new, |(lines, _)| format!(" (lines {lines})"));
        let form = if !(quotable(old) && quotable(new)) {
            "replace all \"…\" with \"…\" in the file".to_owned()
        } else if new.is_empty() {
            format!("remove all \"{old}\" from {path}")
        } else {
            format!("replace all \"{old}\" with \"{new}\" in {path}")
        };
        return format!(
            "{} occurs {count} times in {name}{lines}, so I changed nothing.\n\nTo change every one of them, say: {form}\n\
             To change one, quote more of the text around it.",
            code(old)
        );
    }
    if words.starts_with("old_string not found") {
        let hint = words
            .split_once("Nothing in the file")
            .is_none()
            .then(|| words.split_once(". "))
            .flatten()
            .map_or_else(String::new, |(_, hint)| format!("\n\n{}", hint.trim()));
        return format!(
            "{} does not occur in {name}, so I changed nothing.{hint}",
            code(old)
        )
        .trim_end()
        .to_owned();
    }
    if is_not_found(words) {
        return format!("There is no file {name}, so I changed nothing.");
    }
    format!("I did not change {name}: {words}")
}

/// Adds `text` as a line of its own to the end of a file.
///
/// There is no tool that appends. The end of the file is found by reading it, and replaced by
/// itself with the text behind it: that leaves every other byte as it is, which writing back what
/// was read would not.
pub(super) fn append(path: &str, text: &str, desk: &mut Desk<'_, '_>) -> Work {
    if !(desk.toolbox.has("file_read")
        && desk.toolbox.has("file_edit")
        && desk.toolbox.has("file_write"))
    {
        return desk.unavailable("add text to the end of a file");
    }
    if is_document(path) {
        return Ok(Done::failed(no_document(path)));
    }
    let read = desk
        .ledger
        .ask(desk.call("file_read", &[("path", json!(path))]))?;
    if read.is_error {
        if !is_not_found(read.text) {
            return Ok(Done::failed(format!(
                "I did not add anything to {}: {}",
                code(path),
                error_words(read.text)
            )));
        }
        return put(path, &as_line(text), Before::Nothing, desk);
    }
    let file = FileText::read(path, read.text);
    if file.text.is_empty() && file.is_whole() {
        return put(path, &as_line(text), Before::Lines(Some(0)), desk);
    }
    let content = if file.has_remarks {
        file.text
    } else {
        file.text.strip_suffix('\n').unwrap_or(file.text)
    };
    let anchor = anchor(content).filter(|_| file.is_whole());
    let Some(anchor) = anchor else {
        let command = if path.contains(['\'', '`', ' ']) {
            String::new()
        } else {
            format!(" You can quote a command for it: run `printf '%s\\n' 'the text' >> {path}`")
        };
        return Ok(Done::failed(format!(
            "I did not add anything to {}: I add only to text files that I can read to their end.{command}",
            code(path)
        )));
    };
    let line_break = if content.contains("\r\n") || content.ends_with('\r') {
        "\r\n"
    } else {
        "\n"
    };
    let new = format!("{anchor}{line_break}{}", text.trim_end_matches('\n'));
    let edited = desk.ledger.ask(desk.call(
        "file_edit",
        &[
            ("path", json!(path)),
            ("old_string", json!(anchor)),
            ("new_string", json!(new)),
        ],
    ))?;
    desk.ledger.has_changed_things();
    if edited.is_error {
        return Ok(Done::failed(format!(
            "I did not add anything to {}: {}",
            code(path),
            error_words(edited.text)
        )));
    }
    Ok(
        Done::said(format!("Added a line to the end of {}.", code(path)))
            .about(vec![path.to_owned()]),
    )
}

fn as_line(text: &str) -> String {
    if text.ends_with('\n') {
        text.to_owned()
    } else {
        format!("{text}\n")
    }
}

/// The shortest run of whole lines at the end of `content` that occurs nowhere else. The line break
/// after the last line is not part of it.
fn anchor(content: &str) -> Option<&str> {
    let body = content.strip_suffix('\r').unwrap_or(content);
    let mut start = body.len();
    for _ in 0..64 {
        if start == 0 {
            return None;
        }
        start = body[..start]
            .trim_end_matches('\n')
            .rfind('\n')
            .map_or(0, |newline| newline + 1);
        let candidate = &body[start..];
        if !candidate.trim().is_empty() && occurs_once(content, candidate) {
            return Some(candidate);
        }
    }
    None
}

/// Whether `wanted` occurs exactly once, overlapping occurrences counted.
fn occurs_once(text: &str, wanted: &str) -> bool {
    let Some(first) = text.find(wanted) else {
        return false;
    };
    let step = text[first..].chars().next().map_or(1, char::len_utf8);
    !text[first + step..].contains(wanted)
}
