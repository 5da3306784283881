//! What was granted, when, from where and why: one small file a grant.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::PolicyError;
use super::operation::GrantScope;
use super::{By, PolicyDesk, Provenance};

/// The most records that are read back, the newest first.
const MAX_SHOWN: usize = 200;
/// The longest record, in bytes.
const MAX_RECORD: u64 = 64 * 1024;
/// The most grants of one millisecond.
const MAX_AT_ONCE: u32 = 1000;

/// One grant, as it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRecord {
    /// The canonical folder.
    pub path: PathBuf,
    /// `always`, `read` or `once`.
    pub scope: GrantScope,
    /// Why, in the agent's words; empty when the owner asked.
    pub reason: String,
    /// `agent`, or the owner's name on the channel.
    pub requested_by: String,
    /// Where.
    pub channel: String,
    /// Who said yes, as the channel knows them.
    pub confirmed_by: String,
    /// When, in milliseconds since 1970.
    pub ts: i64,
    /// SHA-256 of the token, for a grant that was confirmed with one.
    pub token_hash: Option<String>,
}

impl PolicyDesk {
    /// Writes the record and gives its place.
    pub(super) fn write_record(
        &self,
        path: &Path,
        scope: GrantScope,
        by: &By,
        provenance: &Provenance<'_>,
    ) -> Result<PathBuf, PolicyError> {
        let folder = self.inner.home.root().join("grants");
        let now = self.inner.clock.now().0;
        let record = GrantRecord {
            path: path.to_owned(),
            scope,
            reason: provenance.reason.to_owned(),
            requested_by: provenance.requested_by.to_owned(),
            channel: by.channel.clone(),
            confirmed_by: by.user.clone(),
            ts: now,
            token_hash: provenance
                .token
                .map(|token| hex::encode(Sha256::digest(token.to_ascii_uppercase()))),
        };
        write(&folder, &record).map_err(|source| PolicyError::Record {
            path: folder,
            source,
        })
    }

    /// The newest records, newest first. A record that cannot be read is left out.
    pub(super) fn records(&self) -> Vec<GrantRecord> {
        let folder = self.inner.home.root().join("grants");
        let Ok(entries) = fs::read_dir(&folder) else {
            return Vec::new();
        };
        let mut names: Vec<(i64, u32, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let (time, number) = name
                    .strip_prefix("grant-")?
                    .strip_suffix(".json")?
                    .split_once('-')?;
                Some((time.parse().ok()?, number.parse().ok()?, entry.path()))
            })
            .collect();
        names.sort_by(|a, b| b.cmp(a));
        let newest = names.into_iter().take(MAX_SHOWN);
        newest.filter_map(|(_, _, path)| read(&path).ok()).collect()
    }
}

fn write(folder: &Path, record: &GrantRecord) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let text = serde_json::to_string_pretty(record)?;
    let mut number = 0;
    let (mut file, path) = loop {
        let path = folder.join(format!("grant-{}-{number}.json", record.ts));
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match opened {
            Ok(file) => break (file, path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_AT_ONCE => {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    };
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(path)
}

fn read(path: &Path) -> io::Result<GrantRecord> {
    let mut text = String::new();
    fs::File::open(path)?
        .take(MAX_RECORD)
        .read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}
