//! Copies of the database from before a migration: `memory.db.backup-v<N>`, newest three kept.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use crate::error::{Cause, StoreError};

/// How many backups stay beside the database.
const KEPT_BACKUPS: usize = 3;

/// Pages copied between two looks at the lock: 4 MiB.
const PAGES_PER_STEP: i32 = 1024;

/// Copies the open database, whose version is `version`, and drops the oldest surplus copies.
///
/// The copy is made under another name and renamed when it is whole and on the disk, so a backup
/// that exists is a whole one.
pub(crate) fn make(
    connection: &Connection,
    database: &Path,
    version: i64,
) -> Result<PathBuf, StoreError> {
    let target = sibling(database, &format!(".backup-v{version}"));
    copy(connection, &target)
        .and_then(|()| remove_surplus(database).map_err(Cause::from))
        .map_err(|cause| StoreError::Backup {
            path: target.clone(),
            cause,
        })?;
    Ok(target)
}

/// The newest backup of `database`, if there is one.
pub(crate) fn newest(database: &Path) -> Option<PathBuf> {
    // Used to word an error: a folder that cannot be listed has no backup to offer.
    all(database)
        .unwrap_or_default()
        .pop()
        .map(|(_, path)| path)
}

/// `database` with `ending` added to its file name.
pub(crate) fn sibling(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn copy(connection: &Connection, target: &Path) -> Result<(), Cause> {
    let partial = sibling(target, ".partial");
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)?;
    {
        let mut copy = Connection::open(&partial)?;
        Backup::new(connection, &mut copy)?.run_to_completion(
            PAGES_PER_STEP,
            Duration::ZERO,
            None,
        )?;
        copy.close().map_err(|(_, error)| error)?;
    }
    File::open(&partial)?.sync_all()?;
    fs::rename(&partial, target)?;
    if let Some(folder) = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn remove_surplus(database: &Path) -> io::Result<()> {
    let backups = all(database)?;
    let surplus = backups.len().saturating_sub(KEPT_BACKUPS);
    backups
        .iter()
        .take(surplus)
        .try_for_each(|(_, path)| fs::remove_file(path))
}

/// Every backup with the version it holds, oldest version first.
fn all(database: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let Some(name) = database.file_name().and_then(|name| name.to_str()) else {
        return Ok(Vec::new());
    };
    let folder = match database.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let start = format!("{name}.backup-v");
    let mut backups = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let version = entry
            .file_name()
            .to_str()
            .and_then(|name| name.strip_prefix(&start)?.parse().ok());
        if let Some(version) = version {
            backups.push((version, entry.path()));
        }
    }
    backups.sort();
    Ok(backups)
}
