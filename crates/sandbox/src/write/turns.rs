//! Writers of one file take turns, in this process and between processes.
//!
//! The lock is on the file itself, so it leaves nothing behind. A file is replaced by renaming
//! another over it; whoever waited may then hold a file that has lost its name, and has to look at
//! the name again before trusting what it holds.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::read::FileError;
use crate::sandbox::Checked;

/// How long a writer waits for the others.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(5);
/// How often a waiting writer tries again.
const TRY_EVERY: Duration = Duration::from_millis(1);

/// Waits until `file` is this writer's alone, which it is until `file` is closed.
pub(super) fn take_turn(file: &File, checked: &Checked, until: Instant) -> Result<(), FileError> {
    let path = &checked.object.path;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => {
                if Instant::now() >= until || checked.scope.cancel.is_cancelled() {
                    return Err(FileError::Locked(path.clone()));
                }
                std::thread::sleep(TRY_EVERY);
            }
            // Not every file system has locks. There, the comparison right before the rename is all
            // there is.
            Err(Errno::NOSYS | Errno::NOTSUP | Errno::NOLCK | Errno::INVAL | Errno::BADF) => {
                return Ok(());
            }
            Err(error) => return Err(FileError::io("Failed to lock", path, error)),
        }
    }
}
