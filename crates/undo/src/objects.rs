//! Old contents, each in a file named by its SHA-256 digest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::{MAX_OBJECT, UndoError};

/// The SHA-256 digest of a content, as 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Digest(String);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(hex::encode(Sha256::digest(bytes)))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the digits; nothing when they are none.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digest = text.len() == 64
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_digest.then(|| Self(text.to_owned()))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Objects {
    folder: PathBuf,
}

impl Objects {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(&digest.0[..2]).join(&digest.0[2..])
    }

    /// Puts `bytes` away. A content that is there already is not written again. Whoever looks sees
    /// the whole content or none.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<Digest, UndoError> {
        let digest = Digest::of(bytes);
        let path = self.path(&digest);
        let failed = |source| UndoError::Objects {
            path: path.clone(),
            source,
        };
        if fs::symlink_metadata(&path).is_ok_and(|found| found.len() == bytes.len() as u64) {
            return Ok(digest);
        }
        let folder = path.parent().unwrap_or(&self.folder);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
        let unfinished = folder.join(format!("{}.{}.new", &digest.0[2..], std::process::id()));
        let written = write_whole(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&unfinished);
            return Err(failed(error));
        }
        Ok(digest)
    }

    /// The content, when it is there and is what its name says.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path(digest))
            .ok()?
            .take(MAX_OBJECT + 1)
            .read_to_end(&mut bytes)
            .ok()?;
        (Digest::of(&bytes) == *digest).then_some(bytes)
    }

    /// Removes a content that no change needs any more. One that is gone already is fine.
    pub(crate) fn remove(&self, digest: &Digest) {
        if let Err(error) = fs::remove_file(self.path(digest))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "an old content could not be removed");
        }
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    // The row that names it must never outlive it.
    file.sync_data()
}
