//! Taking back what `git_write` did.
//!
//! Everything is looked at first: HEAD, the branches that the change moved, the index and the files
//! must be what the change left. The index is compared by what it says and not byte by byte, since
//! `git status` alone writes new times into it. Then the branches and HEAD go back, each only from
//! the commit the change had left it at, the index after them, and the files last: Git brings those
//! it knows, and the rest comes from what was put away.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fermix_sandbox::{Sandbox, Scope, Written};
use fermix_types::ToolError;
use fermix_undo::{Change, Digest, MAX_OBJECT, UndoError, UndoLog};

use super::checkpoint::{Entries, FileMark, Head, Left, Place, Record};
use super::checkpoint::{differing, entries, unstaged};
use super::configuration::Use;
use super::on_disk::look;
use super::outcome;
use super::session::Session;
use crate::blocking::blocking;

/// How many bytes of names one run of Git is given.
const MAX_NAMES: usize = 64 * 1024;
/// How much of Git's words about a failure is kept.
const WORDS_CAP: usize = 16 * 1024;
/// What the logs of HEAD and of branches say.
const REASON: &str = "fermix undo";

/// Brings the repository of `change` back to what it was, unless it has changed since. What was
/// done is said in the answer, and the change is written down as undone.
pub async fn restore(
    log: &UndoLog,
    change: &Change,
    sandbox: &Sandbox,
    scope: Scope,
) -> Result<String, UndoError> {
    let refused = |error: ToolError| UndoError::Refused(error.message);
    let record: Record = serde_json::from_value(change.detail.clone())
        .map_err(|_| UndoError::Refused("what is kept of this change is damaged".to_owned()))?;
    let Some(left) = &record.left else {
        return Err(UndoError::Refused(
            "fermix was stopped in the middle of this change, so nobody knows what it left; look at the repository with `git reflog`".to_owned(),
        ));
    };
    let requested = change.path.to_string_lossy().into_owned();
    let session = Session::open(sandbox, scope, Some(requested), Use::Write)
        .await
        .map_err(refused)?;
    if session.repository.work_tree != change.path {
        return Err(UndoError::ChangedSince(change.path.clone()));
    }
    let contents = Contents::of(log, change, &record, left).await?;
    let restoration = Restoration {
        session: &session,
        record: &record,
        left,
        contents,
    };
    let plan = match restoration.plan().await.map_err(refused)? {
        Some(plan) => plan,
        None => return Err(UndoError::ChangedSince(change.path.clone())),
    };
    restoration.carry_out(plan).await.map_err(refused)?;
    log.mark_undone(change.id).await?;
    Ok(format!(
        "`{}` is as it was before {}: {}",
        change.path.display(),
        change.tool,
        shown(&record.head)
    ))
}

fn shown(head: &Head) -> String {
    let place = match &head.branch {
        Some(branch) => format!(
            "on branch {}",
            branch.strip_prefix("refs/heads/").unwrap_or(branch)
        ),
        None => "detached".to_owned(),
    };
    match &head.commit {
        Some(commit) => {
            let short: String = commit.chars().take(10).collect();
            format!("HEAD is {short}, {place}")
        }
        None => format!("HEAD has no commit yet, {place}"),
    }
}

/// Everything that was put away, read before anything is touched.
struct Contents {
    listing: Vec<u8>,
    index: Option<Vec<u8>>,
    /// In the order of the files that were kept.
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
}

impl Contents {
    async fn of(
        log: &UndoLog,
        change: &Change,
        record: &Record,
        left: &Left,
    ) -> Result<Self, UndoError> {
        let get = async |digest: &str| match Digest::parse(digest) {
            Some(digest) => log.get(change, &digest).await,
            None => Err(UndoError::Refused(
                "what is kept of this change is damaged".to_owned(),
            )),
        };
        let mut files = Vec::new();
        for mark in left.files.iter().filter(|mark| mark.is_kept) {
            let content = match &mark.before {
                Some(digest) => Some(get(digest).await?),
                None => None,
            };
            files.push((PathBuf::from(&mark.path), content));
        }
        Ok(Self {
            listing: get(&record.entries).await?,
            index: match &record.index {
                Some(digest) => Some(get(digest).await?),
                None => None,
            },
            files,
        })
    }
}

/// What Git does with the files of the work tree; names in it.
struct Plan {
    removed: Vec<String>,
    written: Vec<String>,
}

struct Restoration<'a> {
    session: &'a Session,
    record: &'a Record,
    left: &'a Left,
    contents: Contents,
}

impl Restoration<'_> {
    /// What is to be done; nothing when the repository is not what the change left.
    async fn plan(&self) -> Result<Option<Plan>, ToolError> {
        let now = Place::of(self.session).await?;
        let is_left = now.head == self.left.head
            && now.digest().as_str() == self.left.entries
            && self
                .left
                .branches
                .iter()
                .all(|moved| now.branch(&moved.name) == moved.after.as_ref());
        if !is_left {
            return Ok(None);
        }
        for mark in &self.left.files {
            let found = look(self.session, Path::new(&mark.path), MAX_OBJECT).await?;
            if found.digest() != Ok(mark.after.clone()) {
                return Ok(None);
            }
        }
        self.check_commits().await?;
        let (Some(new), Some(old)) = (now.entries(), entries(&self.contents.listing)) else {
            return Err(ToolError::new(
                "git_failed",
                "a file of the repository has a name that is no text",
            ));
        };
        self.files(&old, &new).await
    }

    async fn files(&self, old: &Entries<'_>, new: &Entries<'_>) -> Result<Option<Plan>, ToolError> {
        let mut plan = Plan {
            removed: Vec::new(),
            written: Vec::new(),
        };
        if !self.record.writes_files {
            return Ok(Some(plan));
        }
        let changed = differing(old, new);
        let unstaged = unstaged(self.session).await?;
        let mut is_marked = BTreeSet::new();
        let mut is_kept = BTreeSet::new();
        for FileMark {
            path,
            is_kept: kept,
            ..
        } in &self.left.files
        {
            is_marked.insert(PathBuf::from(path));
            if *kept {
                is_kept.insert(PathBuf::from(path));
            }
        }
        for name in changed {
            let path = self.session.repository.work_tree.join(name);
            // Git answers for the files that had no mark: they were as the index says.
            if unstaged.contains(name) && !is_marked.contains(&path) {
                return Ok(None);
            }
            match old.get(name).map(Vec::as_slice) {
                // The sides of a conflict; such a file was kept.
                Some(entries) if entries.len() != 1 || !entries[0].ends_with(" 0") => {}
                Some(_) => plan.written.push(name.to_owned()),
                None if is_kept.contains(&path) => {}
                None => plan.removed.push(name.to_owned()),
            }
        }
        Ok(Some(plan))
    }

    /// What nothing refers to any more, Git removes after some weeks.
    async fn check_commits(&self) -> Result<(), ToolError> {
        let branches = self
            .left
            .branches
            .iter()
            .filter_map(|moved| moved.before.as_ref());
        for commit in branches.chain(&self.record.head.commit) {
            let object = format!("{commit}^{{commit}}");
            if self.session.query(&["cat-file", "-e", &object]).await?.exit != 0 {
                return Err(ToolError::new(
                    "git_failed",
                    format!("git has removed the commit {commit} by now"),
                ));
            }
        }
        Ok(())
    }

    async fn carry_out(&self, plan: Plan) -> Result<(), ToolError> {
        let lock = IndexLock::take(self.session).await?;
        let done = self.bring_back(&plan).await;
        lock.release().await;
        done?;
        // Files that Git wrote anew have other times than the old index says. Git finds that out by
        // itself sooner or later.
        let refresh = ["update-index", "-q", "--refresh"].map(str::to_owned);
        let _ = self.session.run(refresh.to_vec(), WORDS_CAP).await;
        Ok(())
    }

    async fn bring_back(&self, plan: &Plan) -> Result<(), ToolError> {
        for moved in &self.left.branches {
            let words: Vec<&str> = match (&moved.before, &moved.after) {
                (Some(before), Some(after)) => {
                    vec!["update-ref", "-m", REASON, &moved.name, before, after]
                }
                (Some(before), None) => vec!["update-ref", "-m", REASON, &moved.name, before, ""],
                (None, Some(after)) => vec!["update-ref", "-d", &moved.name, after],
                (None, None) => continue,
            };
            self.git(&words).await?;
        }
        if self.record.head != self.left.head {
            match (&self.record.head.branch, &self.record.head.commit) {
                (Some(branch), _) if self.left.head.branch.as_ref() != Some(branch) => {
                    self.git(&["symbolic-ref", "-m", REASON, "HEAD", branch])
                        .await?;
                }
                (None, Some(commit)) => {
                    self.git(&["update-ref", "-m", REASON, "--no-deref", "HEAD", commit])
                        .await?;
                }
                _ => {}
            }
        }
        let index = self.session.repository.git_dir.join("index");
        put(self.session, &index, self.contents.index.clone()).await?;
        let clean = ["--literal-pathspecs", "clean", "-f", "-x", "-q", "--"];
        self.git_on(&clean, &plan.removed).await?;
        self.remove_empty_folders(&plan.removed).await?;
        self.git_on(&["checkout-index", "-f", "-q", "--"], &plan.written)
            .await?;
        for (path, content) in &self.contents.files {
            put(self.session, path, content.clone()).await?;
        }
        Ok(())
    }

    async fn git(&self, words: &[&str]) -> Result<(), ToolError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let outcome = self.session.run(words, WORDS_CAP).await?;
        outcome::answer("undo", outcome, WORDS_CAP, 1).map(drop)
    }

    /// Runs Git with as many names as fit, until all had their turn.
    async fn git_on(&self, words: &[&str], names: &[String]) -> Result<(), ToolError> {
        let mut rest = names;
        while !rest.is_empty() {
            let mut room = MAX_NAMES;
            let fitting = rest.iter().take_while(|name| {
                let fits = name.len() < room;
                room = room.saturating_sub(name.len() + 1);
                fits
            });
            let (now, later) = rest.split_at(fitting.count().max(1));
            let all: Vec<&str> = words
                .iter()
                .copied()
                .chain(now.iter().map(String::as_str))
                .collect();
            self.git(&all).await?;
            rest = later;
        }
        Ok(())
    }

    /// Removes the folders that only held files which the change had brought.
    async fn remove_empty_folders(&self, removed: &[String]) -> Result<(), ToolError> {
        let work_tree = self.session.repository.work_tree.clone();
        let folders: BTreeSet<PathBuf> = removed
            .iter()
            .flat_map(|name| Path::new(name).ancestors().skip(1))
            .filter(|folder| !folder.as_os_str().is_empty())
            .map(|folder| work_tree.join(folder))
            .collect();
        let (sandbox, scope) = (self.session.sandbox.clone(), self.session.scope.clone());
        blocking(move || {
            // The innermost first; one that holds something stays.
            for folder in folders.iter().rev() {
                if let Ok(writable) = sandbox.writable(&folder.to_string_lossy(), &scope)
                    && writable.path() == folder
                {
                    let _ = writable.remove_empty_folder();
                }
            }
            Ok(())
        })
        .await
    }
}

/// Gives the file at `path` this content, or removes it.
async fn put(session: &Session, path: &Path, content: Option<Vec<u8>>) -> Result<(), ToolError> {
    let (sandbox, scope) = (session.sandbox.clone(), session.scope.clone());
    let path = path.to_owned();
    blocking(move || {
        let failed =
            |error: fermix_sandbox::FileError| ToolError::new("write_failed", error.to_string());
        let file = sandbox.writable(&path.to_string_lossy(), &scope)?;
        if file.path() != path {
            return Err(ToolError::new(
                "write_failed",
                format!("`{}` is behind a link by now", path.display()),
            ));
        }
        match content {
            Some(bytes) => {
                file.create_parents().map_err(failed)?;
                file.replace(&bytes, None).map_err(failed)?;
            }
            None => {
                if let Some(existing) = file.read_existing(MAX_OBJECT).map_err(failed)? {
                    file.remove(existing).map_err(failed)?;
                }
            }
        }
        Ok(())
    })
    .await
}

/// Git's own lock of the index, as long as the index is being put back.
struct IndexLock<'a> {
    session: &'a Session,
    path: PathBuf,
}

impl<'a> IndexLock<'a> {
    async fn take(session: &'a Session) -> Result<Self, ToolError> {
        let path = session.repository.git_dir.join("index.lock");
        let (sandbox, scope) = (session.sandbox.clone(), session.scope.clone());
        let wanted = path.clone();
        blocking(move || {
            let busy = || {
                ToolError::new(
                    "busy",
                    format!(
                        "git is at work in the repository, or was ended in the middle of it: `{}` exists",
                        wanted.display()
                    ),
                )
            };
            if fs::symlink_metadata(&wanted).is_ok() {
                return Err(busy());
            }
            let file = sandbox.writable(&wanted.to_string_lossy(), &scope)?;
            match file.replace(b"", None) {
                Ok(Written::Created) => Ok(()),
                Ok(_) => Err(busy()),
                Err(error) => Err(ToolError::new("write_failed", error.to_string())),
            }
        })
        .await?;
        Ok(Self { session, path })
    }

    async fn release(self) {
        if let Err(error) = put(self.session, &self.path, None).await {
            tracing::warn!(%error.message, "the lock of a git index stays");
        }
    }
}
