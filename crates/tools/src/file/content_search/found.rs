//! The matches of many files, found in any order, kept in the order of paths and lines.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::look::{Line, Matches};
use crate::file::searching::fitting;

/// The first matches in the order of paths and lines.
pub(super) struct Found {
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_path: BTreeMap<OsString, Vec<Line>>,
    kept: usize,
    /// Whether there are matches besides the kept ones.
    has_more: bool,
}

/// The whole answer.
#[derive(Serialize)]
pub(super) struct Answer {
    matches: Vec<Match>,
    truncated: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
}

#[derive(Serialize)]
struct Match {
    path: String,
    #[serde(flatten)]
    line: Line,
}

impl Found {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether matches in this file could change the answer. Once it is known that there are more
    /// matches than are kept, files behind the last kept one need not be opened.
    pub(super) fn may_hold(&self, path: &Path) -> bool {
        let inner = self.inner();
        let is_behind = || {
            inner
                .by_path
                .last_key_value()
                .is_some_and(|(last, _)| last.as_os_str() < path.as_os_str())
        };
        !(inner.has_more && inner.kept >= self.most && is_behind())
    }

    pub(super) fn add(&self, path: &Path, matches: Matches) {
        let mut inner = self.inner();
        inner.has_more |= matches.has_more;
        if matches.lines.is_empty() {
            return;
        }
        inner.kept += matches.lines.len();
        inner
            .by_path
            .insert(path.as_os_str().to_owned(), matches.lines);
        while inner.kept > self.most {
            let surplus = inner.kept - self.most;
            let Some(mut last) = inner.by_path.last_entry() else {
                return;
            };
            let lines = last.get_mut();
            let dropped = surplus.min(lines.len());
            lines.truncate(lines.len() - dropped);
            if lines.is_empty() {
                last.remove();
            }
            inner.kept -= dropped;
            inner.has_more = true;
        }
    }

    /// The answer, and a remark when there is more than it holds.
    pub(super) fn into_answer(
        self,
        is_partial: bool,
        timed_out: bool,
        max_output: usize,
    ) -> (Answer, Option<String>) {
        let inner = self
            .inner
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let mut matches: Vec<Match> = inner
            .by_path
            .into_iter()
            .flat_map(|(path, lines)| {
                let path = shown(&path);
                lines.into_iter().map(move |line| Match {
                    path: path.clone(),
                    line,
                })
            })
            .collect();
        let sizes = matches
            .iter()
            .map(|found| serde_json::to_string(found).map_or(usize::MAX, |text| text.len() + 1));
        let fitting = fitting(sizes, max_output);
        let has_more = inner.has_more || fitting < matches.len();
        matches.truncate(fitting);
        let note = has_more.then(|| {
            format!(
                "truncated: the first {} matches are shown; narrow `pattern`, `glob` or `path`",
                matches.len()
            )
        });
        let answer = Answer {
            matches,
            truncated: has_more || is_partial,
            timed_out,
        };
        (answer, note)
    }
}

fn shown(path: &OsStr) -> String {
    path.to_string_lossy().into_owned()
}
