//! A few read-only connections, opened when they are first needed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::error::StoreError;
use crate::open;
use crate::store::run_bounded;

/// Reads that run at the same time; each has a connection of its own.
const MAX_READERS: usize = 4;

/// The pool of read-only connections.
pub(crate) struct Readers {
    path: PathBuf,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
    deadline: Duration,
}

impl Readers {
    pub(crate) fn new(path: PathBuf, deadline: Duration) -> Self {
        Self {
            path,
            permits: Arc::new(Semaphore::new(MAX_READERS)),
            idle: Mutex::default(),
            deadline,
        }
    }

    /// Runs `work` on a blocking thread against one snapshot of the database.
    pub(crate) async fn read<T, E, F>(self: &Arc<Self>, work: F) -> Result<T, E>
    where
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let permits = Arc::clone(&self.permits);
        let permit = match permits.try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let waiting = Arc::clone(&self.permits).acquire_owned();
                match tokio::time::timeout(self.deadline, waiting).await {
                    Ok(Ok(permit)) => permit,
                    Ok(Err(_)) => return Err(StoreError::Closed.into()),
                    Err(_) => return Err(StoreError::Busy.into()),
                }
            }
        };
        let readers = Arc::clone(self);
        let job = tokio::task::spawn_blocking(move || {
            // The permit is held for as long as the connection is, also when the caller goes away.
            let _permit = permit;
            readers.run(work)
        });
        job.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    fn run<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => open::reader(&self.path)?,
        };
        let outcome = run_bounded(&mut connection, self.deadline, |connection| {
            let snapshot = connection.transaction().map_err(StoreError::from)?;
            work(&snapshot)
        });
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(connection);
        outcome
    }

    /// Closes the connections that are not in use.
    pub(crate) fn close_idle(&self) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}
