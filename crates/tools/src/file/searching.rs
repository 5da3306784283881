//! What the two searches have in common: where they start, how many results they give, and what
//! they say when they did not see everything.

use std::ops::RangeInclusive;
use std::path::{Component, Path};

use fermix_sandbox::{FileError, ReadablePath, Sandbox, Scope, Stopped, WalkSummary};
use fermix_types::ToolError;

/// The number of results unless the call says otherwise, and the most (spec/02 §4.5, §4.6).
pub(super) const DEFAULT_RESULTS: usize = 200;
const MAX_RESULTS: i64 = 1_000;
/// Room for the notes below the largest answer, in bytes.
const NOTES_ROOM: usize = 4 * 1024;
/// The most threads of one search. Several searches may run at once.
const MAX_THREADS: usize = 4;

/// The folder or file a search starts at. It exists.
pub(super) fn start(
    sandbox: &Sandbox,
    path: Option<&str>,
    scope: &Scope,
) -> Result<ReadablePath, ToolError> {
    if let Some(path) = path
        && climbs(path)
    {
        return Err(ToolError::new(
            "invalid_path",
            format!(
                "Path traversal is not allowed: `{path}`. Give the folder itself, without `..`"
            ),
        ));
    }
    let root = sandbox.search_root(path, scope)?;
    if root.exists() {
        Ok(root)
    } else {
        Err(FileError::NotFound(root.path().to_owned()).into())
    }
}

/// Whether a path or pattern has a `..` component.
pub(super) fn climbs(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// `wanted` within `range`, and a remark when it was not.
pub(super) fn clamped(
    name: &str,
    wanted: Option<i64>,
    default: i64,
    range: RangeInclusive<i64>,
) -> (usize, Option<String>) {
    let (least, most) = range.into_inner();
    let wanted = wanted.unwrap_or(default);
    let used = wanted.clamp(least, most);
    let note = (used != wanted)
        .then(|| format!("{name} {wanted} was taken as {used} ({least} to {most})"));
    (usize::try_from(used).unwrap_or(1), note)
}

/// The number of results to give, and a remark when it is not the wanted number.
pub(super) fn clamped_results(wanted: Option<i64>) -> (usize, Option<String>) {
    clamped(
        "max_results",
        wanted,
        DEFAULT_RESULTS as i64,
        1..=MAX_RESULTS,
    )
}

/// How many threads one walk gets.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS))
}

/// Whether the walk has to enter `.git` folders: the pattern names one, or it starts in one.
pub(super) fn wants_git(pattern: Option<&str>, root: &Path) -> bool {
    pattern.is_some_and(|pattern| pattern.split('/').any(|part| part == ".git"))
        || root
            .components()
            .any(|part| part == Component::Normal(".git".as_ref()))
}

/// The remarks on a walk that did not see everything; an error when the turn was stopped.
pub(super) fn unseen(summary: &WalkSummary) -> Result<Vec<String>, ToolError> {
    let stopped = match summary.stopped {
        None | Some(Stopped::Visitor) => None,
        Some(Stopped::Deadline) => Some(format!(
            "truncated: the time was up after {} entries; search a narrower `path`",
            summary.entries
        )),
        Some(Stopped::EntryCap) => Some(format!(
            "truncated: stopped after {} entries; search a narrower `path`",
            summary.entries
        )),
        Some(Stopped::Cancelled) => {
            return Err(ToolError::new("stopped", "stopped before it finished"));
        }
    };
    let not_entered = match summary.not_entered {
        0 => None,
        1 => Some("1 folder could not be entered".to_owned()),
        count => Some(format!("{count} folders could not be entered")),
    };
    let not_entered = not_entered.map(|words| {
        format!(
            "truncated: {words} (no permission, or nested too deep); what lies there was not seen"
        )
    });
    Ok(stopped.into_iter().chain(not_entered).collect())
}

/// How many of `sizes` (bytes each, separators included) fit an answer of at most `max_output`.
/// A structured answer that the dispatcher had to cut would not parse.
pub(super) fn fitting(sizes: impl Iterator<Item = usize>, max_output: usize) -> usize {
    let room = max_output.saturating_sub(NOTES_ROOM);
    let mut used = 0;
    sizes
        .take_while(|size| {
            used += size;
            used <= room
        })
        .count()
}
