//! Migrating an existing database: backed up first, whole or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};

use super::writer_with;
use crate::error::StoreError;

fn open(path: &Path, steps: &[&'static str]) -> Result<Connection, StoreError> {
    let migrations = Migrations::new(steps.iter().copied().map(M::up).collect());
    writer_with(path, &migrations, steps.len())
}

const FIRST: &str =
    "PRAGMA application_id = 0x4665726d; CREATE TABLE note (text TEXT NOT NULL) STRICT;";
const SECOND: &str = "ALTER TABLE note ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;";
const THIRD: &str = "CREATE INDEX note_by_text ON note (text);";
const BROKEN: &str = "CREATE TABLE extra (a TEXT) STRICT; CREATE TABLE note (text TEXT) STRICT;";

fn names(folder: &Path, part: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(part))
        .collect();
    names.sort();
    names
}

fn notes(connection: &Connection) -> Vec<String> {
    let mut statement = connection
        .prepare("SELECT text FROM note ORDER BY rowid")
        .unwrap();
    statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn each_migration_leaves_a_whole_backup_and_three_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let steps = [FIRST, SECOND, THIRD, "SELECT 1;", "SELECT 1;"];
    for version in 1..=steps.len() {
        let connection = open(&path, &steps[..version]).unwrap();
        connection
            .execute(
                "INSERT INTO note (text) VALUES (?1)",
                [format!("at {version}")],
            )
            .unwrap();
        // Closing leaves the log unfolded, so the next backup must read it too.
    }
    assert_eq!(
        names(folder.path(), "backup"),
        [
            "memory.db.backup-v2",
            "memory.db.backup-v3",
            "memory.db.backup-v4"
        ]
    );
    for version in 2..=4_u32 {
        let path = folder.path().join(format!("memory.db.backup-v{version}"));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let backup = open(&path, &steps[..version as usize]).unwrap();
        let expected: Vec<String> = (1..=version)
            .map(|version| format!("at {version}"))
            .collect();
        assert_eq!(notes(&backup), expected);
    }
}

#[test]
fn a_migration_that_fails_changes_nothing_and_can_be_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    open(&path, &[FIRST])
        .unwrap()
        .execute("INSERT INTO note VALUES ('kept')", [])
        .unwrap();
    for _ in 0..2 {
        let refused = open(&path, &[FIRST, BROKEN]);
        assert!(
            matches!(refused, Err(StoreError::Migration { .. })),
            "{refused:?}"
        );
        assert_eq!(names(folder.path(), "backup"), ["memory.db.backup-v1"]);
    }
    let connection = open(&path, &[FIRST]).unwrap();
    assert_eq!(notes(&connection), ["kept"]);
    assert!(connection.prepare("SELECT * FROM extra").is_err());
}

#[test]
fn no_backup_means_no_migration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    open(&path, &[FIRST])
        .unwrap()
        .execute("INSERT INTO note VALUES ('kept')", [])
        .unwrap();
    // A folder in the backup's place cannot be replaced by it.
    fs::create_dir_all(folder.path().join("memory.db.backup-v1/full")).unwrap();
    let refused = open(&path, &[FIRST, SECOND]);
    assert!(
        matches!(refused, Err(StoreError::Backup { .. })),
        "{refused:?}"
    );
    assert!(open(&path, &[FIRST]).is_ok());
}

#[test]
fn a_damaged_page_is_found_before_the_migration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    {
        let connection = open(&path, &[FIRST]).unwrap();
        for number in 0..2_000 {
            connection
                .execute("INSERT INTO note VALUES (?1)", [format!("note {number}")])
                .unwrap();
        }
        connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
    }
    let mut bytes = fs::read(&path).unwrap();
    bytes[3 * 4096..4 * 4096].fill(0x5a);
    fs::write(&path, &bytes).unwrap();
    let refused = open(&path, &[FIRST, SECOND]);
    assert!(
        matches!(refused, Err(StoreError::Corrupt { .. })),
        "{refused:?}"
    );
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert!(names(folder.path(), "backup").is_empty());
}

#[test]
fn a_newer_database_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    open(&path, &[FIRST, SECOND])
        .unwrap()
        .execute("INSERT INTO note VALUES ('new', 1)", [])
        .unwrap();
    let log = folder.path().join("memory.db-wal");
    let before = (fs::read(&path).unwrap(), fs::read(&log).unwrap());
    assert!(!before.1.is_empty(), "the newest row is in the log");
    let refused = open(&path, &[FIRST]);
    assert!(
        matches!(
            refused,
            Err(StoreError::Newer {
                found: 2,
                supported: 1,
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!((fs::read(&path).unwrap(), fs::read(&log).unwrap()), before);
}
