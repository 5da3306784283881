//! File by file: length, module docs, forbidden words, paths of somebody's machine.

use std::path::Path;

use ignore::WalkBuilder;

use super::Problem;
use crate::TaskError;

/// The longest a source file may be, in lines, tests included.
const MAX_LINES: usize = 600;

/// The lint that keeps dangerous calls behind their doors. Silencing it is what owners do.
const DOOR_LINT: &str = "clippy::disallowed_methods";

/// The folders whose code stands behind a door: HTTP clients, processes, the environment; and
/// this tool, which starts cargo.
const DOORS: &[&str] = &[
    "crates/net/",
    "crates/sandbox/",
    "crates/config/",
    "xtask/src/process.rs",
];

/// The call that vouches for the owner's presence, split, or this file would hold it.
const VOUCHING: &str = concat!("vouched_by_", "ingress");

/// Where it is defined, and the ingress, which alone may make it.
const INGRESS: &[&str] = &["crates/channels/", "crates/capability/src/caller.rs"];

/// Macros that mark unfinished work, without their exclamation mark.
const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];

/// Beginnings of paths that exist on one machine only. Split, or this file would hold them.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// The parent of people's folders; a person below it is somebody's machine.
const PEOPLE: &str = concat!("/ho", "me/");

/// Names below [`PEOPLE`] that stand for anybody.
const ANYBODY: &[&str] = &["user", "owner"];

/// Checks every file that is not ignored.
pub(super) fn check(root: &Path) -> Result<Vec<Problem>, TaskError> {
    let mut problems = Vec::new();
    let walk = WalkBuilder::new(root)
        .hidden(false)
        // The tree must be judged alike in a clone, in an archive and before the first commit.
        .require_git(false)
        .git_global(false)
        .git_exclude(false)
        .parents(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_path(Path::cmp)
        .build();
    for entry in walk {
        let entry = entry?;
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let bytes = std::fs::read(entry.path()).map_err(TaskError::file(entry.path()))?;
        // Binary fixtures have no lines to judge.
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
        let path = path.to_string_lossy().replace('\\', "/");
        problems.extend(check_text(&path, &text));
    }
    Ok(problems)
}

/// Checks one file, given its path in the workspace and its text.
pub fn check_text(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut flag = |line: usize, what: String| {
        problems.push(Problem {
            path: path.to_owned(),
            line,
            what,
        });
    };
    // The lock file names registries and nothing of ours.
    if path != "Cargo.lock" {
        for (index, line) in text.lines().enumerate() {
            if let Some(found) = machine_path(line) {
                flag(index + 1, format!("{found:?} is a path of one machine"));
            }
        }
    }
    if !path.ends_with(".rs") {
        return problems;
    }
    let length = text.lines().count();
    if length > MAX_LINES {
        flag(
            0,
            format!("{length} lines, at most {MAX_LINES}; move the second idea to its own file"),
        );
    }
    if !starts_with_module_doc(text) {
        flag(1, "starts without a module doc (`//!`)".to_owned());
    }
    let mut in_tests = is_test_file(path);
    for (index, line) in text.lines().enumerate() {
        in_tests = in_tests || line.trim_start().starts_with("#[cfg(test)]");
        let code = line.split("//").next().unwrap_or_default();
        if let Some(name) = UNFINISHED.iter().find(|name| calls_macro(code, name)) {
            flag(index + 1, format!("`{name}!` marks unfinished work"));
        }
        let is_ingress = INGRESS.iter().any(|place| path.starts_with(place));
        if code.contains(VOUCHING) && !in_tests && !is_ingress {
            flag(
                index + 1,
                format!("`{VOUCHING}` is called outside the ingress, which alone stamps trust"),
            );
        }
        let has_door = DOORS.iter().any(|door| path.starts_with(door));
        if code.contains(DOOR_LINT) && !in_tests && !has_door && !is_string(code, DOOR_LINT) {
            flag(
                index + 1,
                format!("{DOOR_LINT} is silenced outside the crates that own a door"),
            );
        }
    }
    problems
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
}

/// Inner attributes may come before the module doc, nothing else may.
fn starts_with_module_doc(text: &str) -> bool {
    let mut open_brackets = 0_usize;
    for line in text.lines().map(str::trim) {
        if open_brackets == 0 {
            if line.starts_with("//!") {
                return true;
            }
            if !line.is_empty() && !line.starts_with("#![") && !line.starts_with("// ") {
                return false;
            }
        }
        if line.starts_with("//") {
            continue;
        }
        open_brackets += line.matches('[').count();
        open_brackets = open_brackets.saturating_sub(line.matches(']').count());
    }
    false
}

fn calls_macro(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let is_word_start = !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"');
        is_word_start && code[at + name.len()..].starts_with(['!']) && {
            let after = code[at + name.len() + 1..].trim_start();
            after.starts_with(['(', '[', '{'])
        }
    })
}

/// Whether `word` stands right after a quotation mark: data, not an attribute.
fn is_string(code: &str, word: &str) -> bool {
    code.contains(&format!("\"{word}\""))
}

/// The first path of one machine in `line`.
fn machine_path(line: &str) -> Option<&str> {
    let fixed = MACHINE_PATHS.iter().flat_map(|start| {
        line.match_indices(start)
            .map(move |(at, _)| (at, start.len()))
    });
    let people = line.match_indices(PEOPLE).filter_map(|(at, _)| {
        let name = line[at + PEOPLE.len()..].split_once('/')?.0;
        let is_name = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        (is_name && !ANYBODY.contains(&name)).then_some((at, PEOPLE.len() + name.len() + 1))
    });
    // In the middle of a longer path or address it is an ordinary folder name.
    fixed
        .chain(people)
        .find(|(at, _)| {
            let before = line[..*at].chars().next_back();
            !before.is_some_and(|c| {
                c.is_alphanumeric() || matches!(c, '.' | '_' | '~' | '-' | '/' | '}' | '>' | '*')
            })
        })
        .map(|(at, length)| &line[at..at + length])
}
