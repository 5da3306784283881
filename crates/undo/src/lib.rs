//! Checkpoints of what tools changed, and their restoration.
//!
//! Before a tool changes a file, the old content is put away under its own digest, outside every
//! folder that tools reach, and one row says which change it belongs to. The row also holds the
//! digest of what the change makes of the file: a file that holds anything else by then has been
//! changed since, and is not touched.
//!
//! What is kept is bounded by number, age and size; the oldest goes first.

mod files;
mod journal;
mod objects;

use std::path::PathBuf;
use std::sync::Arc;

use fermix_store::{Store, StoreError};
use fermix_types::Clock;

pub use files::{BeforeWrite, Restored};
pub use journal::{Change, ChangeId, ChangeKind, NewChange};
pub use objects::Digest;

/// The most changes that are kept.
pub const MAX_CHANGES: u32 = 1_000;
/// The most bytes of old content that are kept.
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// How long a change is kept, in days.
pub const KEEP_DAYS: i64 = 30;
/// The largest old content that is put away, in bytes.
pub const MAX_OBJECT: u64 = 64 * 1024 * 1024;

/// Opens the database when it is first needed, and gives the same one after that.
pub type OpenStore = Arc<dyn Fn() -> Result<Store, StoreError> + Send + Sync>;

/// Why something was not put away or not restored.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// There is no change to undo, or none with this number.
    #[error("there is nothing to undo{}", .0.map(|id| format!(" under number {id}; `fermix undo --list` shows what there is")).unwrap_or_default())]
    Nothing(Option<i64>),
    /// It was undone before.
    #[error("change {0} was undone already")]
    AlreadyUndone(i64),
    /// The file is not what the change left behind.
    #[error("`{}` has changed since; nothing was undone. Undo the later change first, or edit the file", .0.display())]
    ChangedSince(PathBuf),
    /// The old content is gone or damaged.
    #[error("the old content of `{}` is missing from {}; it cannot be undone", path.display(), objects.display())]
    ContentLost {
        /// The file.
        path: PathBuf,
        /// Where old contents are kept.
        objects: PathBuf,
    },
    /// The policy refuses the file now.
    #[error("cannot undo: {0}")]
    Refused(String),
    /// The old content could not be put away.
    #[error("the old content could not be put away in {}: {source}", path.display())]
    Objects {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Fermix is shutting down.
    #[error("fermix is shutting down; nothing was undone")]
    Stopped,
}

/// The changes and their old contents. Cheap to clone.
#[derive(Clone)]
pub struct UndoLog {
    store: OpenStore,
    objects: objects::Objects,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for UndoLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("UndoLog").field(&self.objects).finish()
    }
}

impl UndoLog {
    /// Keeps old contents below `folder`, which is made when the first comes, and the list of
    /// changes in the database.
    pub fn new(folder: PathBuf, store: OpenStore, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            objects: objects::Objects::new(folder),
            clock,
        }
    }

    /// The database, opened off the executor's threads.
    async fn store(&self) -> Result<Store, UndoError> {
        let open = Arc::clone(&self.store);
        blocking(move || open().map_err(UndoError::from)).await
    }
}

/// Disk work on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, UndoError> + Send + 'static,
) -> Result<T, UndoError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(UndoError::Stopped),
        },
    }
}
