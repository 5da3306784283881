//! Other names of protected files: hard links.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::resolve::Identity;

/// How long the list of multiply named protected files is trusted.
const FRESH: Duration = Duration::from_secs(30);
/// The most multiply named files the protected trees may hold before every such file is refused.
const MAX_ALIASES: usize = 10_000;
/// The most entries looked at for the list, and the longest it may take.
const MAX_SCANNED: usize = 200_000;
const MAX_SCAN: Duration = Duration::from_secs(3);
/// File systems stamp with the kernel's coarse clock, so a link made just before the list was begun
/// may carry a slightly later stamp and the reverse.
const CLOCK_GRAIN: Duration = Duration::from_millis(50);

/// The multiply named files of some trees.
#[derive(Debug)]
pub(super) struct Aliases {
    /// The trees that are looked through.
    trees: Vec<PathBuf>,
    /// What is left out of them.
    open: Vec<PathBuf>,
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    built: SystemTime,
    age: Instant,
    /// Nothing when the trees could not be looked through.
    files: Option<HashSet<Identity>>,
}

impl Aliases {
    pub(super) fn new(trees: Vec<PathBuf>, open: Vec<PathBuf>) -> Self {
        Self {
            trees,
            open,
            known: Mutex::new(None),
        }
    }

    /// Whether the file is, or cannot be shown not to be, a file of the trees under another name.
    pub(super) fn cover(&self, file: &Metadata) -> bool {
        if file.nlink() <= 1 {
            return false;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(|known| known.tells(file)) {
            let (built, age) = (SystemTime::now(), Instant::now());
            *known = Some(Known {
                built,
                age,
                files: self.multiply_named(),
            });
        }
        match known.as_ref().and_then(|known| known.files.as_ref()) {
            Some(files) => files.contains(&(file.dev(), file.ino())),
            None => true,
        }
    }

    /// The files with more than one name in the trees; nothing when there is too much to look
    /// through.
    fn multiply_named(&self) -> Option<HashSet<Identity>> {
        let started = Instant::now();
        let mut found = HashSet::new();
        let mut scanned = 0;
        let mut pending = self.trees.clone();
        while let Some(path) = pending.pop() {
            scanned += 1;
            if scanned > MAX_SCANNED || found.len() > MAX_ALIASES || started.elapsed() > MAX_SCAN {
                tracing::warn!(
                    scanned,
                    "the protected folders hold too many files to tell their other names; files with several names are refused"
                );
                return None;
            }
            let Ok(entry) = fs::symlink_metadata(&path) else {
                continue;
            };
            if entry.is_dir() {
                // A folder this user cannot list is one whose files this user cannot have linked.
                let Ok(entries) = fs::read_dir(&path) else {
                    continue;
                };
                let below = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
                pending.extend(below.filter(|path| !self.open.contains(path)));
            } else if entry.nlink() > 1 {
                found.insert((entry.dev(), entry.ino()));
            }
        }
        Some(found)
    }
}

impl Known {
    /// Whether this list was made after the last name of `file` was made or removed: making a link
    /// changes the inode's change time.
    fn tells(&self, file: &Metadata) -> bool {
        let changed = u64::try_from(file.ctime())
            .ok()
            .zip(u32::try_from(file.ctime_nsec()).ok())
            .map(|(seconds, nanos)| SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos));
        self.age.elapsed() < FRESH
            && changed.is_some_and(|changed| changed + CLOCK_GRAIN < self.built)
    }
}
