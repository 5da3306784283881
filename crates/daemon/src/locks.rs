//! Who works in a home.
//!
//! Every process that runs turns holds the home's lock, shared: a later process that must be alone
//! can ask for it whole. One conversation is worked on by one process at a time, so that its
//! messages stay in order whoever asks.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fermix_config::Home;
use fermix_types::ConversationKey;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

/// How often a lock that another process holds is tried again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process kept it for longer than the caller can wait.
    #[error("{what} is busy with another `fermix`; wait for it to finish, or stop it")]
    Busy {
        /// The home or the conversation.
        what: String,
    },
    /// The lock's file cannot be used.
    #[error("cannot lock `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// A lock; it ends when it is dropped, and with the process in any case.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "holding the file is what it is for")] File);

/// Takes a share of the home's lock.
pub fn share_home(home: &Home) -> Result<Held, LockError> {
    take(
        &home.home_lock(),
        FlockOperation::NonBlockingLockShared,
        Instant::now(),
        || format!("the home `{}`", home.root().display()),
    )
}

/// Takes a conversation for this process, waiting for another until `deadline`. Blocks.
pub fn take_conversation(
    home: &Home,
    key: &ConversationKey,
    deadline: Instant,
) -> Result<Held, LockError> {
    let folder = home.root().join("locks");
    make_private(&folder)?;
    // The key may hold anything, so the file is named by its digest; a fixed number of files
    // bounds the folder, and two conversations that share one only wait for each other.
    let digest = Sha256::digest(key.to_string());
    let path = folder.join(format!("conversation-{:02x}", digest[0]));
    take(
        &path,
        FlockOperation::NonBlockingLockExclusive,
        deadline,
        || format!("the conversation `{}`", key.chat_id),
    )
}

fn make_private(folder: &Path) -> Result<(), LockError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| LockError::Io {
            path: folder.to_owned(),
            source,
        })
}

fn take(
    path: &Path,
    operation: FlockOperation,
    deadline: Instant,
    what: impl Fn() -> String,
) -> Result<Held, LockError> {
    let io = |source| LockError::Io {
        path: path.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(io)?;
    loop {
        match flock(&file, operation) {
            Ok(()) => return Ok(Held(file)),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
            Err(Errno::WOULDBLOCK) => return Err(LockError::Busy { what: what() }),
            Err(error) => return Err(io(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use fermix_config::Environment;

    use super::*;

    #[test]
    fn a_conversation_has_one_worker_and_a_home_has_many() {
        let folder = tempfile::tempdir().unwrap();
        let home =
            Home::resolve(Some(&folder.path().join("home")), &Environment::default()).unwrap();
        let key = ConversationKey::root("cli", "work");
        let _one = share_home(&home).unwrap();
        let _two = share_home(&home).unwrap();
        let held = take_conversation(&home, &key, Instant::now()).unwrap();
        let busy = take_conversation(&home, &key, Instant::now()).unwrap_err();
        assert_eq!(
            busy.to_string(),
            "the conversation `work` is busy with another `fermix`; wait for it to finish, or stop it"
        );
        drop(held);
        take_conversation(&home, &key, Instant::now()).unwrap();
    }
}
