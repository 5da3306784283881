//! Replacing the file so that a crash at any moment leaves the old one or the new one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::error::EditError;
use crate::load::{self, FileText};

/// The file's mode: its owner alone.
const PRIVATE_FILE: u32 = 0o600;
/// How long other writers are waited for: a dozen of them, each on a slow disk.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// How often the lock is tried.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

/// Writes `text` to `path` if the file still holds `baseline`, and keeps `backup` as `.bak`. An
/// editor takes no lock, so that is asked under a lock too. Blocks for as long as the disk.
pub(crate) fn replace(
    path: &Path,
    baseline: Option<&str>,
    backup: Option<&str>,
    text: &str,
    _lock: &Lock,
) -> Result<(), EditError> {
    // A file that is a link (into a folder of dotfiles, say) stays one.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let current = load::read_file(path)?;
    if current.as_ref().map(|file: &FileText| file.text.as_str()) != baseline {
        return Err(EditError::Changed {
            path: path.to_owned(),
        });
    }
    if let Some(old) = backup {
        put(&beside(path, ".bak"), old)?;
    }
    put(&target, text)
}

/// Waits for the other writers of `path`, for at most the lock's patience.
pub(crate) fn lock(path: &Path) -> Result<Lock, EditError> {
    // The lock is a file of its own: `path` itself is replaced, and a lock on a replaced file
    // would exclude nobody.
    let lock_path = beside(path, ".lock");
    let failed = |source| EditError::Io {
        doing: "lock",
        path: lock_path.clone(),
        source,
    };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(PRIVATE_FILE)
        // A named pipe of this name would have its opener wait.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(&lock_path)
        .map_err(failed)?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock(file)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(EditError::Busy {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
}

/// Writes a whole file: new file in the same folder, fsync, rename, fsync of the folder.
fn put(target: &Path, text: &str) -> Result<(), EditError> {
    // One name for the new file, so that a killed writer leaves at most one behind and the next
    // one removes it. The lock keeps two writers apart.
    let fresh = beside(target, ".new");
    let write = || -> io::Result<()> {
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(PRIVATE_FILE)
            .open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, target)?;
        match target.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    write().map_err(|source| EditError::Io {
        doing: "write",
        path: target.to_owned(),
        source,
    })
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
