//! What the sandbox refused lately, and the grant that would allow it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use fermix_sandbox::Sandbox;
use serde::Serialize;
use serde_json::Value;

use crate::traces;

/// How many days are looked at.
pub(super) const DAYS: usize = 7;
/// The most refusals that are listed, the most frequent first.
const MAX_LISTED: usize = 10;
/// The most bytes of one day's file that are read.
const MAX_READ: u64 = 64 * 1024 * 1024;

/// One refused folder.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Refusal {
    /// What was refused.
    pub(super) path: PathBuf,
    /// The policy's reason.
    pub(super) reason: String,
    /// How often.
    pub(super) times: usize,
    /// The command that would allow it; nothing when no grant does.
    pub(super) grant: Option<String>,
}

/// The refusals of the newest days with traces below `folder`.
pub(super) fn of_last_days(folder: &Path, sandbox: &Sandbox) -> std::io::Result<Vec<Refusal>> {
    let mut days = traces::days(folder)?;
    days.sort();
    let mut counted: BTreeMap<(PathBuf, String), usize> = BTreeMap::new();
    for day in days.iter().rev().take(DAYS) {
        let file = match File::open(folder.join(day).join("sandbox_event.jsonl")) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in BufReader::new(file.take(MAX_READ)).split(b'\n') {
            let Ok(row) = serde_json::from_slice::<Value>(&line?) else {
                continue;
            };
            if row["decision"] != "deny" {
                continue;
            }
            let (Some(path), Some(reason)) = (row["resource"].as_str(), row["reason"].as_str())
            else {
                continue;
            };
            *counted
                .entry((folder_of(Path::new(path), reason), reason.to_owned()))
                .or_default() += 1;
        }
    }
    let mut refusals: Vec<Refusal> = counted
        .into_iter()
        .map(|((path, reason), times)| Refusal {
            grant: (reason == "outside_root")
                .then(|| sandbox.grantable_root(&path).ok())
                .flatten()
                .map(|root| format!("fermix grant path {}", quoted(&root))),
            path,
            reason,
            times,
        })
        .collect();
    refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.times));
    refusals.truncate(MAX_LISTED);
    Ok(refusals)
}

/// What a grant would name: the folder itself, or the one the file lies in.
fn folder_of(path: &Path, reason: &str) -> PathBuf {
    if reason != "outside_root" || path.is_dir() {
        return path.to_owned();
    }
    path.parent().unwrap_or(path).to_owned()
}

/// The path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = text
        .chars()
        .all(|character| character.is_alphanumeric() || "/._-+@".contains(character));
    if is_plain {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
