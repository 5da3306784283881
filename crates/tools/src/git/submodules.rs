//! Repositories inside a repository.
//!
//! `git add`, `git commit` and `git checkout` look whether a submodule has changes by running
//! `git status` in it, with the submodule's own settings. They are screened like those of the
//! repository itself; what is given on the command line reaches that process as well.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use fermix_types::ToolError;

use super::configuration::{Screening, Use, screen};
use super::repository::{Repository, broken};
use super::session::{Point, Session};
use crate::blocking::blocking;

/// The most submodules with files, over all levels.
const MAX_SUBMODULES: usize = 64;
/// The longest list of files, in bytes.
pub(super) const MAX_FILES: usize = 128 * 1024 * 1024;

/// What is done about the settings of all submodules that have files.
pub(super) async fn screened(session: &Session) -> Result<Screening, ToolError> {
    let mut all = Screening::default();
    let mut pending = vec![session.repository.clone()];
    let mut count = 0;
    while let Some(repository) = pending.pop() {
        for holder in holders(session, &repository).await? {
            let nested = {
                let (sandbox, scope) = (session.sandbox.clone(), session.scope.clone());
                let outer = repository.clone();
                blocking(move || outer.nested(&sandbox, &scope, &holder)).await?
            };
            let Some(nested) = nested else { continue };
            count += 1;
            if count > MAX_SUBMODULES {
                return Err(broken(
                    &repository.work_tree,
                    "has more than 64 submodules with files",
                ));
            }
            let (is_own, settings) =
                tokio::join!(session.compare(&nested), session.settings(&nested));
            let screening = screen(&settings?, Use::Write, is_own?).map_err(|error| ToolError {
                message: format!(
                    "in the submodule `{}`: {}",
                    nested.work_tree.display(),
                    error.message
                ),
                ..error
            })?;
            all.has_filters |= screening.has_filters;
            all.overrides.extend(screening.overrides);
            pending.push(nested);
        }
    }
    Ok(all)
}

/// The folders at which the index of `repository` has a submodule.
async fn holders(session: &Session, repository: &Repository) -> Result<Vec<PathBuf>, ToolError> {
    let words = ["ls-files", "--full-name", "--stage", "-z", "--", ":/"];
    let answer = session
        .ask(repository, Point::Explicit, &words, MAX_FILES)
        .await?;
    if answer.exit != 0 {
        return Err(broken(
            &repository.work_tree,
            &format!("has an index git cannot read: {}", answer.stderr.trim()),
        ));
    }
    let entries = answer.stdout.split(|byte| *byte == 0);
    Ok(entries
        .filter(|entry| entry.starts_with(b"160000 "))
        .filter_map(|entry| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let path = std::ffi::OsStr::from_bytes(&entry[tab + 1..]);
            Some(repository.work_tree.join(path))
        })
        .collect())
}
