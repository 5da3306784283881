//! The prompt's files: read when they changed, bounded, scanned.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fermix_types::text;

use super::scan;

/// The most of one file that goes into a prompt, in bytes.
pub(crate) const MAX_FILE: usize = 16 * 1024;

/// Who writes a file decides what a suspicious row costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// The owner: rows are warned about and stay.
    Owner,
    /// The agent, from what it heard: rows are warned about and left out.
    Agent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What was read, until the file changes. Holds one entry a file; the prompt has five.
#[derive(Default)]
pub(crate) struct FileCache(Mutex<HashMap<PathBuf, (Stamp, Arc<str>)>>);

impl FileCache {
    /// The text of `path`, trimmed; `None` when it is missing, blank or unreadable. Blocking.
    pub(crate) fn read(&self, path: &Path, author: Author) -> Option<Arc<str>> {
        match self.try_read(path, author) {
            Ok(text) => Some(text).filter(|text| !text.is_empty()),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "a prompt file was left out");
                }
                None
            }
        }
    }

    fn try_read(&self, path: &Path, author: Author) -> io::Result<Arc<str>> {
        let metadata = fs::metadata(path)?;
        // A pipe would hold the turn up for ever.
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let stamp = Stamp {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        if let Some((known, text)) = self.entries().get(path)
            && *known == stamp
        {
            return Ok(Arc::clone(text));
        }
        let mut bytes = Vec::new();
        File::open(path)?
            .take(MAX_FILE as u64 + 1)
            .read_to_end(&mut bytes)?;
        let text: Arc<str> = prepared(path, text::to_valid_utf8(bytes), author).into();
        self.entries()
            .insert(path.to_owned(), (stamp, Arc::clone(&text)));
        Ok(text)
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, (Stamp, Arc<str>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn prepared(path: &Path, content: String, author: Author) -> String {
    let cut = content.len() > MAX_FILE;
    let content = text::prefix(&content, MAX_FILE);
    let findings = scan::scan(content);
    for finding in &findings {
        tracing::warn!(
            path = %path.display(),
            line = finding.line,
            "a prompt file holds {}",
            finding.suspicion
        );
    }
    let mut text = match author {
        Author::Agent => scan::without(content, &findings).trim().to_owned(),
        Author::Owner => content.trim().to_owned(),
    };
    if cut {
        text.push_str("\n[cut: this file is longer than a prompt may carry]");
    }
    text
}
