//! What must hold after a crash, read from the home itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fermix_store::rusqlite::{Connection, OpenFlags};
use sha2::{Digest as _, Sha256};

/// How long what a killed daemon had started may take to be gone.
pub(super) const MAX_ORPHANS: Duration = Duration::from_secs(5);

/// A message as the database has it.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// How often it is there.
    pub(super) times: usize,
    /// How many answers and markers end it.
    pub(super) endings: usize,
}

/// Every user message with its endings, by its text. An error is the finding.
pub(super) fn messages(database: &Path) -> Result<BTreeMap<String, Stored>, String> {
    let failed = |error: fermix_store::rusqlite::Error| format!("the database: {error}");
    let connection =
        Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(failed)?;
    if verdict != "ok" {
        return Err(format!("the database is damaged: {verdict}"));
    }
    let mut statement = connection
        .prepare(
            "SELECT u.text, (SELECT count(*) FROM message e WHERE e.reply_to = u.id)
             FROM message u WHERE u.role = 'user'",
        )
        .map_err(failed)?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(failed)?;
    let mut found: BTreeMap<String, Stored> = BTreeMap::new();
    for row in rows {
        let (text, endings): (String, i64) = row.map_err(failed)?;
        let stored = found.entry(text).or_default();
        stored.times += 1;
        stored.endings += usize::try_from(endings).unwrap_or(usize::MAX);
    }
    Ok(found)
}

/// Whether every old content that a change refers to is there and whole.
pub(super) fn checkpoints(fermix_home: &Path) -> Result<usize, String> {
    let failed = |error: fermix_store::rusqlite::Error| format!("the database: {error}");
    let database = fermix_home.join("memory.db");
    let connection =
        Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
    let mut statement = connection
        .prepare("SELECT DISTINCT before FROM change WHERE before IS NOT NULL")
        .map_err(failed)?;
    let digests = statement
        .query_map([], |row| row.get::<_, String>(0))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(failed)?;
    for digest in &digests {
        let object = fermix_home
            .join("undo")
            .join(&digest[..2])
            .join(&digest[2..]);
        let bytes = fs::read(&object)
            .map_err(|error| format!("a checkpoint's content is missing: {error}"))?;
        let found = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        if found != *digest {
            return Err("a checkpoint's content is not what its name says".to_owned());
        }
    }
    Ok(digests.len())
}

/// Processes that run in the home, by their environment, `except` left out.
pub(super) fn processes_of(os_home: &Path, except: Option<u32>) -> Vec<u32> {
    let wanted = format!("HOME={}", os_home.display()).into_bytes();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| Some(*pid) != except && *pid != std::process::id())
        .filter(|pid| {
            let is_dead = fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
                stat.rsplit(") ")
                    .next()
                    .is_some_and(|rest| rest.starts_with('Z'))
            });
            !is_dead
                && fs::read(format!("/proc/{pid}/environ"))
                    .is_ok_and(|all| all.split(|byte| *byte == 0).any(|each| each == wanted))
        })
        .collect()
}

/// Waits until nothing of the home runs any more. What is left at the end is the finding.
pub(super) fn orphans(os_home: &Path) -> Vec<u32> {
    let started = Instant::now();
    loop {
        let left = processes_of(os_home, None);
        if left.is_empty() || started.elapsed() > MAX_ORPHANS {
            return left;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
