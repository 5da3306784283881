//! Who works in a home.
//!
//! Every process that runs turns holds the home's lock, shared: a later process that must be alone
//! can ask for it whole. One conversation is worked on by one process at a time, so that its
//! messages stay in order whoever asks.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use fermix_config::Home;
use fermix_types::ConversationKey;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

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
pub struct Held(File);

/// Takes a share of the home's lock.
pub fn share_home(home: &Home) -> Result<Held, LockError> {
    take(
        &home.home_lock(),
        FlockOperation::NonBlockingLockShared,
        Instant::now(),
        || format!("the home `{}`", home.root().display()),
    )
}

/// Takes the place of the one daemon of `home`, and leaves this process's id there.
pub fn take_daemon(home: &Home) -> Result<Held, LockError> {
    let path = home.daemon_lock();
    // Whoever looks for the daemon holds the lock for a moment.
    let deadline = Instant::now() + 5 * LOOK_AGAIN;
    let what = || format!("the daemon's place in `{}`", home.root().display());
    let held = take(
        &path,
        FlockOperation::NonBlockingLockExclusive,
        deadline,
        what,
    )?;
    let written = held
        .0
        .set_len(0)
        .and_then(|()| (&held.0).write_all(format!("{}\n", std::process::id()).as_bytes()));
    written.map_err(|source| LockError::Io { path, source })?;
    Ok(held)
}

/// The process id of the daemon of `home`; `None` when none runs.
pub fn daemon_pid(home: &Home) -> Option<u32> {
    let file = File::open(home.daemon_lock()).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => {}
        // Nobody holds it, or it cannot be told.
        Ok(()) | Err(_) => return None,
    }
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Takes a conversation for this process, waiting for another until `deadline`. Blocks.
pub fn take_conversation(
    home: &Home,
    key: &ConversationKey,
    deadline: Instant,
) -> Result<Held, LockError> {
    make_private(&locks_folder(home))?;
    take(
        &conversation_lock(home, key),
        FlockOperation::NonBlockingLockExclusive,
        deadline,
        || format!("the conversation `{}`", key.chat_id),
    )
}

fn locks_folder(home: &Home) -> PathBuf {
    home.root().join("locks")
}

/// The key may hold anything, so the file is named by its digest; a fixed number of files bounds
/// the folder, and two conversations that share one only wait for each other.
fn conversation_lock(home: &Home, key: &ConversationKey) -> PathBuf {
    let digest = Sha256::digest(key.to_string());
    locks_folder(home).join(format!("conversation-{:02x}", digest[0]))
}

/// The conversations that this process works on, for one with many turns at once. A lock is shared
/// by all of them that need it, and let go when none does: within the process the agent's queues
/// keep the order.
pub struct ConversationLocks {
    home: Home,
    /// At most as many as there are files.
    held: Mutex<HashMap<PathBuf, Weak<OnceCell<Held>>>>,
}

/// A share of a conversation's lock.
#[derive(Debug)]
pub struct Share(#[expect(dead_code, reason = "holding it is what it is for")] Arc<OnceCell<Held>>);

impl ConversationLocks {
    /// The locks of `home`. None is taken yet.
    pub fn new(home: Home) -> Self {
        Self {
            home,
            held: Mutex::default(),
        }
    }

    /// Takes a conversation, waiting for other processes for at most `wait`.
    pub async fn share(&self, key: &ConversationKey, wait: Duration) -> Result<Share, LockError> {
        let cell = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let known = held.entry(conversation_lock(&self.home, key)).or_default();
            known.upgrade().unwrap_or_else(|| {
                let fresh = Arc::new(OnceCell::new());
                *known = Arc::downgrade(&fresh);
                fresh
            })
        };
        let taking = cell.get_or_try_init(|| self.take(key, Instant::now() + wait));
        match tokio::time::timeout(wait, taking).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                return Err(LockError::Busy {
                    what: format!("the conversation `{}`", key.chat_id),
                });
            }
        }
        Ok(Share(cell))
    }

    async fn take(&self, key: &ConversationKey, deadline: Instant) -> Result<Held, LockError> {
        loop {
            match take_conversation(&self.home, key, Instant::now()) {
                Err(LockError::Busy { .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                outcome => return outcome,
            }
        }
    }
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

    #[tokio::test]
    async fn one_process_shares_a_conversation_with_itself_alone() {
        let folder = tempfile::tempdir().unwrap();
        let home =
            Home::resolve(Some(&folder.path().join("home")), &Environment::default()).unwrap();
        let key = ConversationKey::root("cli", "work");
        let locks = ConversationLocks::new(home.clone());
        let patience = Duration::from_secs(60);
        let one = locks.share(&key, Duration::ZERO).await.unwrap();
        let two = locks.share(&key, Duration::ZERO).await.unwrap();
        take_conversation(&home, &key, Instant::now()).unwrap_err();
        drop(one);
        take_conversation(&home, &key, Instant::now()).unwrap_err();
        drop(two);
        let elsewhere = take_conversation(&home, &key, Instant::now()).unwrap();
        locks.share(&key, Duration::ZERO).await.unwrap_err();
        let (share, ()) = tokio::join!(locks.share(&key, patience), async { drop(elsewhere) });
        share.unwrap();
    }
}
