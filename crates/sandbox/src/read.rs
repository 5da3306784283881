//! Reading through the policy: a path that may be read, and the file it opens.

use std::fmt;
use std::fs::{File, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fermix_types::ToolError;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::beneath::{self, Miss};
use crate::denial::{DenialReason, Denied};
use crate::sandbox::Checked;

/// How often an object that changes under the check is resolved anew before it is refused.
pub(crate) const MAX_RESOLVES: usize = 3;

/// A path this turn may read. Only the policy makes one.
#[derive(Clone)]
pub struct ReadablePath {
    pub(crate) checked: Checked,
}

/// A regular file, open for reading. The descriptor is the file that was checked, whatever its name
/// leads to by now.
#[derive(Debug)]
pub struct OpenFile {
    /// Positioned at the start.
    pub file: File,
    /// Bytes, when it was opened.
    pub len: u64,
    /// The canonical path it was opened by.
    pub path: PathBuf,
    /// What the descriptor said when it was opened.
    pub metadata: Metadata,
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The policy refused.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// Nothing has this name.
    #[error("File not found: {}", .0.display())]
    NotFound(PathBuf),
    /// A folder where a file was wanted.
    #[error("Path is a directory: {}", .0.display())]
    IsDirectory(PathBuf),
    /// A FIFO, a device or a socket.
    #[error("Not a regular file: {}", .0.display())]
    NotRegular(PathBuf),
    /// More than the caller takes.
    #[error("File too large: {} has {len} bytes; the limit is {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        len: u64,
        /// The most the caller takes.
        limit: u64,
    },
    /// Somebody else changed the file after it was read.
    #[error("file changed while editing, read it again: {}", .0.display())]
    Changed(PathBuf),
    /// Another writer did not let go of the file in time.
    #[error("file is locked by another program, try again later: {}", .0.display())]
    Locked(PathBuf),
    /// The folder a new file would lie in does not exist.
    #[error("Directory not found: {}", .0.display())]
    NoParent(PathBuf),
    /// The system refused.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried, for example `Failed to open`.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
}

impl FileError {
    /// The tag of the tool's answer.
    pub const fn tag(&self) -> &'static str {
        match self {
            Self::Denied(_) => "sandbox_denied",
            Self::NotFound(_) | Self::NoParent(_) => "not_found",
            Self::IsDirectory(_) => "is_directory",
            Self::NotRegular(_) => "not_regular_file",
            Self::TooLarge { .. } => "too_large",
            Self::Changed(_) => "changed",
            Self::Locked(_) => "locked",
            Self::Io { .. } => "io_failed",
        }
    }

    pub(crate) fn io(what: &'static str, path: &Path, source: impl Into<std::io::Error>) -> Self {
        Self::Io {
            what,
            path: path.to_owned(),
            source: source.into(),
        }
    }
}

impl From<FileError> for ToolError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Denied(denied) => denied.into(),
            other => Self::new(other.tag(), other.to_string()),
        }
    }
}

impl fmt::Debug for ReadablePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadablePath").field(&self.path()).finish()
    }
}

impl ReadablePath {
    pub(crate) fn new(checked: Checked) -> Self {
        Self { checked }
    }

    /// The canonical path.
    pub fn path(&self) -> &Path {
        &self.checked.object.path
    }

    /// The root that admits it.
    pub fn root(&self) -> &Path {
        &self.checked.root.path
    }

    /// Whether it was a folder when it was checked.
    pub fn is_dir(&self) -> bool {
        self.checked.object.kind == Some(FileType::Directory)
    }

    /// Whether something was there when it was checked.
    pub fn exists(&self) -> bool {
        self.checked.object.kind.is_some()
    }

    /// Opens the file. Blocks on the disk, never on a peer: only regular files open.
    pub fn open(&self) -> Result<OpenFile, FileError> {
        open_regular(&self.checked)
    }
}

/// Opens what `checked` stands for and proves that it is a regular, unprotected file.
pub(crate) fn open_regular(checked: &Checked) -> Result<OpenFile, FileError> {
    let mut checked = std::borrow::Cow::Borrowed(checked);
    for _ in 0..=MAX_RESOLVES {
        match checked.object.kind {
            Some(FileType::RegularFile) => {}
            Some(FileType::Directory) => {
                return Err(FileError::IsDirectory(checked.object.path.clone()));
            }
            // Opening a device can do something, so it is not even tried.
            Some(_) => return Err(FileError::NotRegular(checked.object.path.clone())),
            None => return Err(FileError::NotFound(checked.object.path.clone())),
        }
        match open_beneath(&checked, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(opened) => return inspect(&checked, opened),
            Err(Miss::Changed) => checked = std::borrow::Cow::Owned(checked.again()?),
            Err(Miss::NotFound) => return Err(FileError::NotFound(checked.object.path.clone())),
            Err(Miss::Other(Errno::NXIO)) => {
                return Err(FileError::NotRegular(checked.object.path.clone()));
            }
            Err(Miss::Other(error)) => {
                return Err(FileError::io("Failed to open", &checked.object.path, error));
            }
        }
    }
    Err(checked.denied(DenialReason::PathChanged).into())
}

pub(crate) fn open_beneath(checked: &Checked, flags: OFlags) -> Result<OwnedFd, Miss> {
    beneath::open(
        checked.root.descriptor()?,
        checked.relative(),
        flags,
        Mode::empty(),
    )
}

/// What the descriptor itself says. The name no longer matters.
fn inspect(checked: &Checked, opened: OwnedFd) -> Result<OpenFile, FileError> {
    let path = &checked.object.path;
    let file = File::from(opened);
    let metadata = file
        .metadata()
        .map_err(|error| FileError::io("Failed to inspect", path, error))?;
    if metadata.is_dir() {
        return Err(FileError::IsDirectory(path.clone()));
    }
    if !metadata.is_file() {
        return Err(FileError::NotRegular(path.clone()));
    }
    prove_unprotected(checked, &metadata)?;
    Ok(OpenFile {
        len: metadata.len(),
        file,
        path: path.clone(),
        metadata,
    })
}

pub(crate) fn prove_unprotected(checked: &Checked, metadata: &Metadata) -> Result<(), Denied> {
    let protected = &checked.inner.protected;
    if protected.covers_identity(&[(metadata.dev(), metadata.ino())]) {
        return Err(checked.denied(DenialReason::ProtectedPath));
    }
    if protected.covers_alias(metadata) {
        return Err(checked.denied(DenialReason::ProtectedAlias));
    }
    Ok(())
}
