//! The one thread that changes the database.

use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use crate::error::StoreError;
use crate::store::{StoreOptions, run_bounded};

/// Writes that may wait; a caller beyond them waits for a place.
const QUEUE_LENGTH: usize = 64;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// Owns the thread. Dropping it carries out what is queued, then closes the connection.
pub(crate) struct Writer {
    /// `None` once dropping began.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    deadline: Duration,
}

impl Writer {
    pub(crate) fn start(connection: Connection, options: &StoreOptions) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE_LENGTH);
        let checkpoint = options.checkpoint_on_close;
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || serve(connection, queue, checkpoint))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            deadline: options.deadline,
        })
    }

    /// Runs `work` in a transaction that is committed when it returns `Ok`.
    pub(crate) async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let Some(jobs) = &self.jobs else {
            return Err(StoreError::Closed.into());
        };
        let place = match jobs.try_reserve() {
            Ok(place) => place,
            Err(mpsc::error::TrySendError::Closed(())) => return Err(StoreError::Closed.into()),
            Err(mpsc::error::TrySendError::Full(())) => {
                match tokio::time::timeout(self.deadline, jobs.reserve()).await {
                    Ok(Ok(place)) => place,
                    Ok(Err(_)) => return Err(StoreError::Closed.into()),
                    Err(_) => return Err(StoreError::Busy.into()),
                }
            }
        };
        let (reply, answer) = oneshot::channel();
        let deadline = self.deadline;
        place.send(Box::new(move |connection| {
            // Whoever asked has gone away, and nothing has happened yet.
            if reply.is_closed() {
                return;
            }
            let outcome = run_bounded(connection, deadline, |connection| commit(connection, work));
            // A caller that went away while it ran does not undo a commit.
            let _ = reply.send(outcome);
        }));
        // Every job before this one is bounded, so this wait is.
        answer
            .await
            .unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}

fn commit<T, E: From<StoreError>>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
) -> Result<T, E> {
    // Taking the write lock at once: a transaction that read first could not wait for it later.
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(StoreError::from)?;
    let value = work(&transaction)?;
    transaction.commit().map_err(StoreError::from)?;
    Ok(value)
}

fn serve(mut connection: Connection, mut queue: mpsc::Receiver<Job>, checkpoint: bool) {
    while let Some(job) = queue.blocking_recv() {
        job(&mut connection);
    }
    let closed = connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !checkpoint)
        .and_then(|_| connection.close().map_err(|(_, error)| error));
    if let Err(error) = closed {
        // Everything is committed in the log, which the next start reads.
        tracing::warn!(%error, "the database did not close cleanly");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A job that held the last handle of the store drops it on the writer's own thread, which
        // ends by itself once its queue is closed.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!("the database writer panicked");
        }
    }
}
