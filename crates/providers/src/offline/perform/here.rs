//! The folder a person asks from, as far as results tell it.
//!
//! No tool says where it works, but every search gives whole paths. Paths are shown from that
//! folder on, so that a path in an answer can be used in the next request, and an answer that
//! nothing was found names the place that was searched.

use serde_json::json;

use super::{Desk, Pending};
use crate::offline::ledger::{Call, Record};
use crate::offline::render::{code, error_words, paths};

/// Where one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Here {
    /// With its slash at the end.
    root: Option<String>,
}

impl Here {
    /// The call that tells, to be made beside others; `None` when there is no tool for it.
    pub(super) fn call(desk: &Desk<'_, '_>) -> Option<Call> {
        desk.toolbox.has("glob_search").then(|| {
            desk.call(
                "glob_search",
                &[("pattern", json!("*")), ("max_results", json!(1))],
            )
        })
    }

    /// What its result tells.
    pub(super) fn told(record: Option<&Record<'_>>) -> Self {
        let first = record
            .filter(|record| !record.is_error)
            .and_then(|record| paths(record.text)?.paths.into_iter().next());
        Self {
            root: first.as_deref().and_then(parent).map(str::to_owned),
        }
    }

    /// The same, asking once more where the folder holds no file that could tell.
    pub(super) fn sure(self, desk: &mut Desk<'_, '_>) -> Result<Self, Pending> {
        const IS_FOLDER: &str = "Path is a directory: ";
        if self.root.is_some() || !desk.toolbox.has("file_read") {
            return Ok(self);
        }
        let record = desk
            .ledger
            .ask(desk.call("file_read", &[("path", json!("."))]))?;
        let words = error_words(record.text);
        let folder = words
            .lines()
            .next()
            .and_then(|line| line.strip_prefix(IS_FOLDER))
            .filter(|folder| record.is_error && folder.starts_with('/'));
        Ok(Self {
            root: folder.map(|folder| format!("{}/", folder.trim_end_matches('/'))),
        })
    }

    /// `path` as it can be said from here.
    pub(super) fn shown<'p>(&self, path: &'p str) -> &'p str {
        self.root
            .as_deref()
            .and_then(|root| path.strip_prefix(root))
            .filter(|rest| !rest.is_empty())
            .unwrap_or(path)
    }

    /// All of `paths` as they can be said from here.
    pub(super) fn all(&self, paths: &[String]) -> Vec<String> {
        paths
            .iter()
            .map(|path| self.shown(path).to_owned())
            .collect()
    }

    /// The folder that was looked in, in words: the one that was named, else this one.
    pub(super) fn name(&self, folder: Option<&str>) -> String {
        match (folder.filter(|folder| *folder != "."), &self.root) {
            (Some(folder), _) => code(folder),
            (None, Some(root)) if root.len() > 1 => code(root.trim_end_matches('/')),
            (None, Some(root)) => code(root),
            (None, None) => "the folder I work in".to_owned(),
        }
    }
}

/// The folder of a file, with its slash.
pub(super) fn parent(path: &str) -> Option<&str> {
    path.rfind('/').map(|slash| &path[..=slash])
}
