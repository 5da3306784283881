//! Opening a canonical name below a descriptor, with every symbolic link refused.
//!
//! The name was free of links when it was resolved. A link met here means that the object changed
//! between the check and the use, and the caller resolves and decides anew.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::roots::Root;

/// Why a name did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// Nothing has this name.
    NotFound,
    /// The name no longer leads where it led.
    Changed,
    /// Anything else.
    Other(Errno),
}

impl From<Errno> for Miss {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT => Self::NotFound,
            Errno::LOOP | Errno::XDEV | Errno::NOTDIR | Errno::AGAIN => Self::Changed,
            other => Self::Other(other),
        }
    }
}

/// Opens `name`, relative and free of `..`, below `folder`.
pub(crate) fn open(
    folder: BorrowedFd<'_>,
    name: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Miss> {
    let flags = common(flags);
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(folder, name, flags, mode, rules) {
        // An old kernel, or a container that filters the call. A real lack of permission is found
        // again by the walk.
        Err(Errno::NOSYS | Errno::PERM) => open_walking(folder, name, flags, mode),
        other => Ok(other?),
    }
}

/// What every descriptor of ours has. A path descriptor opens nothing, and `openat2` refuses flags
/// that mean nothing.
fn common(flags: OFlags) -> OFlags {
    if flags.contains(OFlags::PATH) {
        flags | OFlags::CLOEXEC
    } else {
        flags | OFlags::CLOEXEC | OFlags::NOCTTY
    }
}

/// The same without `openat2`: one component at a time, each refusing to be a link.
pub(crate) fn open_walking(
    folder: BorrowedFd<'_>,
    name: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Miss> {
    let flags = common(flags) | OFlags::NOFOLLOW;
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut names = name
        .components()
        .filter(|part| *part != Component::CurDir)
        .peekable();
    let mut held: Option<OwnedFd> = None;
    while let Some(part) = names.next() {
        let Component::Normal(part) = part else {
            return Err(Miss::Changed);
        };
        let from = held.as_ref().map_or(folder, AsFd::as_fd);
        if names.peek().is_none() {
            return Ok(openat(from, part, flags, mode)?);
        }
        held = Some(openat(from, part, step, Mode::empty())?);
    }
    Ok(openat(folder, ".", flags, mode)?)
}

/// Opens the absolute canonical `path` of a folder, refusing links on the way.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd, Miss> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let rules = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, flags, Mode::empty(), rules) {
        Err(Errno::NOSYS | Errno::PERM) => {
            let top = rustix::fs::open("/", flags, Mode::empty())?;
            match path.strip_prefix("/") {
                Ok(rest) if !rest.as_os_str().is_empty() => {
                    open_walking(top.as_fd(), rest, flags, Mode::empty())
                }
                _ => Ok(top),
            }
        }
        other => Ok(other?),
    }
}

impl Root {
    /// The root's descriptor, held open for the life of the root set. A root that was replaced by
    /// another folder since the roots were computed is refused.
    pub(crate) fn descriptor(&self) -> Result<BorrowedFd<'_>, Miss> {
        let handle = match self.handle.get() {
            Some(handle) => handle,
            None => {
                let opened = open_folder(&self.path)?;
                self.handle.get_or_init(|| opened)
            }
        };
        let held = rustix::fs::fstat(handle)?;
        let named = rustix::fs::lstat(&self.path)?;
        let unchanged = (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
            && self
                .identity
                .is_none_or(|known| known == (held.st_dev, held.st_ino));
        if unchanged {
            Ok(handle.as_fd())
        } else {
            Err(Miss::Changed)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn both_ways_of_opening_agree() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/file"), "x").unwrap();
        symlink("a", folder.path().join("to-a")).unwrap();
        symlink("a/b/file", folder.path().join("to-file")).unwrap();
        symlink("/etc", folder.path().join("out")).unwrap();
        let path = folder.path().canonicalize().unwrap();
        let root = open_folder(&path).unwrap();
        assert!(open_folder(&path.join("to-a")).is_err());
        for (name, expected) in [
            (".", Ok(())),
            ("a", Ok(())),
            ("a/b/file", Ok(())),
            ("./a/./b/file", Ok(())),
            ("a/none", Err(Miss::NotFound)),
            ("none/file", Err(Miss::NotFound)),
            ("to-a/b/file", Err(Miss::Changed)),
            ("to-file", Err(Miss::Changed)),
            ("out/passwd", Err(Miss::Changed)),
            ("a/b/file/x", Err(Miss::Changed)),
            ("a/../../x", Err(Miss::Changed)),
        ] {
            let name = Path::new(name);
            let direct = open(root.as_fd(), name, OFlags::RDONLY, Mode::empty()).map(drop);
            let walked = open_walking(root.as_fd(), name, OFlags::RDONLY, Mode::empty()).map(drop);
            assert_eq!((direct, walked), (expected, expected), "{}", name.display());
        }
    }
}
