//! Walking a folder for searches, without ever leaving it.
//!
//! Folders and files are opened below the root's descriptor with links refused, so what is swapped
//! during the walk is skipped, not followed. What is protected or blocked is pruned at the folder.
//! Several threads share one stack of folders; the walk ends at its deadline, at its cap of entries,
//! when the turn is stopped, or when the visitor has enough.

mod ignored;

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use tokio_util::sync::CancellationToken;

use self::ignored::Ignored;
use crate::beneath;
use crate::denial::{Access, DenialReason, Denied};
use crate::names::fold;
use crate::read::{FileError, OpenFile, ReadablePath, open_regular};
use crate::resolve::{Resolved, resolve};
use crate::sandbox::Checked;
use crate::settings::Scope;
use crate::write::is_unfinished;

/// The most threads one walk uses.
const MAX_THREADS: usize = 8;
/// How often a waiting thread looks whether the walk has been stopped.
const LOOK: Duration = Duration::from_millis(20);
/// The most refusals one walk records.
const MAX_RECORDED: usize = 100;

/// A folder, or a single file, to search.
pub struct ReadableTree {
    checked: Checked,
    cancel: CancellationToken,
}

/// How a tree is walked.
#[derive(Clone, Debug)]
pub struct WalkOptions {
    /// Whether files and folders named by `.gitignore` files are left out.
    pub respect_gitignore: bool,
    /// Whether `.git` folders are entered.
    pub include_git: bool,
    /// When the walk gives up.
    pub deadline: Instant,
    /// The most entries the walk looks at.
    pub max_entries: usize,
    /// How many levels of entries are looked at; 1 means what lies in the root itself, nothing
    /// means all.
    pub max_depth: Option<usize>,
    /// How many files are visited at once; between 1 and 8.
    pub threads: usize,
}

/// Why a walk ended before it had seen everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The deadline passed.
    Deadline,
    /// Too many entries.
    EntryCap,
    /// The turn was stopped.
    Cancelled,
    /// The visitor had enough.
    Visitor,
}

/// How a walk went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkSummary {
    /// Entries looked at.
    pub entries: usize,
    /// Nothing when everything was seen.
    pub stopped: Option<Stopped>,
    /// Folders that belong to the tree and could not be entered or not be read to their end: no
    /// permission, or a path too long for the system. What lies in them was not seen.
    pub not_entered: usize,
}

/// One regular file of a tree.
pub struct TreeFile<'a> {
    tree: &'a Checked,
    path: PathBuf,
    /// Where a link leads; nothing for a file under its own name.
    target: Option<Resolved>,
}

impl TreeFile<'_> {
    /// Absolute, below the tree's root.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file with every check of a single read.
    pub fn open(&self) -> Result<OpenFile, FileError> {
        open_regular(&self.checked()?)
    }

    /// Whether a single read of the file would pass the policy: whether it may be named in an answer.
    /// What the policy refuses is recorded.
    pub fn is_permitted(&self) -> bool {
        let Ok(checked) = self.checked() else {
            return false;
        };
        std::fs::symlink_metadata(&checked.object.path).is_ok_and(|found| {
            found.is_file() && crate::read::prove_unprotected(&checked, &found).is_ok()
        })
    }

    fn checked(&self) -> Result<Checked, Denied> {
        let mut checked = self.tree.clone();
        checked.requested = self.path.clone();
        match &self.target {
            Some(target) => {
                let inner = &checked.inner;
                checked.root =
                    inner
                        .decide(target, Access::Read, &checked.roots)
                        .map_err(|reason| {
                            inner.refusal(reason, Access::Read, target, &checked.roots)
                        })?;
                checked.object = target.clone();
            }
            None => {
                checked.object = Resolved {
                    path: self.path.clone(),
                    identities: Vec::new(),
                    kind: Some(FileType::RegularFile),
                };
            }
        }
        Ok(checked)
    }
}

impl ReadableTree {
    pub(crate) fn new(root: ReadablePath, scope: &Scope) -> Self {
        Self {
            checked: root.checked,
            cancel: scope.cancel.clone(),
        }
    }

    /// The canonical path the walk starts at.
    pub fn root(&self) -> &Path {
        &self.checked.object.path
    }

    /// Visits every regular file, in no particular order and from several threads. Blocks; a
    /// caller in async code wraps it in a blocking task. Files that vanish or cannot be read are
    /// skipped; only a root that is missing or special is an error.
    pub fn walk(
        &self,
        options: &WalkOptions,
        visit: &(dyn Fn(&TreeFile<'_>) -> ControlFlow<()> + Sync),
    ) -> Result<WalkSummary, FileError> {
        let root = &self.checked.object;
        match root.kind {
            Some(FileType::Directory) => {}
            Some(FileType::RegularFile) => {
                let file = TreeFile {
                    tree: &self.checked,
                    path: root.path.clone(),
                    target: None,
                };
                let enough = visit(&file).is_break();
                return Ok(WalkSummary {
                    entries: 1,
                    stopped: enough.then_some(Stopped::Visitor),
                    not_entered: 0,
                });
            }
            Some(_) => return Err(FileError::NotRegular(root.path.clone())),
            None => return Err(FileError::NotFound(root.path.clone())),
        }
        let ignored = options
            .respect_gitignore
            .then(|| Ignored::above(&self.checked))
            .flatten();
        let walk = Walk {
            tree: &self.checked,
            cancel: &self.cancel,
            options,
            visit,
            queue: Mutex::new(Queue {
                folders: vec![Folder {
                    relative: self.checked.relative().to_owned(),
                    depth: 1,
                    ignored,
                }],
                busy: 0,
                stopped: None,
            }),
            changed: Condvar::new(),
            entries: AtomicUsize::new(0),
            recorded: AtomicUsize::new(0),
            not_entered: AtomicUsize::new(0),
        };
        std::thread::scope(|threads| {
            for _ in 1..options.threads.clamp(1, MAX_THREADS) {
                threads.spawn(|| walk.work());
            }
            walk.work();
        });
        let stopped = walk.queue().stopped;
        Ok(WalkSummary {
            entries: walk.entries.load(Ordering::Relaxed),
            stopped,
            not_entered: walk.not_entered.load(Ordering::Relaxed),
        })
    }
}

struct Folder {
    /// Below the root's descriptor.
    relative: PathBuf,
    /// The level of what lies in it.
    depth: usize,
    ignored: Option<Arc<Ignored>>,
}

struct Queue {
    folders: Vec<Folder>,
    /// Threads that may still add folders.
    busy: usize,
    stopped: Option<Stopped>,
}

struct Walk<'a> {
    tree: &'a Checked,
    cancel: &'a CancellationToken,
    options: &'a WalkOptions,
    visit: &'a (dyn Fn(&TreeFile<'_>) -> ControlFlow<()> + Sync),
    queue: Mutex<Queue>,
    changed: Condvar,
    entries: AtomicUsize,
    recorded: AtomicUsize,
    not_entered: AtomicUsize,
}

/// Marks a thread as no longer busy, also when the visitor panics: the others must not wait for it.
struct Busy<'a, 'b>(&'a Walk<'b>);

impl Drop for Busy<'_, '_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.busy -= 1;
        if std::thread::panicking() {
            queue.stopped.get_or_insert(Stopped::Visitor);
        }
        drop(queue);
        self.0.changed.notify_all();
    }
}

impl Walk<'_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(folder) = self.next() {
            let busy = Busy(self);
            self.enter(&folder);
            drop(busy);
        }
    }

    fn next(&self) -> Option<Folder> {
        let mut queue = self.queue();
        loop {
            if queue.stopped.is_some() {
                return None;
            }
            if let Some(folder) = queue.folders.pop() {
                queue.busy += 1;
                return Some(folder);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self
                .changed
                .wait_timeout(queue, LOOK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn stop(&self, reason: Stopped) {
        self.queue().stopped.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// Whether the walk has to end here. Counts one entry.
    fn is_over(&self) -> bool {
        let seen = self.entries.fetch_add(1, Ordering::Relaxed);
        if seen >= self.options.max_entries {
            self.entries.fetch_sub(1, Ordering::Relaxed);
            self.stop(Stopped::EntryCap);
        } else if self.cancel.is_cancelled() {
            self.stop(Stopped::Cancelled);
        } else if Instant::now() >= self.options.deadline {
            self.stop(Stopped::Deadline);
        } else {
            return self.queue().stopped.is_some();
        }
        true
    }

    fn enter(&self, folder: &Folder) {
        let handle = match self.open_folder(&folder.relative) {
            Ok(handle) => handle,
            // It is gone, so there is nothing in it.
            Err(beneath::Miss::NotFound) => return,
            Err(_) => return self.miss(),
        };
        let path = self.absolute(&folder.relative);
        let Ok(found) = rustix::fs::fstat(&handle) else {
            return self.miss();
        };
        let object = Resolved {
            path: path.clone(),
            identities: vec![(found.st_dev, found.st_ino)],
            kind: Some(FileType::Directory),
        };
        let protected = &self.tree.inner.protected;
        if !protected.is_passage(&path) && self.refuses(&object) {
            return;
        }
        let ignored = if self.options.respect_gitignore {
            Ignored::below(folder.ignored.clone(), handle.as_fd(), &path)
        } else {
            None
        };
        // Names need a closer look only where a protected or blocked folder has its place.
        let is_delicate = protected.may_hold_member(&path)
            || self.tree.roots.blocked_parents.contains(&fold(&path));
        let Ok(entries) = Dir::read_from(&handle) else {
            return self.miss();
        };
        let goes_deeper = self
            .options
            .max_depth
            .is_none_or(|most| folder.depth < most);
        let mut below = Vec::new();
        for entry in entries {
            let Ok(entry) = entry else {
                self.miss();
                break;
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if self.is_over() {
                return;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(&handle, name),
                known => known,
            };
            let path = path.join(name);
            let is_folder = kind == FileType::Directory;
            let is_left_out = name == ".git" && !self.options.include_git;
            if is_folder && (is_left_out || !goes_deeper) {
                continue;
            }
            if ignored
                .as_ref()
                .is_some_and(|ignored| ignored.leaves_out(&path, is_folder))
            {
                continue;
            }
            if is_delicate && !(is_folder && protected.is_passage(&path)) {
                let object = Resolved {
                    path: path.clone(),
                    identities: Vec::new(),
                    kind: Some(kind),
                };
                if self.refuses(&object) {
                    continue;
                }
            }
            match kind {
                FileType::Directory => {
                    let relative = if folder.relative == Path::new(".") {
                        PathBuf::from(name)
                    } else {
                        folder.relative.join(name)
                    };
                    below.push(Folder {
                        relative,
                        depth: folder.depth + 1,
                        ignored: ignored.clone(),
                    });
                }
                // Half of a file that is being written, or was when its writer was killed.
                FileType::RegularFile if is_unfinished(name) => {}
                FileType::RegularFile => self.visit(path, None),
                FileType::Symlink => self.visit_link(path),
                _ => {}
            }
        }
        if !below.is_empty() {
            self.queue().folders.append(&mut below);
            self.changed.notify_all();
        }
    }

    /// Counts a folder that was not seen whole.
    fn miss(&self) {
        self.not_entered.fetch_add(1, Ordering::Relaxed);
    }

    /// A link to a regular file that may be read is a file of the tree. Links to folders are not
    /// followed.
    fn visit_link(&self, path: PathBuf) {
        let Ok(target) = resolve(&path) else { return };
        if target.kind == Some(FileType::RegularFile) && !self.refuses(&target) {
            self.visit(path, Some(target));
        }
    }

    fn visit(&self, path: PathBuf, target: Option<Resolved>) {
        let file = TreeFile {
            tree: self.tree,
            path,
            target,
        };
        if (self.visit)(&file).is_break() {
            self.stop(Stopped::Visitor);
        }
    }

    fn open_folder(&self, relative: &Path) -> Result<OwnedFd, beneath::Miss> {
        let root = self.tree.root.descriptor()?;
        beneath::open(
            root,
            relative,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK,
            Mode::empty(),
        )
    }

    fn absolute(&self, relative: &Path) -> PathBuf {
        if relative == Path::new(".") {
            self.tree.root.path.clone()
        } else {
            self.tree.root.path.join(relative)
        }
    }

    fn refuses(&self, object: &Resolved) -> bool {
        let Err(reason) = self
            .tree
            .inner
            .decide(object, Access::Read, &self.tree.roots)
        else {
            return false;
        };
        let denied = Denied::new(reason, Access::Read, object.path.clone());
        let is_worth_recording = reason != DenialReason::OutsideRoot || object.kind.is_some();
        if is_worth_recording && self.recorded.fetch_add(1, Ordering::Relaxed) < MAX_RECORDED {
            self.tree
                .inner
                .record_denial(&denied, "deny", &self.tree.scope);
        }
        true
    }
}

fn kind_of(folder: &OwnedFd, name: &OsStr) -> FileType {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_or(FileType::Unknown, |found| {
        FileType::from_raw_mode(found.st_mode)
    })
}
