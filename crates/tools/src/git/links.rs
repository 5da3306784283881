//! Links and alternates inside Git's own folders.
//!
//! Git follows a link wherever it finds one: a `COMMIT_EDITMSG` or a `logs/HEAD` that is a link makes
//! it write to the file behind, and an alternate makes it read another repository. Each must lead to
//! a place the turn may touch itself.

use std::fs;
use std::path::{Path, PathBuf};

use fermix_types::ToolError;

use super::repository::{Repository, broken};

/// The most entries looked at. A repository with more loose refs than this is packed first.
const MAX_ENTRIES: usize = 200_000;
/// How deep folders of refs go.
const MAX_DEPTH: usize = 32;
/// The most alternates, over all levels.
const MAX_ALTERNATES: usize = 32;
/// The longest list of alternates, in bytes.
const MAX_LIST: u64 = 64 * 1024;

/// Checks a place that a file of the repository leads to, and gives its canonical path.
type Follow<'a> = &'a dyn Fn(&Path, &Path) -> Result<PathBuf, ToolError>;

/// Places outside the repository's folders that its Git folders lead to. Canonical.
#[derive(Clone, Debug, Default)]
pub(super) struct Elsewhere {
    /// Behind links, which Git writes through.
    pub(super) links: Vec<PathBuf>,
    /// Stores of objects, which it only reads.
    pub(super) alternates: Vec<PathBuf>,
}

/// Every such place of `repository`.
pub(super) fn elsewhere(
    repository: &Repository,
    follow: Follow<'_>,
) -> Result<Elsewhere, ToolError> {
    let mut walk = Walk {
        inside: vec![repository.git_dir.clone(), repository.common_dir.clone()],
        follow,
        found: Vec::new(),
        left: MAX_ENTRIES,
    };
    walk.git_dir(&repository.git_dir)?;
    if repository.common_dir != repository.git_dir {
        walk.git_dir(&repository.common_dir)?;
    }
    let mut alternates = Vec::new();
    let mut objects = vec![repository.common_dir.join("objects")];
    while let Some(folder) = objects.pop() {
        let list = folder.join("info/alternates");
        if list.symlink_metadata().is_ok() {
            follow(&list, &list)?;
        }
        for alternate in listed(&list)? {
            let target = follow(&folder.join(alternate), &list)?;
            if !alternates.contains(&target) {
                alternates.push(target.clone());
                objects.push(target);
            }
            if alternates.len() > MAX_ALTERNATES {
                return Err(broken(&folder, "has more than 32 alternates"));
            }
        }
    }
    Ok(Elsewhere {
        links: walk.found,
        alternates,
    })
}

/// The folders that `list` names.
fn listed(list: &Path) -> Result<Vec<PathBuf>, ToolError> {
    if list.symlink_metadata().is_err() {
        return Ok(Vec::new());
    }
    let is_short = fs::metadata(list).is_ok_and(|at| at.is_file() && at.len() <= MAX_LIST);
    let text = if is_short {
        fs::read_to_string(list).ok()
    } else {
        None
    };
    let Some(text) = text else {
        return Err(broken(list, "is not a short list of folders"));
    };
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.starts_with('"') {
            true => Err(broken(
                list,
                "has a quoted name, which is not understood here",
            )),
            false => Ok(PathBuf::from(line)),
        })
        .collect()
}

struct Walk<'a> {
    inside: Vec<PathBuf>,
    follow: Follow<'a>,
    found: Vec<PathBuf>,
    left: usize,
}

impl Walk<'_> {
    /// The folder's own entries, and all below those that Git reads or writes by name. Objects are
    /// found by the name of their content, so only their folders matter; hooks are never run.
    fn git_dir(&mut self, folder: &Path) -> Result<(), ToolError> {
        self.entries(folder)?;
        for name in ["objects", "objects/info", "objects/pack"] {
            self.entries(&folder.join(name))?;
        }
        for name in [
            "refs",
            "logs",
            "info",
            "rebase-merge",
            "rebase-apply",
            "sequencer",
            "reftable",
            "rr-cache",
        ] {
            self.below(&folder.join(name), MAX_DEPTH)?;
        }
        Ok(())
    }

    fn below(&mut self, folder: &Path, depth: usize) -> Result<(), ToolError> {
        for child in self.entries(folder)? {
            if depth == 0 {
                return Err(broken(folder, "is too deep"));
            }
            self.below(&child, depth - 1)?;
        }
        Ok(())
    }

    /// Checks the links of one folder and gives its folders. A folder that is not there has none.
    fn entries(&mut self, folder: &Path) -> Result<Vec<PathBuf>, ToolError> {
        let is_folder = fs::symlink_metadata(folder).is_ok_and(|at| at.is_dir());
        if !is_folder {
            // Either nothing, or a link that its parent's entries have shown already.
            return Ok(Vec::new());
        }
        let unreadable = |_| broken(folder, "cannot be listed");
        let mut folders = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            if self.left == 0 {
                return Err(broken(folder, "has too many entries; run `git gc` first"));
            }
            self.left -= 1;
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_symlink() && entry.file_name() != "hooks" {
                self.link(&entry.path())?;
            } else if !kind.is_file()
                && !kind.is_symlink()
                && entry.file_name() != "fsmonitor--daemon.ipc"
            {
                return Err(broken(&entry.path(), "is neither a file nor a folder"));
            }
        }
        Ok(folders)
    }

    fn link(&mut self, link: &Path) -> Result<(), ToolError> {
        // One that stays inside is Git's own old way to write a symbolic ref.
        let stays = fs::canonicalize(link)
            .is_ok_and(|target| self.inside.iter().any(|inside| target.starts_with(inside)));
        if stays {
            return Ok(());
        }
        let target = (self.follow)(link, link)?;
        // A linked folder of refs would bring links of its own.
        if target.is_dir() && !is_object_store(link) {
            return Err(broken(link, "is a link to a folder outside the repository"));
        }
        self.found.push(target);
        Ok(())
    }
}

/// Where a link to a folder brings objects only.
fn is_object_store(link: &Path) -> bool {
    let in_objects = link
        .parent()
        .is_some_and(|parent| parent.ends_with("objects"));
    link.ends_with("objects") || link.ends_with("lfs") || in_objects
}
