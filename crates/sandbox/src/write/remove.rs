//! Removing a file that is known, and folders that are empty.

use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Existing, WritablePath, fingerprint, look};
use crate::beneath::{self, Miss};
use crate::denial::DenialReason;
use crate::read::FileError;

impl WritablePath {
    /// Removes the file, unless it is no longer what `expected` was when it was read.
    pub fn remove(&self, expected: Existing) -> Result<(), FileError> {
        let path = self.path();
        let (folder, name) = self.in_its_folder()?;
        let failed = |error: Errno| FileError::io("Failed to remove", path, error);
        let is_same = look(std::os::fd::AsFd::as_fd(&folder), name)
            .map_err(failed)?
            .is_some_and(|found| fingerprint(&found) == expected.fingerprint);
        if !is_same {
            return Err(FileError::Changed(path.to_owned()));
        }
        rustix::fs::unlinkat(&folder, name, AtFlags::empty()).map_err(failed)?;
        rustix::fs::fsync(&folder).map_err(failed)
    }

    /// Removes the folder of this name, when there is nothing in it.
    pub fn remove_empty_folder(&self) -> Result<(), FileError> {
        let (folder, name) = self.in_its_folder()?;
        rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR)
            .map_err(|error| FileError::io("Failed to remove", self.path(), error))
    }

    /// The folder the file lies in, open, and the file's name in it.
    fn in_its_folder(&self) -> Result<(std::os::fd::OwnedFd, &Path), FileError> {
        let checked = &self.checked;
        let path = self.path();
        let (Some(parent), Some(name)) = (checked.relative().parent(), path.file_name()) else {
            return Err(FileError::IsDirectory(path.to_owned()));
        };
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = checked
            .root
            .descriptor()
            .and_then(|root| beneath::open(root, parent, flags, Mode::empty()))
            .map_err(|miss| match miss {
                Miss::NotFound => FileError::NotFound(path.to_owned()),
                Miss::Changed => FileError::Changed(path.to_owned()),
                Miss::Other(error) => FileError::io("Failed to open", path, error),
            })?;
        let found = rustix::fs::fstat(&folder)
            .map_err(|error| FileError::io("Failed to inspect", path, error))?;
        let identity = [(found.st_dev, found.st_ino)];
        if checked.inner.protected.covers_identity(&identity) {
            return Err(checked.denied(DenialReason::ProtectedPath).into());
        }
        Ok((folder, Path::new(name)))
    }
}
