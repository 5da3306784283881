//! Files as they are, without following links.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use fermix_sandbox::{Sandbox, Scope};
use fermix_types::ToolError;
use fermix_undo::Digest;

use super::session::Session;
use crate::blocking::blocking;

/// A file as it is on disk.
pub(super) enum OnDisk {
    Absent,
    File(Vec<u8>),
    /// A link, a folder, too large, or nothing the turn may read.
    Other,
}

impl OnDisk {
    /// Its digest, or nothing when there is no file; an error when it cannot be told.
    pub(super) fn digest(&self) -> Result<Option<String>, ()> {
        match self {
            Self::Absent => Ok(None),
            Self::File(bytes) => Ok(Some(Digest::of(bytes).as_str().to_owned())),
            Self::Other => Err(()),
        }
    }
}

/// Looks at `path` without following a link anywhere in it. Blocks on the disk.
fn on_disk(sandbox: &Sandbox, scope: &Scope, path: &Path, limit: u64) -> OnDisk {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && found.len() <= limit => {}
        Ok(_) => return OnDisk::Other,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return OnDisk::Absent;
        }
        Err(_) => return OnDisk::Other,
    }
    let Ok(readable) = sandbox.readable(&path.to_string_lossy(), scope) else {
        return OnDisk::Other;
    };
    if readable.path() != path {
        return OnDisk::Other;
    }
    let Ok(opened) = readable.open() else {
        return OnDisk::Other;
    };
    let mut bytes = Vec::new();
    match opened.file.take(limit + 1).read_to_end(&mut bytes) {
        Ok(read) if read as u64 <= limit => OnDisk::File(bytes),
        _ => OnDisk::Other,
    }
}

/// The same from where it may wait.
pub(super) async fn look(session: &Session, path: &Path, limit: u64) -> Result<OnDisk, ToolError> {
    let (sandbox, scope) = (session.sandbox.clone(), session.scope.clone());
    let path = path.to_owned();
    blocking(move || Ok(on_disk(&sandbox, &scope, &path, limit))).await
}
