//! Which folders a repository consists of, and whether the turn may touch them.
//!
//! They are found here, with the policy asked at each step, before Git runs at all: the view of
//! Git's process is made of them, and a `.git` file, a `commondir` file or a link that leads
//! elsewhere is refused by name. [`super::session`] then asks Git and compares.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use fermix_sandbox::{FileError, Sandbox, Scope, WorkingDir};
use fermix_types::ToolError;

use super::links::{self, Elsewhere};

/// The longest file that names a folder, in bytes.
const MAX_POINTER: u64 = 16 * 1024;

/// What a call wants of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Write,
}

/// A repository the turn may touch. All paths are canonical.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    /// Where the call starts: the work tree's folder or one below it.
    pub(super) folder: WorkingDir,
    /// The folder that holds `.git`.
    pub(super) work_tree: PathBuf,
    /// What belongs to this work tree alone.
    pub(super) git_dir: PathBuf,
    /// What all work trees share; the same as `git_dir` where there is one.
    pub(super) common_dir: PathBuf,
    /// What links and alternates lead to, and the turn may touch.
    pub(super) elsewhere: Elsewhere,
    /// The widest root that holds the work tree.
    pub(super) root: PathBuf,
}

impl Repository {
    /// Finds the repository that `requested`, or the turn's folder, lies in. Blocks on the disk.
    pub(super) fn find(
        sandbox: &Sandbox,
        scope: &Scope,
        requested: Option<&str>,
        purpose: Purpose,
    ) -> Result<Self, ToolError> {
        let folder = start(sandbox, scope, requested)?;
        let root = sandbox
            .roots(scope)
            .iter()
            .map(|root| root.path.clone())
            .filter(|root| folder.path().starts_with(root))
            .min_by_key(|root| root.as_os_str().len())
            .ok_or_else(|| not_a_repository(folder.path()))?;
        let finder = Finder {
            sandbox,
            scope,
            purpose,
        };
        let holders = folder.path().ancestors();
        for holder in holders.take_while(|holder| holder.starts_with(&root)) {
            if let Some(git_dir) = finder.git_dir_of(holder)? {
                return finder.repository(folder.clone(), holder, git_dir, root);
            }
        }
        Err(not_a_repository(folder.path()))
    }

    /// The repository whose work tree is `holder`, a folder inside this one's; nothing when there is
    /// none. Blocks on the disk.
    pub(super) fn nested(
        &self,
        sandbox: &Sandbox,
        scope: &Scope,
        holder: &Path,
    ) -> Result<Option<Self>, ToolError> {
        let finder = Finder {
            sandbox,
            scope,
            purpose: Purpose::Write,
        };
        // A folder on the way may be a link; what it leads to is what Git would enter.
        let shown = holder.to_string_lossy();
        let Some(git_dir) = finder.git_dir_of(holder)? else {
            return Ok(None);
        };
        let folder = sandbox.working_dir(Some(&shown), scope)?;
        let holder = folder.path().to_owned();
        finder
            .repository(folder, &holder, git_dir, self.root.clone())
            .map(Some)
    }
}

fn start(
    sandbox: &Sandbox,
    scope: &Scope,
    requested: Option<&str>,
) -> Result<WorkingDir, ToolError> {
    if requested.is_some_and(|path| path.contains('\0')) {
        return Err(ToolError::new("invalid_path", "repo contains null bytes"));
    }
    let start = sandbox.search_root(requested, scope)?;
    if !start.is_dir() {
        let what = if start.exists() {
            "repo is not a folder"
        } else {
            "repo does not exist"
        };
        return Err(ToolError::new(
            "invalid_working_dir",
            format!(
                "{what}: {}; pass the folder of a repository",
                start.path().display()
            ),
        ));
    }
    Ok(sandbox.working_dir(Some(&start.path().to_string_lossy()), scope)?)
}

struct Finder<'a> {
    sandbox: &'a Sandbox,
    scope: &'a Scope,
    purpose: Purpose,
}

impl Finder<'_> {
    /// The Git folder that `holder/.git` is or names. What is there and is no Git folder is passed
    /// over, as Git does; what may not be read is an error.
    fn git_dir_of(&self, holder: &Path) -> Result<Option<PathBuf>, ToolError> {
        let entry = holder.join(".git");
        let Ok(metadata) = fs::symlink_metadata(&entry) else {
            return Ok(None);
        };
        let resolved = self.readable(&entry, &entry, "is or leads to")?;
        let git_dir = if metadata.is_file() || fs::metadata(&resolved).is_ok_and(|at| at.is_file())
        {
            let text = self.pointer(&resolved)?;
            let Some(target) = text.strip_prefix("gitdir:") else {
                return Err(broken(
                    &entry,
                    "is a file that does not begin with `gitdir:`",
                ));
            };
            let target = resolved.parent().unwrap_or(holder).join(target.trim());
            self.readable(&target, &entry, "points to")?
        } else {
            resolved
        };
        let is_git_dir = git_dir.join("HEAD").symlink_metadata().is_ok()
            && (git_dir.join("commondir").exists()
                || git_dir.join("objects").is_dir() && git_dir.join("refs").is_dir());
        Ok(is_git_dir.then_some(git_dir))
    }

    fn repository(
        &self,
        folder: WorkingDir,
        holder: &Path,
        git_dir: PathBuf,
        root: PathBuf,
    ) -> Result<Repository, ToolError> {
        let pointer = git_dir.join("commondir");
        let common_dir = if pointer.symlink_metadata().is_ok() {
            let text = self.pointer(&self.readable(&pointer, &pointer, "leads to")?)?;
            self.readable(&git_dir.join(text.trim()), &pointer, "points to")?
        } else {
            git_dir.clone()
        };
        if folder.path().starts_with(&git_dir) || folder.path().starts_with(&common_dir) {
            return Err(ToolError::new(
                "not_a_repository",
                format!(
                    "`{}` is inside git's own folder; pass the folder of the work tree",
                    folder.path().display()
                ),
            ));
        }
        let mut repository = Repository {
            folder,
            work_tree: holder.to_owned(),
            git_dir,
            common_dir,
            elsewhere: Elsewhere::default(),
            root,
        };
        repository.elsewhere = links::elsewhere(&repository, &|path: &Path, from: &Path| {
            self.followed(path, from)
        })?;
        if self.purpose == Purpose::Write {
            self.check_writes(&repository)?;
        }
        Ok(repository)
    }

    /// The work tree and both Git folders must take writes; each is refused in its own words.
    fn check_writes(&self, repository: &Repository) -> Result<(), ToolError> {
        self.writable(&repository.work_tree, "the root of the repository")?;
        // The folders themselves are guarded against file tools. These are files Git itself writes
        // there.
        let written = repository.git_dir.join("COMMIT_EDITMSG");
        self.writable(&written, "git's own folder")?;
        let written = repository.common_dir.join("FETCH_HEAD");
        self.writable(&written, "git's shared folder")
    }

    fn writable(&self, path: &Path, what: &str) -> Result<(), ToolError> {
        self.sandbox
            .writable(&path.to_string_lossy(), self.scope)
            .map(drop)
            .map_err(|denied| {
                let error = ToolError::from(denied);
                ToolError {
                    message: format!("{what} cannot be written. {}", error.message),
                    ..error
                }
            })
    }

    /// What a link or an alternate leads to: readable, and for a write also writable where Git
    /// would write through it.
    fn followed(&self, path: &Path, from: &Path) -> Result<PathBuf, ToolError> {
        let resolved = self.readable(path, from, "leads to")?;
        let is_alternate = from.ends_with("objects/info/alternates");
        if self.purpose == Purpose::Write && !is_alternate {
            self.writable(&resolved, &format!("`{}`, a link,", from.display()))?;
        }
        Ok(resolved)
    }

    /// The canonical form of `path`, which `from` names.
    fn readable(&self, path: &Path, from: &Path, how: &str) -> Result<PathBuf, ToolError> {
        let Some(text) = path.to_str() else {
            return Err(broken(from, "leads to a name that is not valid UTF-8"));
        };
        match self.sandbox.readable(text, self.scope) {
            Ok(readable) => Ok(readable.path().to_owned()),
            Err(denied) => {
                let error = ToolError::from(denied);
                Err(ToolError {
                    message: format!(
                        "`{}` {how} a place outside. {}",
                        from.display(),
                        error.message
                    ),
                    ..error
                })
            }
        }
    }

    /// The text of a file that names a folder.
    fn pointer(&self, file: &Path) -> Result<String, ToolError> {
        small_text(self.sandbox, self.scope, file)
    }
}

/// The text of a small file, through the policy.
fn small_text(sandbox: &Sandbox, scope: &Scope, file: &Path) -> Result<String, ToolError> {
    let unreadable = |why: &str| broken(file, why);
    let opened = sandbox
        .readable(&file.to_string_lossy(), scope)?
        .open()
        .map_err(|error| match error {
            FileError::Denied(denied) => ToolError::from(denied),
            other => unreadable(&format!("cannot be read: {other}")),
        })?;
    let mut text = String::new();
    let read = opened.file.take(MAX_POINTER + 1).read_to_string(&mut text);
    match read {
        Ok(bytes) if bytes as u64 <= MAX_POINTER => Ok(text),
        _ => Err(unreadable("is not a short text")),
    }
}

/// A repository that is put together in a way nobody makes by accident, or is damaged.
pub(super) fn broken(path: &Path, what: &str) -> ToolError {
    ToolError::new(
        "repository_refused",
        format!("`{}` {what}; have the owner look at it", path.display()),
    )
}

fn not_a_repository(folder: &Path) -> ToolError {
    ToolError::new(
        "not_a_repository",
        format!(
            "`{}` is not in a git repository the tools reach; pass `repo`, the folder of one",
            folder.display()
        ),
    )
}
