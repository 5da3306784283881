//! Shows files, and finds them when they are somewhere else.

use serde_json::{Value, json};

use super::super::here::{Here, parent};
use super::super::{Desk, Done, Pending, Work};
use super::{MAX_REMEMBERED, MAX_RESULTS, found, likeliest_first, list};
use crate::offline::intent::{Lines, Target};
use crate::offline::ledger::Record;
use crate::offline::near;
use crate::offline::render::{
    FileText, block, code, error_words, is_directory, is_not_found, path_list,
};
use crate::offline::reply;
use crate::offline::values::{base_name, glob_literal};

/// How many files "show them" opens.
const MAX_SHOWN: usize = 4;
/// Said when "it" stands for nothing.
const WHICH: &str = "I do not know which file you mean: I look back only to a message of yours that names exactly one. \
                     Name it: read notes.txt";
/// The usual readme, and the glob when it has another name.
const README: (&str, &str) = ("README.md", "{README,Readme,readme}*");
/// How many similar names are suggested.
const MAX_SUGGESTED: usize = 10;

/// Shows each target.
pub(in crate::offline::perform) fn read(
    targets: &[Target],
    lines: Lines,
    desk: &mut Desk<'_, '_>,
) -> Work {
    if !desk.toolbox.has("file_read") {
        return desk.unavailable("read files");
    }
    let follows = targets.contains(&Target::Previous);
    let targets = resolved(targets, desk.previous);
    if targets.is_empty() {
        return Ok(Done::failed(WHICH));
    }
    let room = desk.room / targets.len();
    let mut texts = Vec::new();
    let mut files = Vec::new();
    let mut pending = Vec::new();
    let mut ok = true;
    for target in &targets {
        match one(target, lines, room, desk) {
            Ok(done) => {
                ok &= done.ok;
                files.extend(done.files);
                texts.push(done.text);
            }
            // Files do not depend on each other, so all of them are opened at the same time.
            Err(Pending(calls)) => pending.extend(calls),
        }
    }
    if !pending.is_empty() {
        return Err(Pending(pending));
    }
    if follows && desk.previous.len() > MAX_SHOWN {
        texts.push(format!("I show at most {MAX_SHOWN} of the files at once."));
    }
    Ok(Done {
        text: texts.join("\n\n"),
        ok,
        files,
    })
}

fn resolved(targets: &[Target], previous: &[String]) -> Vec<Target> {
    let mut resolved = Vec::new();
    for target in targets {
        match target {
            Target::Previous => {
                resolved.extend(previous.iter().take(MAX_SHOWN).cloned().map(Target::Path));
            }
            other => resolved.push(other.clone()),
        }
    }
    resolved
}

fn one(target: &Target, lines: Lines, room: usize, desk: &mut Desk<'_, '_>) -> Work {
    match target {
        Target::Path(path) => {
            let record = open(path, lines, desk)?;
            if !record.is_error {
                return Ok(shown(path, &record, lines, room, desk)?.about(vec![path.clone()]));
            }
            if is_directory(record.text) && desk.toolbox.has("glob_search") {
                return list(Some(path), false, desk);
            }
            if is_not_found(record.text) && desk.toolbox.has("glob_search") {
                return suggested(path, record.text, desk);
            }
            Ok(Done::failed(unreadable(path, record.text)))
        }
        Target::Usual(path, glob) => {
            let record = open(path, lines, desk)?;
            if !record.is_error {
                return Ok(shown(path, &record, lines, room, desk)?.about(vec![(*path).to_owned()]));
            }
            if !is_not_found(record.text) {
                return Ok(Done::failed(unreadable(path, record.text)));
            }
            adopted(path, glob, lines, room, desk)
        }
        Target::Named(name) => {
            let record = open(name, lines, desk)?;
            if !record.is_error {
                return Ok(shown(name, &record, lines, room, desk)?.about(vec![name.clone()]));
            }
            if is_directory(record.text) && desk.toolbox.has("glob_search") {
                return list(Some(name), false, desk);
            }
            if !is_not_found(record.text) {
                return Ok(Done::failed(unreadable(name, record.text)));
            }
            adopted(
                name,
                &format!("**/*{}*", glob_literal(name)),
                lines,
                room,
                desk,
            )
        }
        Target::Project => project(lines, room, desk),
        Target::Previous => Ok(Done::failed(WHICH)),
    }
}

fn open<'a>(path: &str, lines: Lines, desk: &mut Desk<'a, '_>) -> Result<Record<'a>, Pending> {
    let (offset, limit) = match lines {
        // Where the end is, only reading the file tells.
        Lines::All | Lines::Last(_) => (Value::Null, Value::Null),
        Lines::From(first, count) => (
            if first > 1 { json!(first) } else { Value::Null },
            count.map_or(Value::Null, |count| json!(count)),
        ),
    };
    let call = desk.call(
        "file_read",
        &[("path", json!(path)), ("offset", offset), ("limit", limit)],
    );
    desk.ledger.ask(call)
}

/// What a folder is: the readme right in it, else its files.
fn project(lines: Lines, room: usize, desk: &mut Desk<'_, '_>) -> Work {
    let (name, glob) = README;
    let record = open(name, lines, desk)?;
    if !record.is_error {
        return Ok(shown(name, &record, lines, room, desk)?
            .with(reply::only_shown())
            .about(vec![name.to_owned()]));
    }
    if !(is_not_found(record.text) && desk.toolbox.has("glob_search")) {
        return Ok(Done::failed(unreadable(name, record.text)));
    }
    let record = desk
        .ledger
        .ask(desk.call("glob_search", &[("pattern", json!(glob))]))?;
    let paths = found(&record).map(|found| found.paths).unwrap_or_default();
    if let Some(path) = likeliest_first(paths).into_iter().next() {
        let record = open(&path, lines, desk)?;
        if !record.is_error {
            return Ok(shown(&path, &record, lines, room, desk)?
                .with(reply::only_shown())
                .about(vec![path]));
        }
    }
    let mut listed = list(None, false, desk)?;
    listed.text = format!("There is no readme here. {}", listed.text);
    Ok(listed)
}

/// Why a file could not be read, in words for a person.
fn unreadable(path: &str, error: &str) -> String {
    let words = error_words(error);
    let lines = words
        .strip_prefix("offset ")
        .and_then(|rest| rest.split_once(" is past the end: "))
        .and_then(|(_, rest)| rest.rsplit_once(" has "))
        .map(|(_, count)| count.trim_end_matches('.'));
    match lines {
        Some(count) => format!("{} has only {count}.", code(path)),
        None => format!("I could not read {}: {words}", code(path)),
    }
}

/// Finds a file by a glob and shows it when it is the only one, or clearly the nearest.
fn adopted(name: &str, glob: &str, lines: Lines, room: usize, desk: &mut Desk<'_, '_>) -> Work {
    if !desk.toolbox.has("glob_search") {
        return Ok(Done::failed(format!(
            "There is no file called {} here.",
            code(name)
        )));
    }
    let mut calls = vec![desk.call("glob_search", &[("pattern", json!(glob))])];
    calls.extend(Here::call(desk));
    let records = desk.ledger.ask_all(calls)?;
    let here = Here::told(records.get(1));
    let paths = match found(&records[0]) {
        Ok(found) => found.paths,
        Err(words) => {
            return Ok(Done::failed(format!(
                "I could not look for {}: {words}",
                code(name)
            )));
        }
    };
    let sorted = likeliest_first(paths);
    let depth = |path: &String| path.matches('/').count();
    let is_clear = match sorted.as_slice() {
        [] => {
            return Ok(Done::failed(format!(
                "I found no file with {} in its name in {} or below it. Name a file like this: read notes.txt",
                code(name),
                here.sure(desk)?.name(None)
            )));
        }
        [_] => true,
        [first, second, ..] => depth(first) < depth(second),
    };
    if !is_clear {
        return Ok(Done::failed(format!(
            "Several files have {} in their names. Which one shall I read?\n\n{}",
            code(name),
            path_list(&here.all(&sorted))
        ))
        .about(sorted));
    }
    let path = &sorted[0];
    let record = open(path, lines, desk)?;
    if record.is_error {
        return Ok(Done::failed(unreadable(path, record.text)));
    }
    let path = here.shown(path);
    Ok(shown(path, &record, lines, room, desk)?.about(vec![path.to_owned()]))
}

/// A file that is not where it was said to be: the files of that name elsewhere, else those of
/// nearly that name.
fn suggested(path: &str, error: &str, desk: &mut Desk<'_, '_>) -> Work {
    let name = base_name(path);
    let folder = looked_in(path, error);
    let missing = format!("There is no file {} in {folder}.", code(name));
    if name.is_empty() || matches!(name, "." | ".." | "~") {
        return Ok(Done::failed(missing));
    }
    let call = |pattern: String, most: Value, desk: &Desk<'_, '_>| {
        desk.call(
            "glob_search",
            &[("pattern", json!(pattern)), ("max_results", most)],
        )
    };
    let exact = call(format!("**/{}", glob_literal(name)), Value::Null, desk);
    let mut calls = vec![exact];
    calls.extend(Here::call(desk));
    let records = desk.ledger.ask_all(calls)?;
    let here = Here::told(records.get(1));
    let mut paths = found(&records[0])
        .map(|found| likeliest_first(found.paths))
        .unwrap_or_default();
    if paths.is_empty() {
        let all = desk
            .ledger
            .ask(call("**/*".to_owned(), json!(MAX_RESULTS), desk))?;
        let all = found(&all).map(|found| found.paths).unwrap_or_default();
        let near: Vec<&str> = near::names(name, all.iter().map(|path| base_name(path)), 3);
        let same: Vec<String> = all
            .iter()
            .filter(|path| near.contains(&base_name(path)))
            .cloned()
            .collect();
        paths = likeliest_first(same);
    }
    if paths.is_empty() {
        return Ok(Done::failed(format!(
            "{missing} There is none of that name in the folders below {} either.",
            here.sure(desk)?.name(None)
        )));
    }
    let shown = here.all(&paths[..paths.len().min(MAX_SUGGESTED)]);
    Ok(Done::failed(match shown.as_slice() {
        [only] => format!("{missing} Did you mean: read {only}"),
        many => format!(
            "{missing} Did you mean one of these?\n\n{}",
            path_list(many)
        ),
    }))
}

/// The folder in which a file was not found, in words.
fn looked_in(path: &str, error: &str) -> String {
    let words = error_words(error);
    let whole = words
        .lines()
        .next()
        .and_then(|line| line.split_once(": "))
        .map(|(_, whole)| whole.trim_end_matches('.'))
        .filter(|whole| whole.starts_with('/') && base_name(whole) == base_name(path));
    match whole.or(Some(path)).and_then(parent) {
        Some("/") => code("/"),
        Some(folder) => code(folder.trim_end_matches('/')),
        None => "the folder I work in".to_owned(),
    }
}

fn shown(
    path: &str,
    record: &Record<'_>,
    lines: Lines,
    room: usize,
    desk: &mut Desk<'_, '_>,
) -> Work {
    let file = FileText::read(path, record.text);
    let (first, last, total) = file.lines;
    let (Lines::Last(wanted), Some(total)) = (lines, total) else {
        return Ok(Done::said(presented(path, &file, room)));
    };
    let start = total.saturating_sub(wanted) + 1;
    if last < total {
        // The file was longer than one read; its end is a read of its own.
        let call = desk.call(
            "file_read",
            &[("path", json!(path)), ("offset", json!(start))],
        );
        let end = desk.ledger.ask(call)?;
        if end.is_error {
            return Ok(Done::failed(format!(
                "I could not read the end of {}: {}",
                code(path),
                error_words(end.text)
            )));
        }
        return Ok(Done::said(presented(
            path,
            &FileText::read(path, end.text),
            room,
        )));
    }
    let skipped = usize::try_from(start.saturating_sub(first)).unwrap_or(usize::MAX);
    let tail: Vec<&str> = file.text.lines().skip(skipped).collect();
    let tail = FileText {
        text: &tail.join("\n"),
        lines: (start, total, Some(total)),
        ..file
    };
    Ok(Done::said(presented(path, &tail, room)))
}

fn presented(path: &str, file: &FileText<'_>, room: usize) -> String {
    if file.text.trim().is_empty() {
        return format!("{} is empty.", code(path));
    }
    let (first, last, total) = file.lines;
    let (shown, kept) = block(file.text, room);
    let (last_shown, onward) = match kept {
        None => (last, String::new()),
        Some(kept) => {
            let next = first + kept as u64;
            let until = (next + 199).min(last.max(next));
            (
                next.saturating_sub(1),
                format!(
                    "\n\nThe rest is left out here. To go on: read lines {next}-{until} of {path}"
                ),
            )
        }
    };
    let heading = match total {
        Some(1) if first == 1 => "1 line".to_owned(),
        Some(total) if first == 1 && last_shown >= total => format!("{total} lines"),
        _ if first == last_shown => format!("line {first}{}", of(total)),
        _ => format!("lines {first}-{last_shown}{}", of(total)),
    };
    let remarks: String = file
        .notes
        .iter()
        .map(|note| format!("\n\nNote: {note}."))
        .collect();
    format!("{} ({heading}):\n\n{shown}{onward}{remarks}", code(path))
}

fn of(total: Option<u64>) -> String {
    total.map_or_else(String::new, |total| format!(" of {total}"))
}

/// How many lines a file has, or each of the files before.
pub(in crate::offline::perform) fn count_lines(target: &Target, desk: &mut Desk<'_, '_>) -> Work {
    if !desk.toolbox.has("file_read") {
        return desk.unavailable("read files");
    }
    let paths: Vec<String> = match target {
        Target::Path(path) | Target::Named(path) => vec![path.clone()],
        Target::Usual(path, _) => vec![(*path).to_owned()],
        Target::Previous => desk.previous.to_vec(),
        Target::Project => Vec::new(),
    };
    if paths.is_empty() {
        return Ok(Done::failed(WHICH));
    }
    let mut texts = Vec::new();
    let mut pending = Vec::new();
    let mut ok = true;
    for path in &paths {
        match lines_of(path, desk) {
            Ok(done) => {
                ok &= done.ok;
                texts.push(done.text);
            }
            Err(Pending(calls)) => pending.extend(calls),
        }
    }
    if !pending.is_empty() {
        return Err(Pending(pending));
    }
    if *target == Target::Previous && paths.len() >= MAX_REMEMBERED {
        texts.push(format!("I count at most {MAX_REMEMBERED} files at once."));
    }
    Ok(Done {
        text: texts.join("\n"),
        ok,
        files: paths,
    })
}

fn lines_of(path: &str, desk: &mut Desk<'_, '_>) -> Work {
    let record = desk
        .ledger
        .ask(desk.call("file_read", &[("path", json!(path)), ("limit", json!(1))]))?;
    if record.is_error {
        if is_not_found(record.text) && desk.toolbox.has("glob_search") {
            return suggested(path, record.text, desk);
        }
        return Ok(Done::failed(unreadable(path, record.text)));
    }
    let file = FileText::read(path, record.text);
    let (.., total) = file.lines;
    let words = match total {
        _ if file.text.starts_with("binary file, ") => {
            return Ok(Done::failed(format!(
                "{} has no lines: {}.",
                code(path),
                file.text.trim()
            )));
        }
        Some(0) => "is empty".to_owned(),
        Some(1) => "has 1 line".to_owned(),
        Some(total) => format!("has {total} lines"),
        None => {
            return Ok(Done::failed(format!(
                "I cannot tell how many lines {} has; it is too large to count.",
                code(path)
            )));
        }
    };
    Ok(Done::said(format!("{} {words}.", code(path))).about(vec![path.to_owned()]))
}
