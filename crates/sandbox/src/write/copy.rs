//! The copy that is finished before it takes a file's name.
//!
//! Its writer holds a lock on it, so that a copy whose writer was killed can be told from one that
//! is being written; the next writer in the folder removes it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

const PREFIX: &str = ".fermix-";
const SUFFIX: &str = ".tmp";
/// How long a copy without a lock is left alone: its writer may be about to take it.
const YOUNG: Duration = Duration::from_secs(60);
/// The most names of a folder that are looked at for copies left behind.
const MAX_LOOKED_AT: usize = 4096;

/// Removed unless kept.
pub(super) struct Copy<'a> {
    folder: BorrowedFd<'a>,
    pub(super) name: String,
    pub(super) file: File,
    kept: bool,
}

impl<'a> Copy<'a> {
    pub(super) fn create(folder: BorrowedFd<'a>) -> Result<Self, Errno> {
        remove_left_behind(folder);
        let name = format!("{PREFIX}{}{SUFFIX}", crate::random_hex()?);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The kernel takes the umask off this mode.
        let file = rustix::fs::openat(folder, &name, flags, Mode::from_raw_mode(0o644))?;
        // Where there are no locks, nothing is ever removed either.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(Self {
            folder,
            name,
            file: file.into(),
            kept: false,
        })
    }

    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty())
        {
            tracing::warn!(name = self.name, %error, "a temporary file could not be removed");
        }
    }
}

/// Whether a file of this name is such a copy.
pub(crate) fn is_unfinished(name: &OsStr) -> bool {
    name.as_bytes()
        .strip_prefix(PREFIX.as_bytes())
        .and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()))
        .is_some_and(|digits| digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Best effort: what cannot be looked at stays.
fn remove_left_behind(folder: BorrowedFd<'_>) {
    let Ok(entries) = Dir::read_from(folder) else {
        return;
    };
    for entry in entries.take(MAX_LOOKED_AT).flatten() {
        let name = entry.file_name();
        if is_unfinished(OsStr::from_bytes(name.to_bytes())) && is_left_behind(folder, name) {
            let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
        }
    }
}

fn is_left_behind(folder: BorrowedFd<'_>, name: &std::ffi::CStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::openat(folder, name, flags, Mode::empty()) else {
        return false;
    };
    let file = File::from(opened);
    let is_old = file
        .metadata()
        .ok()
        .filter(std::fs::Metadata::is_file)
        .and_then(|found| found.modified().ok())
        .and_then(|written| SystemTime::now().duration_since(written).ok())
        .is_some_and(|age| age > YOUNG);
    is_old && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}
