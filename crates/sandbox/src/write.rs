//! Writing through the policy: a file appears or changes as a whole, or not at all.

mod copy;
mod remove;
mod turns;

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use crate::beneath::{self, Miss};
use crate::denial::DenialReason;
use crate::read::{FileError, MAX_RESOLVES, OpenFile, open_regular};
use crate::sandbox::Checked;
use copy::Copy;
use turns::{MAX_WAIT, take_turn};

pub(crate) use copy::is_unfinished;

/// A path this turn may write. Only the policy makes one.
#[derive(Clone)]
pub struct WritablePath {
    checked: Checked,
}

/// What a file looked like when it was read, to notice that somebody else changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    len: u64,
}

/// A file as it was before an edit, for [`WritablePath::replace`].
#[derive(Debug)]
pub struct Existing {
    /// The whole content.
    pub bytes: Vec<u8>,
    /// How many names the file has. Replacing it gives the new content to one of them.
    pub names: u64,
    fingerprint: Fingerprint,
    /// Carries the lock, which ends with it.
    _held: File,
}

/// What [`WritablePath::replace`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// There was no such file.
    Created,
    /// The file has new content.
    Replaced,
    /// The file already had this content and was left alone.
    Unchanged,
}

/// The outcome of one attempt that may have met a change.
enum Attempt {
    Done(Written),
    ResolveAgain,
}

impl fmt::Debug for WritablePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WritablePath").field(&self.path()).finish()
    }
}

impl WritablePath {
    pub(crate) fn new(checked: Checked) -> Self {
        Self { checked }
    }

    /// The canonical path.
    pub fn path(&self) -> &Path {
        &self.checked.object.path
    }

    /// Whether something was there when it was checked.
    pub fn exists(&self) -> bool {
        self.checked.object.kind.is_some()
    }

    /// The content of the file, at most `limit` bytes; nothing when there is no such file. Until the
    /// answer is dropped or given to [`WritablePath::replace`], no other writer changes the file.
    pub fn read_existing(&self, limit: u64) -> Result<Option<Existing>, FileError> {
        let until = Instant::now() + MAX_WAIT;
        let Some(mut opened) = self.open_existing()? else {
            return Ok(None);
        };
        loop {
            take_turn(&opened.file, &self.checked, until)?;
            let Some(named) = self.open_existing()? else {
                return Ok(None);
            };
            let identity = |found: &Metadata| (found.dev(), found.ino());
            if identity(&opened.metadata) == identity(&named.metadata) {
                // Its writer may have changed it until the turn came.
                opened.metadata = named.metadata;
                break;
            }
            if Instant::now() >= until {
                return Err(FileError::Locked(named.path));
            }
            opened = named;
        }
        let OpenFile {
            file,
            path,
            metadata: found,
            ..
        } = opened;
        let too_large = |len| FileError::TooLarge {
            path: path.clone(),
            len,
            limit,
        };
        if found.len() > limit {
            return Err(too_large(found.len()));
        }
        let mut bytes = Vec::new();
        (&file)
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| FileError::io("Failed to read", &path, error))?;
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        let fingerprint = Fingerprint {
            device: found.dev(),
            inode: found.ino(),
            modified: (found.mtime(), found.mtime_nsec()),
            len: found.len(),
        };
        Ok(Some(Existing {
            bytes,
            names: found.nlink(),
            fingerprint,
            _held: file,
        }))
    }

    fn open_existing(&self) -> Result<Option<OpenFile>, FileError> {
        match open_regular(&self.checked) {
            Ok(opened) => Ok(Some(opened)),
            Err(FileError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates the folders above the file that do not exist yet, each below the root's descriptor.
    pub fn create_parents(&self) -> Result<(), FileError> {
        let mut checked = self.checked.clone();
        for _ in 0..=MAX_RESOLVES {
            match make_folders(&checked) {
                Ok(()) => return Ok(()),
                Err((Miss::Changed, _)) => checked = checked.again()?,
                Err((Miss::NotFound, path)) => {
                    return Err(FileError::io(
                        "Failed to create directories",
                        &path,
                        Errno::NOENT,
                    ));
                }
                Err((Miss::Other(error), path)) => {
                    return Err(FileError::io("Failed to create directories", &path, error));
                }
            }
        }
        Err(checked.denied(DenialReason::PathChanged).into())
    }

    /// Gives the file this content by renaming a finished copy over it: whoever looks sees the old
    /// content or the new. Mode and owner of an existing file are kept; extended attributes and
    /// other hard links are not. With what was read before, a file that differs from it is left
    /// alone. Writers of one file take turns.
    pub fn replace(&self, bytes: &[u8], expected: Option<Existing>) -> Result<Written, FileError> {
        let until = Instant::now() + MAX_WAIT;
        let fingerprint = expected.as_ref().map(|existing| existing.fingerprint);
        let mut checked = self.checked.clone();
        for _ in 0..=MAX_RESOLVES {
            match replace_once(&checked, bytes, fingerprint, until)? {
                Attempt::Done(written) => return Ok(written),
                Attempt::ResolveAgain => checked = checked.again()?,
            }
        }
        Err(checked.denied(DenialReason::PathChanged).into())
    }
}

fn make_folders(checked: &Checked) -> Result<(), (Miss, PathBuf)> {
    let root = checked
        .root
        .descriptor()
        .map_err(|miss| (miss, checked.root.path.clone()))?;
    let Some(parent) = checked.relative().parent() else {
        return Ok(());
    };
    let mut made = PathBuf::new();
    let mut held: Option<OwnedFd> = None;
    for part in parent.components() {
        made.push(part);
        let at = |miss| (miss, checked.root.path.join(&made));
        let from = held.as_ref().map_or(root, AsFd::as_fd);
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let name = Path::new(part.as_os_str());
        held = Some(match beneath::open(from, name, step, Mode::empty()) {
            Err(Miss::NotFound) => {
                match rustix::fs::mkdirat(from, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(at(error.into())),
                }
                beneath::open(from, name, step, Mode::empty()).map_err(at)?
            }
            other => other.map_err(at)?,
        });
    }
    Ok(())
}

fn replace_once(
    checked: &Checked,
    bytes: &[u8],
    expected: Option<Fingerprint>,
    until: Instant,
) -> Result<Attempt, FileError> {
    let path = &checked.object.path;
    let failed = |error: Errno| FileError::io("Failed to write", path, error);
    let (Some(parent), Some(name)) = (checked.relative().parent(), checked.object.path.file_name())
    else {
        return Err(FileError::IsDirectory(path.clone()));
    };
    if checked.object.kind == Some(FileType::Directory) {
        return Err(FileError::IsDirectory(path.clone()));
    }
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let name = Path::new(name);
    let opened = checked.root.descriptor().and_then(|root| {
        beneath::open(
            root,
            parent,
            OFlags::RDONLY | OFlags::DIRECTORY,
            Mode::empty(),
        )
    });
    let folder = match opened {
        Ok(folder) => folder,
        Err(Miss::Changed) => return Ok(Attempt::ResolveAgain),
        Err(Miss::NotFound) => {
            return Err(FileError::NoParent(
                path.parent().unwrap_or(path).to_owned(),
            ));
        }
        Err(Miss::Other(error)) => return Err(failed(error)),
    };
    let found = rustix::fs::fstat(&folder).map_err(failed)?;
    if checked
        .inner
        .protected
        .covers_identity(&[(found.st_dev, found.st_ino)])
    {
        return Err(checked.denied(DenialReason::ProtectedPath).into());
    }

    let (before, held) = match current(checked, folder.as_fd(), name, expected.is_some(), until)? {
        Current::Elsewhere => return Ok(Attempt::ResolveAgain),
        // What was read is gone, and nobody else's new file is replaced unseen.
        Current::Nothing if expected.is_some() => return Err(FileError::Changed(path.clone())),
        Current::Nothing => (None, None),
        Current::File(found, held) => (Some(found), held),
    };
    if let (Some(found), Some(expected)) = (&before, expected)
        && expected != fingerprint(found)
    {
        return Err(FileError::Changed(path.clone()));
    }
    if let Some(held) = &held
        && has_content(held, path, bytes)?
    {
        return Ok(Attempt::Done(Written::Unchanged));
    }
    let attempt = put(checked, folder.as_fd(), name, before.as_ref(), bytes);
    // Until here the file was this writer's alone.
    drop(held);
    attempt
}

/// What has the name now.
enum Current {
    Nothing,
    /// A regular file, and its descriptor unless the file may be written and not read.
    File(Stat, Option<File>),
    /// Something that the check did not see.
    Elsewhere,
}

/// Looks at the name and waits until the file is this writer's alone, unless it is so already.
fn current(
    checked: &Checked,
    folder: BorrowedFd<'_>,
    name: &Path,
    is_held: bool,
    until: Instant,
) -> Result<Current, FileError> {
    let path = &checked.object.path;
    let look = || look(folder, name).map_err(|error| FileError::io("Failed to write", path, error));
    loop {
        let Some(found) = look()? else {
            return Ok(Current::Nothing);
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Ok(Current::Elsewhere),
            FileType::Directory => return Err(FileError::IsDirectory(path.clone())),
            _ => return Err(FileError::NotRegular(path.clone())),
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let opened = match beneath::open(folder, name, flags, Mode::empty()) {
            Ok(opened) => File::from(opened),
            Err(Miss::Changed | Miss::NotFound) => return Ok(Current::Elsewhere),
            // It can be neither locked nor compared, only replaced.
            Err(Miss::Other(Errno::ACCESS)) => return Ok(Current::File(found, None)),
            Err(Miss::Other(error)) => return Err(FileError::io("Failed to open", path, error)),
        };
        let metadata = opened
            .metadata()
            .map_err(|error| FileError::io("Failed to inspect", path, error))?;
        if (metadata.dev(), metadata.ino()) != (found.st_dev, found.st_ino) {
            // Another writer was done just now.
            if Instant::now() < until {
                continue;
            }
            return Ok(Current::Elsewhere);
        }
        crate::read::prove_unprotected(checked, &metadata)?;
        if is_held {
            return Ok(Current::File(found, Some(opened)));
        }
        take_turn(&opened, checked, until)?;
        match look()? {
            Some(now) if (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino) => {
                return Ok(Current::File(now, Some(opened)));
            }
            // The writer before this one has put another file in its place.
            _ if Instant::now() < until => {}
            _ => return Err(FileError::Locked(path.clone())),
        }
    }
}

/// Whether the file already holds `bytes`.
fn has_content(file: &File, path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    let failed = |error| FileError::io("Failed to read", path, error);
    if file.metadata().map_err(failed)?.len() != bytes.len() as u64 {
        return Ok(false);
    }
    let mut current = Vec::with_capacity(bytes.len());
    file.take(bytes.len() as u64 + 1)
        .read_to_end(&mut current)
        .map_err(failed)?;
    Ok(current == bytes)
}

fn put(
    checked: &Checked,
    folder: BorrowedFd<'_>,
    name: &Path,
    before: Option<&Stat>,
    bytes: &[u8],
) -> Result<Attempt, FileError> {
    let path = &checked.object.path;
    let failed = |error: Errno| FileError::io("Failed to write", path, error);
    let copy = Copy::create(folder).map_err(failed)?;
    (&copy.file)
        .write_all(bytes)
        .map_err(|error| FileError::io("Failed to write", path, error))?;
    if let Some(found) = before {
        // The owner first: changing it clears bits of the mode. A file of somebody else that this
        // user may replace becomes this user's.
        let _ = rustix::fs::fchown(
            &copy.file,
            Some(Uid::from_raw(found.st_uid)),
            Some(Gid::from_raw(found.st_gid)),
        );
        rustix::fs::fchmod(&copy.file, Mode::from_raw_mode(found.st_mode & 0o777))
            .map_err(failed)?;
    }
    rustix::fs::fsync(&copy.file).map_err(failed)?;

    let now = look(folder, name).map_err(failed)?;
    if before.map(fingerprint) != now.as_ref().map(fingerprint) {
        return Err(FileError::Changed(path.clone()));
    }
    let renamed = if before.is_some() {
        rustix::fs::renameat(folder, &copy.name, folder, name)
    } else {
        match rustix::fs::renameat_with(folder, &copy.name, folder, name, RenameFlags::NOREPLACE) {
            // Not every file system can refuse to replace.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::renameat(folder, &copy.name, folder, name)
            }
            other => other,
        }
    };
    match renamed {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(FileError::Changed(path.clone())),
        Err(Errno::ISDIR) => return Err(FileError::IsDirectory(path.clone())),
        Err(error) => return Err(failed(error)),
    }
    copy.keep();
    rustix::fs::fsync(folder).map_err(failed)?;
    Ok(Attempt::Done(if before.is_some() {
        Written::Replaced
    } else {
        Written::Created
    }))
}

fn look(folder: BorrowedFd<'_>, name: &Path) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

#[expect(
    clippy::useless_conversion,
    reason = "the width of these fields differs between platforms"
)]
fn fingerprint(found: &Stat) -> Fingerprint {
    Fingerprint {
        device: found.st_dev,
        inode: found.st_ino,
        modified: (
            found.st_mtime.into(),
            i64::try_from(found.st_mtime_nsec).unwrap_or(i64::MAX),
        ),
        len: u64::try_from(found.st_size).unwrap_or(0),
    }
}
