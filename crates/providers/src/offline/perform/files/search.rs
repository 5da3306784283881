//! Searches inside files.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::here::Here;
use super::super::{Desk, Done, Work, optional};
use super::{MAX_REMEMBERED, MAX_RESULTS, unsearchable};
use crate::offline::intent::Report;
use crate::offline::intent::search::Search;
use crate::offline::ledger::Call;
use crate::offline::render::{
    FoundLine, MAX_LISTED, code, error_words, file_list, found_lines, line_list, number, paths,
};

/// How many places of a definition are shown.
const MAX_PLACES: usize = 10;
/// Ends of names of files that speak about code and are none.
const PROSE: [&str; 9] = [
    ".md", ".txt", ".rst", ".adoc", ".html", ".json", ".csv", ".log", ".snap",
];

/// Searches inside files.
pub(in crate::offline::perform) fn search(search: &Search, desk: &mut Desk<'_, '_>) -> Work {
    if !desk.toolbox.has("content_search") {
        return desk.unavailable("search inside files");
    }
    let mut calls = vec![look_inside(search, search.ignore_case, desk)];
    calls.extend(Here::call(desk));
    let records = desk.ledger.ask_all(calls)?;
    let here = Here::told(records.get(1));
    let record = &records[0];
    if record.is_error {
        return Ok(Done::failed(unsearchable(
            "search",
            search.path.as_deref(),
            &error_words(record.text),
        )));
    }
    let Some((lines, is_cut)) = found_lines(record.text) else {
        return Ok(Done::failed(
            "The search gave a result that I cannot read.".to_owned(),
        ));
    };
    if let Some(name) = &search.definition_of {
        return definitions(search, name, &lines, &here, desk);
    }
    let mut what = code(&search.pattern);
    if search.ignore_case {
        what.push_str(" in upper or lower case");
    }
    if !lines.is_empty() {
        return Ok(reported(search, &lines, is_cut, &what, &here));
    }
    // A name is often remembered in the wrong case.
    let may_differ =
        !search.ignore_case && search.pattern.chars().any(char::is_alphabetic) && !is_cut;
    let retried = if may_differ {
        let record = desk.ledger.ask(look_inside(search, true, desk))?;
        found_lines(record.text).filter(|_| !record.is_error)
    } else {
        None
    };
    if let Some((lines, is_cut)) = retried.filter(|(lines, _)| !lines.is_empty()) {
        let done = reported(
            search,
            &lines,
            is_cut,
            &format!("{what} in another case"),
            &here,
        );
        return Ok(Done {
            text: format!("No line has exactly {what}. {}", done.text),
            ..done
        });
    }
    nothing(search, &what, may_differ, is_cut, here, desk)
}

/// The answer when no line was found.
fn nothing(
    search: &Search,
    what: &str,
    in_any_case: bool,
    is_cut: bool,
    here: Here,
    desk: &mut Desk<'_, '_>,
) -> Work {
    let here = if search.path.is_none() {
        here.sure(desk)?
    } else {
        here
    };
    let mut place = here.name(search.path.as_deref());
    if let Some(glob) = &search.glob {
        place.push_str(&format!(" in {} files", code(glob)));
    }
    let mut text = if search.guessed {
        format!(
            "I took all of {} as the text to look for, and no line in {place} has it. If only a part of that is meant, \
             quote it: search for \"{}\"",
            code(&search.pattern),
            search.pattern.split_whitespace().next().unwrap_or_default()
        )
    } else {
        let case = if in_any_case {
            ", upper and lower case alike"
        } else {
            ""
        };
        format!("I found no line with {what} in {place}{case}.")
    };
    if is_cut {
        text.push_str(" The search ended early, so there may still be some.");
    }
    if leaves_out(search) && desk.toolbox.takes("content_search", "respect_gitignore") {
        let ignores = desk.toolbox.has("glob_search").then(|| {
            desk.call(
                "glob_search",
                &[
                    ("pattern", json!("{.gitignore,*/.gitignore}")),
                    ("max_results", json!(1)),
                ],
            )
        });
        let ignores_some = match ignores {
            Some(call) => {
                let record = desk.ledger.ask(call)?;
                record.is_error || paths(record.text).is_none_or(|found| !found.paths.is_empty())
            }
            None => true,
        };
        if ignores_some {
            text.push_str(
                " Files that git ignores were left out; add \"in all files, ignored ones too\" to include them.",
            );
        }
    }
    Ok(Done {
        ok: search.report == Report::Count,
        ..Done::said(text)
    })
}

/// Where a name is defined, else where it is mentioned.
fn definitions(
    search: &Search,
    name: &str,
    lines: &[FoundLine],
    here: &Here,
    desk: &mut Desk<'_, '_>,
) -> Work {
    let source: Vec<FoundLine> = lines
        .iter()
        .filter(|found| {
            let path = found.path.to_lowercase();
            !PROSE.iter().any(|end| path.ends_with(end))
        })
        .cloned()
        .collect();
    if !source.is_empty() {
        let mut files: Vec<String> = source.iter().map(|found| found.path.clone()).collect();
        files.dedup();
        files.truncate(MAX_REMEMBERED);
        let text = format!(
            "{} is defined here:\n\n{}",
            code(name),
            line_list(&source, MAX_PLACES, |path| here.shown(path))
        );
        return Ok(Done::said(text).about(here.all(&files)));
    }
    let mention = Search {
        path: search.path.clone(),
        glob: search.glob.clone(),
        ..Search::plain(name)
    };
    let record = desk.ledger.ask(look_inside(&mention, false, desk))?;
    let (lines, is_cut) = found_lines(record.text)
        .filter(|_| !record.is_error)
        .unwrap_or_default();
    let what = code(name);
    if lines.is_empty() {
        return nothing(&mention, &what, false, is_cut, here.clone(), desk);
    }
    let done = reported(&mention, &lines, is_cut, &what, here);
    Ok(Done {
        text: format!(
            "No line of code in {} looks like the definition of {what}. {}",
            here.name(search.path.as_deref()),
            done.text
        ),
        ..done
    })
}

/// Whether files that git ignores are left out. They are mostly built, fetched or cached; whoever
/// names a place, or them, wants all that is there.
fn leaves_out(search: &Search) -> bool {
    search.path.is_none() && !search.all_files
}

fn look_inside(search: &Search, ignore_case: bool, desk: &Desk<'_, '_>) -> Call {
    let most = if search.report == Report::Lines {
        json!(null)
    } else {
        json!(MAX_RESULTS)
    };
    let pattern = match (ignore_case, search.regex) {
        (false, _) => search.pattern.clone(),
        (true, true) => format!("(?i){}", search.pattern),
        (true, false) => format!("(?i){}", regex::escape(&search.pattern)),
    };
    let is_regex = search.regex || ignore_case;
    desk.call(
        "content_search",
        &[
            ("pattern", json!(pattern)),
            ("path", optional(search.path.as_deref())),
            ("regex", if is_regex { json!(true) } else { json!(null) }),
            ("glob", optional(search.glob.as_deref())),
            (
                "respect_gitignore",
                if leaves_out(search) {
                    json!(true)
                } else {
                    json!(null)
                },
            ),
            ("max_results", most),
        ],
    )
}

fn reported(search: &Search, lines: &[FoundLine], is_cut: bool, what: &str, here: &Here) -> Done {
    let mut place = format!(" in {}", here.name(search.path.as_deref()));
    if let Some(glob) = &search.glob {
        place.push_str(&format!(" ({} files)", code(glob)));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for found in lines {
        *counts.entry(&found.path).or_default() += 1;
    }
    let mut files: Vec<String> = counts.keys().map(|path| (*path).to_owned()).collect();
    let least = if is_cut { "at least " } else { "" };
    let is_one_file =
        matches!(files.as_slice(), [only] if search.path.as_deref() == Some(here.shown(only)));
    let summary = if is_one_file {
        format!("{least}{}", number(lines.len(), "line"))
    } else {
        format!(
            "{least}{} of {}",
            number(lines.len(), "line"),
            number(files.len(), "file")
        )
    };
    let text = match search.report {
        Report::Count => format!("I found {what} on {summary}{place}."),
        Report::Files => format!(
            "I found {what} on {summary}{place}:\n\n{}",
            file_list(lines, &counts, |path| here.shown(path))
        ),
        Report::Lines => format!(
            "I found {what} on {summary}{place}:\n\n{}",
            line_list(lines, MAX_LISTED, |path| here.shown(path))
        ),
    };
    files.truncate(MAX_REMEMBERED);
    Done::said(text).about(here.all(&files))
}
