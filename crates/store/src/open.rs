//! Opening the database file: whose is it, which version, is it whole, and only then migrating.
//!
//! A file that is not ours, is newer than this binary or is damaged is left byte for byte as it
//! is. The way of a file that is up to date is short, because a single question on the command
//! line waits for it.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use rusqlite_migration::Migrations;

use crate::error::{StoreError, is_damage};
use crate::schema::APPLICATION_ID;
use crate::{backup, schema};

/// How long a statement waits for another process that holds the file's lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How long opening pauses before it tries a held lock again.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// The log is folded into the database when it passes this many pages (1 MiB), so that reading it
/// back after a crash or a quick exit takes about a millisecond.
const CHECKPOINT_PAGES: i64 = 256;

/// The log file is cut back to this size after a checkpoint.
const LOG_BYTES: i64 = 4 << 20;

/// Opens `path` for writing, creating or migrating it as needed.
pub(crate) fn writer(path: &Path) -> Result<Connection, StoreError> {
    let (migrations, latest) = schema::migrations();
    writer_with(path, &migrations, latest)
}

/// Opens `path`, which [`writer`] has opened before, for reading only.
pub(crate) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(LOCK_WAIT)?;
    Ok(connection)
}

fn writer_with(
    path: &Path,
    migrations: &Migrations<'_>,
    latest: usize,
) -> Result<Connection, StoreError> {
    prepare_file(path)?;
    let end = Instant::now() + LOCK_WAIT;
    loop {
        // SQLite does not wait for the lock where waiting could deadlock, such as while another
        // process switches a new file to its log. Starting over is safe: every step is.
        match attempt(path, migrations, latest) {
            Err(StoreError::Busy) if Instant::now() < end => std::thread::sleep(RETRY_PAUSE),
            outcome => return outcome,
        }
    }
}

fn attempt(
    path: &Path,
    migrations: &Migrations<'_>,
    latest: usize,
) -> Result<Connection, StoreError> {
    let mut connection = connect(path).map_err(|error| at_open(path, error))?;
    let found = examine(&connection, path, latest)?;
    if found != Found::Current {
        migrate(&mut connection, path, found, migrations, latest)?;
    }
    settle(&connection).map_err(|error| at_open(path, error))?;
    Ok(connection)
}

/// Makes the file when it is missing, and makes it the owner's alone.
fn prepare_file(path: &Path) -> Result<(), StoreError> {
    let unreachable = |cause| StoreError::Unreachable {
        path: path.to_owned(),
        cause,
    };
    let length = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Err(unreachable(io::Error::other("it is not a regular file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
            {
                Ok(_) => {}
                // Another process was first; what it made is examined like any other file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unreachable(error)),
            }
            0
        }
        Err(error) => return Err(unreachable(error)),
    };
    let log = backup::sibling(path, "-wal");
    if length == 0 {
        // SQLite would take an empty file for a new database and throw its log away. The length is
        // read again last: another process may have filled the file since.
        let lost_contents = fs::metadata(&log).is_ok_and(|log| log.len() > 0);
        let backup = backup::newest(path);
        if (lost_contents || backup.is_some())
            && fs::metadata(path).is_ok_and(|file| file.len() == 0)
        {
            let detail = "it is empty, but a log or a backup of its contents exists".to_owned();
            return Err(StoreError::Corrupt {
                path: path.to_owned(),
                backup,
                detail,
            });
        }
    }
    for file in [path, &log, &backup::sibling(path, "-shm")] {
        match fs::metadata(file) {
            Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
                fs::set_permissions(file, Permissions::from_mode(0o600)).map_err(unreachable)?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreachable(error)),
        }
    }
    Ok(())
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(LOCK_WAIT)?;
    // Until the file is known to be ours, closing it must not change it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// What a file turned out to be, of those that may be opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Empty,
    Older(i64),
    Current,
}

fn examine(connection: &Connection, path: &Path, latest: usize) -> Result<Found, StoreError> {
    // One snapshot: another process may be making the tables at this moment.
    let read = || -> rusqlite::Result<(i64, i64, bool)> {
        let snapshot = connection.unchecked_transaction()?;
        let number = |query| snapshot.query_row(query, [], |row| row.get::<_, i64>(0));
        let version = number("PRAGMA user_version")?;
        let application = number("PRAGMA application_id")?;
        let is_empty =
            application == 0 && version == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0;
        Ok((version, application, is_empty))
    };
    let (version, application, is_empty) = read().map_err(|error| at_open(path, error))?;
    if is_empty {
        return Ok(Found::Empty);
    }
    if application != APPLICATION_ID || version < 1 {
        return Err(StoreError::Foreign {
            path: path.to_owned(),
        });
    }
    let supported = i64::try_from(latest).unwrap_or(i64::MAX);
    match version.cmp(&supported) {
        std::cmp::Ordering::Less => Ok(Found::Older(version)),
        std::cmp::Ordering::Equal => Ok(Found::Current),
        std::cmp::Ordering::Greater => Err(StoreError::Newer {
            path: path.to_owned(),
            found: version,
            supported: latest,
        }),
    }
}

fn migrate(
    connection: &mut Connection,
    path: &Path,
    found: Found,
    migrations: &Migrations<'_>,
    latest: usize,
) -> Result<(), StoreError> {
    if let Found::Older(version) = found {
        require_whole(connection, path)?;
        let backup = backup::make(connection, path, version)?;
        tracing::info!(from = version, to = latest, backup = %backup.display(), "migrating the database");
    } else {
        // A new database holds nothing that a flush could save, and its seven flushes would be
        // most of the time of a first question. `settle` turns flushing on.
        connection
            .pragma_update(None, "synchronous", "OFF")
            .and_then(|()| connection.pragma_update(None, "journal_mode", "WAL"))
            .map_err(|error| at_open(path, error))?;
    }
    // Rebuilding a table inside a migration needs the references unchecked.
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
    match migrations.to_latest(connection) {
        Ok(()) => Ok(()),
        // Another process may have migrated the file while this one waited for the lock.
        Err(_) if examine(connection, path, latest)? == Found::Current => Ok(()),
        Err(error) => Err(StoreError::Migration {
            path: path.to_owned(),
            cause: Box::new(error),
        }),
    }
}

/// A damaged file is found before the backup, not after the migration.
fn require_whole(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| at_open(path, error))?;
    if verdict == "ok" {
        Ok(())
    } else {
        Err(corrupt(path, verdict))
    }
}

fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)
}

fn at_open(path: &Path, error: rusqlite::Error) -> StoreError {
    if is_damage(&error) {
        corrupt(path, error.to_string())
    } else {
        error.into()
    }
}

fn corrupt(path: &Path, detail: String) -> StoreError {
    StoreError::Corrupt {
        path: path.to_owned(),
        backup: backup::newest(path),
        detail,
    }
}

#[cfg(test)]
mod tests;
