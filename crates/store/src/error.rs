//! What can go wrong with the database, split by what the caller will do about it.

use std::path::PathBuf;

use rusqlite::ErrorCode;

/// A failure of the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be reached; the owner looks at the folder.
    #[error("cannot open the database {}; check that its folder exists and belongs to you", path.display())]
    Unreachable {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// A later Fermix wrote the file, which is left as it is.
    #[error("the database {} has version {found}, this Fermix knows versions up to {supported}; install a newer Fermix", path.display())]
    Newer {
        /// The database file.
        path: PathBuf,
        /// The file's version.
        found: i64,
        /// The newest version this binary can read.
        supported: usize,
    },
    /// The file is a database of another program, which is left as it is.
    #[error("{} is a database of another program; move it away or set another Fermix home", path.display())]
    Foreign {
        /// The database file.
        path: PathBuf,
    },
    /// The file is damaged, and is left as it is for whoever repairs it.
    #[error("the database {} is damaged ({detail}) and was left as it is; move it away and {}", path.display(), advice(backup.as_ref()))]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// The newest backup beside it.
        backup: Option<PathBuf>,
        /// What is wrong with it.
        detail: String,
    },
    /// No backup could be made, so nothing was migrated.
    #[error("cannot back up the database to {}, so it was not migrated; check the free space of its folder", path.display())]
    Backup {
        /// The backup file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: Cause,
    },
    /// The migration failed and was rolled back.
    #[error("cannot migrate the database {}; it still has its old version", path.display())]
    Migration {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        cause: Cause,
    },
    /// Nothing happened; the caller may try again.
    #[error("another program holds memory.db; close it and try again")]
    Busy,
    /// The work took too long and was undone.
    #[error(
        "the database did not finish in time and undid the work; close other programs that hold memory.db, or ask for less at once"
    )]
    Deadline,
    /// Nothing was written because there is no room.
    #[error("the disk of the database is full; free some space")]
    DiskFull,
    /// The open file turned out to be damaged.
    #[error(
        "the database is damaged; stop Fermix and restore a backup (memory.db.backup-v<N>, beside the database)"
    )]
    Damaged(#[source] rusqlite::Error),
    /// The store was closed, or its writer is gone; nothing happened.
    #[error("the database is closed; restart Fermix")]
    Closed,
    /// A defect in our own code; the work was undone.
    #[error(
        "a database operation panicked and was undone; this is a bug of Fermix, please report it"
    )]
    Panicked,
    /// Anything else.
    #[error("the database failed: {0}")]
    Database(#[source] Cause),
}

/// The failure underneath, whatever the database is.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

fn advice(backup: Option<&PathBuf>) -> String {
    match backup {
        Some(backup) => format!("copy the backup {} into its place", backup.display()),
        None => "start again with an empty one; there is no backup beside it".to_owned(),
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error),
            // The only thing that interrupts a statement is the deadline of its job.
            Some(ErrorCode::OperationInterrupted) => Self::Deadline,
            _ => Self::Database(Box::new(error)),
        }
    }
}

/// Whether SQLite says that the file itself is at fault.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}
