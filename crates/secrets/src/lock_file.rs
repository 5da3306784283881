//! Locks between processes: whoever holds the file writes.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

/// How long other writers are waited for, when their work is a few writes.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the lock is tried.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

/// Why there is no lock.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Somebody else has held it all the time.
    Busy,
    /// The file cannot be used.
    Io(io::Error),
}

/// Waits for the lock at `path`. Blocks its thread.
pub(crate) fn take(path: &Path) -> Result<Lock, LockError> {
    let deadline = Instant::now() + PATIENCE;
    let file = open(path).map_err(LockError::Io)?;
    loop {
        match attempt(&file).map_err(LockError::Io)? {
            true => return Ok(Lock(file)),
            false if Instant::now() >= deadline => return Err(LockError::Busy),
            false => std::thread::sleep(PAUSE),
        }
    }
}

/// Waits for the lock at `path` until `deadline`, without a thread.
pub(crate) async fn take_until(path: &Path, deadline: Instant) -> Result<Lock, LockError> {
    let file = open(path).map_err(LockError::Io)?;
    loop {
        match attempt(&file).map_err(LockError::Io)? {
            true => return Ok(Lock(file)),
            false if Instant::now() >= deadline => return Err(LockError::Busy),
            false => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // A file of its own: what is replaced by renaming would lock nobody out. A link or a pipe of
    // this name is not ours.
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(
        path,
        flags,
        Mode::from(0o600),
    )?))
}

fn attempt(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
