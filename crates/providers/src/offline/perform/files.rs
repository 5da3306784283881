//! Lists and finds files.

mod read;
mod search;

use std::collections::BTreeSet;

use serde_json::json;

pub(super) use read::{count_lines, read};
pub(super) use search::search;

use super::here::{Here, parent};
use super::{Desk, Done, Work, optional};
use crate::offline::intent::find::Find;
use crate::offline::intent::search::Search;
use crate::offline::ledger::Record;
use crate::offline::render::{FoundPaths, code, error_words, number, path_list, paths};

/// As many as the searches give at most; counting needs all of them.
const MAX_RESULTS: u64 = 1000;
/// How many found files a following "show them" opens.
const MAX_REMEMBERED: usize = 8;

/// The files `record` gives, or the words for why it gives none.
fn found(record: &Record<'_>) -> Result<FoundPaths, String> {
    if record.is_error {
        return Err(error_words(record.text));
    }
    paths(record.text).ok_or_else(|| "the result of the search is not a list of paths".to_owned())
}

/// How many files there are, in words.
fn counted(found: &FoundPaths) -> String {
    match found.total {
        Some(total) => number(total, "file"),
        None => format!("at least {}", number(found.paths.len(), "file")),
    }
}

/// The most likely one first: the fewest folders down, then the shortest, then by name.
fn likeliest_first(mut paths: Vec<String>) -> Vec<String> {
    paths.sort_by_key(|path| (path.matches('/').count(), path.len(), path.clone()));
    paths.truncate(MAX_REMEMBERED);
    paths
}

/// Why a folder could not be looked into, in words for a person.
fn unsearchable(verb: &str, folder: Option<&str>, words: &str) -> String {
    if let Some(path) = words.strip_prefix("File not found: ") {
        return format!(
            "There is no file or folder {}.",
            code(path.trim_end_matches('.'))
        );
    }
    let folder = folder.map_or_else(String::new, |folder| format!(" {}", code(folder)));
    format!("I could not {verb}{folder}: {words}")
}

/// Shows what a folder holds.
pub(super) fn list(folder: Option<&str>, deep: bool, desk: &mut Desk<'_, '_>) -> Work {
    if !desk.toolbox.has("glob_search") {
        return desk.unavailable("list files");
    }
    let patterns: &[&str] = if deep { &["*", "**/*"] } else { &["*", "*/*"] };
    let calls = patterns
        .iter()
        .map(|pattern| {
            desk.call(
                "glob_search",
                &[
                    ("pattern", json!(pattern)),
                    ("path", optional(folder)),
                    ("max_results", json!(MAX_RESULTS)),
                ],
            )
        })
        .collect();
    let records = desk.ledger.ask_all(calls)?;
    let mut results = Vec::new();
    for record in &records {
        match found(record) {
            Ok(found) => results.push(found),
            Err(words) => {
                return Ok(Done::failed(unsearchable("list", folder, &words)));
            }
        }
    }
    let below = results.pop().unwrap_or_default();
    let direct = results.pop().unwrap_or_default();
    // The folder that was listed: the one its own files lie in, else the one above the others.
    let root = direct
        .paths
        .first()
        .and_then(|file| parent(file))
        .or_else(|| {
            let file = below.paths.first().filter(|_| !deep)?;
            parent(parent(file)?.trim_end_matches('/'))
        })
        .map(str::to_owned);
    if below.paths.is_empty() && direct.paths.is_empty() {
        let place = Here::default().sure(desk)?.name(folder);
        let below = if deep { " or below it" } else { "" };
        return Ok(Done::said(format!("There are no files in {place}{below}.")));
    }
    let title = match (folder.filter(|folder| *folder != "."), &root) {
        (Some(folder), _) => code(folder),
        (None, Some(root)) => code(root.trim_end_matches('/')),
        (None, None) => Here::default().sure(desk)?.name(None),
    };
    // As it can be said from where one is.
    let said = |path: &String| match &root {
        Some(root) => {
            let rest = path.strip_prefix(root.as_str()).unwrap_or(path);
            match folder.map(|folder| folder.trim_end_matches('/')) {
                None | Some(".") => rest.to_owned(),
                Some(folder) => format!("{folder}/{rest}"),
            }
        }
        None => path.clone(),
    };
    if deep {
        let entries: Vec<String> = below.paths.iter().map(said).collect();
        let count = counted(&below);
        return Ok(Done::said(format!(
            "{title} holds {count}, its folders included:\n\n{}",
            path_list(&entries)
        ))
        .about(likeliest_first(below.paths)));
    }
    let folders: BTreeSet<String> = below
        .paths
        .iter()
        .filter_map(|path| parent(path))
        .filter(|folder| Some(*folder) != root.as_deref())
        .map(|folder| said(&folder.to_owned()))
        .collect();
    let is_cut = [&direct, &below]
        .iter()
        .any(|found| found.total != Some(found.paths.len()));
    let mut held = Vec::new();
    if !folders.is_empty() {
        held.push(number(folders.len(), "folder"));
    }
    if !direct.paths.is_empty() {
        held.push(number(direct.paths.len(), "file"));
    }
    let cut = if is_cut {
        " There are more than the search gives at once."
    } else {
        ""
    };
    let mut entries: Vec<String> = folders.into_iter().collect();
    entries.extend(direct.paths.iter().map(said));
    Ok(Done::said(format!(
        "{title} holds {} (folders without files of their own are not shown).{cut}\n\n{}",
        held.join(" and "),
        path_list(&entries)
    ))
    .about(likeliest_first(direct.paths)))
}

/// Finds files by name, or says how many there are.
pub(super) fn find(find: &Find, desk: &mut Desk<'_, '_>) -> Work {
    if !desk.toolbox.has("glob_search") {
        return desk.unavailable("find files");
    }
    let folder = find.folder.as_deref();
    let most = if find.counts {
        json!(MAX_RESULTS)
    } else {
        json!(null)
    };
    let mut calls = vec![desk.call(
        "glob_search",
        &[
            ("pattern", json!(find.pattern)),
            ("path", optional(folder)),
            ("max_results", most),
        ],
    )];
    calls.extend(Here::call(desk));
    let records = desk.ledger.ask_all(calls)?;
    let here = Here::told(records.get(1));
    let found = match found(&records[0]) {
        Ok(found) => found,
        Err(words) => {
            return Ok(Done::failed(unsearchable("search", folder, &words)));
        }
    };
    let is_deep = find.pattern.contains("**");
    let matching = if find.pattern == "**/*" {
        String::new()
    } else {
        format!(" matching {}", code(&find.pattern))
    };
    if found.paths.is_empty() {
        if let Some(word) = find
            .else_search
            .as_ref()
            .filter(|_| desk.toolbox.has("content_search"))
        {
            let plain = Search {
                path: folder.map(str::to_owned),
                ..Search::plain(word)
            };
            let inside = search(&plain, desk)?;
            return Ok(Done {
                text: format!("No file has {} in its name. {}", code(word), inside.text),
                ..inside
            });
        }
        let here = if folder.is_none() {
            here.sure(desk)?
        } else {
            here
        };
        let below = if is_deep { " or below it" } else { "" };
        let text = if find.counts {
            format!(
                "There are no files{matching} in {}{below}.",
                here.name(folder)
            )
        } else {
            format!(
                "I found no files{matching} in {}{below}.",
                here.name(folder)
            )
        };
        return Ok(Done {
            ok: find.counts,
            ..Done::said(text)
        });
    }
    let count = counted(&found);
    let place = here.name(folder);
    if find.counts {
        let verb = if found.paths.len() == 1 { "is" } else { "are" };
        let scope = if is_deep {
            ", all folders below it included"
        } else {
            ""
        };
        return Ok(
            Done::said(format!("There {verb} {count}{matching} in {place}{scope}."))
                .about(here.all(&likeliest_first(found.paths))),
        );
    }
    let text = match found.paths.as_slice() {
        [only] => format!("I found {}.", code(here.shown(only))),
        many => format!(
            "I found {count}{matching} in {place}:\n\n{}",
            path_list(&here.all(many))
        ),
    };
    Ok(Done::said(text).about(here.all(&likeliest_first(found.paths))))
}
