//! The handle everybody shares: writes one after the other, reads beside them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction};

use crate::error::StoreError;
use crate::open;
use crate::readers::Readers;
use crate::writer::Writer;

/// How long one write or read may take unless [`StoreOptions`] says otherwise.
const OPERATION_DEADLINE: Duration = Duration::from_secs(10);

/// SQLite instructions between two looks at the clock, well under a millisecond.
const INSTRUCTIONS_PER_CHECK: i32 = 1_000;

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// How long one write or read may take, and how long it may wait for its turn to start.
    pub deadline: Duration,
    /// Folds the log into the file when the store is dropped, at the price of disk flushes. A
    /// process that answers one question leaves it to the next start.
    pub checkpoint_on_close: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            deadline: OPERATION_DEADLINE,
            checkpoint_on_close: true,
        }
    }
}

/// The database. Cheap to clone; dropping the last clone carries out the queued writes, joins the
/// writer thread and closes the file, which blocks for as long as that takes.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    readers: Arc<Readers>,
    writer: Writer,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The writer closes last, so that its connection can fold the log into the file.
        self.readers.close_idle();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.inner.path).finish()
    }
}

impl Store {
    /// Opens the database file at `path`, creating it (mode 0600) or migrating it as needed. The
    /// folder must exist. Blocks for a few milliseconds; a migration takes as long as its backup.
    ///
    /// # Errors
    /// A file that is damaged, of another program, or of a later Fermix is refused and left as it
    /// is.
    pub fn open(path: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let connection = open::writer(path)?;
        let writer =
            Writer::start(connection, options).map_err(|cause| StoreError::Unreachable {
                path: path.to_owned(),
                cause,
            })?;
        let readers = Arc::new(Readers::new(path.to_owned(), options.deadline));
        Ok(Self {
            inner: Arc::new(Inner {
                path: path.to_owned(),
                readers,
                writer,
            }),
        })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Runs `work` on the writer thread as one transaction: committed when it returns `Ok`, rolled
    /// back when it returns `Err`, panics or runs past the deadline. When the future is dropped
    /// before the work began, it does not begin; after that it runs to its end.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.inner.writer.write(work).await
    }

    /// Runs `work` on a blocking thread against one read-only snapshot of the database.
    pub async fn read<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.inner.readers.read(work).await
    }
}

/// Runs `work`, whose statements are interrupted at the deadline and whose panic is an error.
pub(crate) fn run_bounded<T, E: From<StoreError>>(
    connection: &mut Connection,
    deadline: Duration,
    work: impl FnOnce(&mut Connection) -> Result<T, E>,
) -> Result<T, E> {
    let end = Instant::now() + deadline;
    connection
        .progress_handler(INSTRUCTIONS_PER_CHECK, Some(move || Instant::now() >= end))
        .map_err(StoreError::from)?;
    // The transaction inside `work` rolls back while the panic unwinds, so the connection is whole.
    let outcome = catch_unwind(AssertUnwindSafe(|| work(connection)))
        .unwrap_or_else(|_| Err(StoreError::Panicked.into()));
    connection
        .progress_handler(0, None::<fn() -> bool>)
        .map_err(StoreError::from)?;
    outcome
}
