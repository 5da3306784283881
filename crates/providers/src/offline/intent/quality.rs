//! Files told apart by what neither their names nor their texts say: size, age, order.
//!
//! No tool on offer knows these, and a pattern made of such words would find the wrong files, so
//! the answer is the command that knows.

use super::clause::{position, starts_with};
use super::find::Find;
use super::{Intent, place};
use crate::offline::values::is_path;
use crate::offline::words::Word;

const OPENINGS: [&str; 22] = [
    "open", "read", "view", "find", "list", "show", "which", "what", "search", "get", "give",
    "are", "is", "locate", "files", "file", "display", "count", "how", "do", "any", "look",
];
const THINGS: [&str; 7] = [
    "file",
    "files",
    "folder",
    "folders",
    "directories",
    "everything",
    "anything",
];
const CHANGED: [&str; 8] = [
    "changed", "modified", "edited", "updated", "created", "touched", "newer", "older",
];
const WHEN: [&str; 14] = [
    "today",
    "yesterday",
    "recently",
    "lately",
    "week",
    "month",
    "hour",
    "hours",
    "days",
    "day",
    "since",
    "last",
    "ago",
    "this",
];

/// The request for files with a property; `None` when the clause names none.
pub(super) fn read(words: &[Word]) -> Option<Intent> {
    if let Some(intent) = of_one_file(words) {
        return Some(intent);
    }
    if !words[0].is_one_of(&OPENINGS) {
        return None;
    }
    let things = position(words, &THINGS).is_some();
    let timed = position(words, &CHANGED).is_some() && position(words, &WHEN).is_some();
    // "What changed today" speaks of files without saying so.
    if !(things || (timed && words[0].is_one_of(&["what", "show", "list"]))) {
        return None;
    }
    let place = place::at_end(words);
    let folder = place.folder.clone().filter(|folder| is_safe(folder));
    if position(words, &["hidden"]).is_some() && position(words, &["file", "files"]).is_some() {
        return Some(Intent::Find(Find {
            pattern: "**/.*".to_owned(),
            wanted: "hidden files".to_owned(),
            folder: place.folder,
            counts: starts_with(words, &["how", "many"]) || words[0].is("count"),
            else_search: None,
        }));
    }
    let (what, command) = command(words, timed, folder.as_deref().unwrap_or("."))?;
    let command = command.map_or_else(String::new, |command| {
        format!(" A quoted command does: run `{command}`")
    });
    Some(Intent::Declined(format!(
        "I find files by their names or by what is written in them; I do not know {what}.{command}"
    )))
}

/// "How big is notes.txt?", "how many words are in notes.txt?", "sort notes.txt".
fn of_one_file(words: &[Word]) -> Option<Intent> {
    let mut named = words
        .iter()
        .filter(|word| is_path(&word.text) && is_safe(&word.text));
    let (Some(file), None) = (named.next(), named.next()) else {
        return None;
    };
    let has = |wanted: &[&str]| position(words, wanted).is_some();
    let name = &file.text;
    let asks = words[0].is_one_of(&["how", "what", "when", "count", "show", "get", "who", "tell"]);
    let command = if asks && has(&["word", "words"]) && has(&["many", "count", "number"]) {
        format!("wc -w {name}")
    } else if asks && has(&["characters", "bytes"]) && has(&["many", "count", "number"])
        || asks && has(&["big", "large", "size"])
    {
        format!("wc -c {name}")
    } else if words[0].is("when") && (has(&CHANGED) || has(&["written", "saved"]))
        || asks && has(&["owner", "owns", "permissions"])
    {
        format!("ls -l {name}")
    } else if words[0].is("sort") {
        format!("sort {name}")
    } else {
        return None;
    };
    Some(Intent::Declined(format!(
        "No tool of mine tells that. A quoted command does: run `{command}`"
    )))
}

/// What is asked about, and the command that tells.
fn command(words: &[Word], timed: bool, folder: &str) -> Option<(&'static str, Option<String>)> {
    let has = |wanted: &[&str]| position(words, wanted).is_some();
    let pair = |first: &str, second: &str| {
        words
            .windows(2)
            .any(|pair| pair[0].is(first) && pair[1].is(second))
    };
    let size = "their sizes";
    if has(&[
        "bigger", "larger", "greater", "over", "above", "smaller", "under", "below", "less",
    ]) && let Some(limit) = words.iter().enumerate().find_map(|(at, word)| {
        let unit = words.get(at + 1).map_or("", |unit| unit.lower.as_str());
        amount(&word.lower, unit)
    }) {
        let sign = if has(&["smaller", "under", "below", "less"]) {
            '-'
        } else {
            '+'
        };
        return Some((
            size,
            Some(format!("find {folder} -type f -size {sign}{limit}")),
        ));
    }
    if timed {
        let span = if has(&["hour", "hours"]) {
            "-mmin -60"
        } else if has(&["week", "recently", "lately"]) {
            "-mtime -7"
        } else if has(&["month"]) {
            "-mtime -30"
        } else if has(&["yesterday"]) {
            "-mtime -2"
        } else {
            "-mtime -1"
        };
        return Some((
            "when they were changed",
            Some(format!("find {folder} -type f {span}")),
        ));
    }
    if pair("by", "size") || has(&["biggest", "largest", "smallest"]) {
        return Some((
            size,
            Some(if has(&["smallest"]) {
                format!("ls -lrS {folder}")
            } else {
                format!("ls -lS {folder}")
            }),
        ));
    }
    if has(&[
        "large", "larger", "big", "bigger", "huge", "small", "smaller",
    ]) {
        return Some((size, Some(format!("find {folder} -type f -size +1M"))));
    }
    if has(&["newest", "latest"]) || pair("most", "recent") {
        return Some((
            "when they were changed",
            Some(format!("ls -t {folder} | head -1")),
        ));
    }
    if has(&["oldest"]) {
        return Some((
            "when they were changed",
            Some(format!("ls -tr {folder} | head -1")),
        ));
    }
    if has(&["recent", "recently", "old", "new", "older", "newer"])
        || pair("by", "date")
        || pair("by", "time")
        || pair("by", "age")
    {
        return Some(("when they were changed", Some(format!("ls -lt {folder}"))));
    }
    if has(&["empty"]) {
        return Some((
            "whether they are empty",
            Some(format!("find {folder} -empty")),
        ));
    }
    if has(&["executable", "executables"]) {
        return Some((
            "whether they can be executed",
            Some(format!("find {folder} -type f -perm -u+x")),
        ));
    }
    if has(&["duplicate", "duplicates", "duplicated"]) {
        return Some((
            "which of them are the same",
            Some(format!("find {folder} -type f -exec cksum {{}} + | sort")),
        ));
    }
    has(&["unused"]).then_some(("whether anything uses them", None))
}

/// "1mb" or "1" before "mb", as `find -size` writes it.
fn amount(word: &str, next: &str) -> Option<String> {
    let digits = word.len()
        - word
            .trim_start_matches(|each: char| each.is_ascii_digit())
            .len();
    let (number, unit) = word.split_at(digits);
    if number.is_empty() || number.len() > 9 {
        return None;
    }
    let unit = match if unit.is_empty() { next } else { unit } {
        "k" | "kb" | "kib" | "kilobyte" | "kilobytes" => "k",
        "m" | "mb" | "mib" | "megabyte" | "megabytes" => "M",
        "g" | "gb" | "gib" | "gigabyte" | "gigabytes" => "G",
        "byte" | "bytes" | "b" => "c",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// Whether a name can stand in a command as it is.
fn is_safe(name: &str) -> bool {
    !name.starts_with('-')
        && name
            .chars()
            .all(|each| each.is_alphanumeric() || matches!(each, '/' | '.' | '_' | '-' | '~'))
}
