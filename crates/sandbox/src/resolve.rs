//! Turning a path into the one canonical name of what it leads to.
//!
//! Symbolic links are followed here and nowhere else; what is opened later is opened by the name
//! found here, with links refused. An error on the way is an answer of "no": the string as given is
//! never used in place of a resolved one.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;

/// The most symbolic links one path may lead through.
const MAX_HOPS: usize = 64;
/// The longest path, in bytes, and the most components a path may expand to.
const MAX_LENGTH: usize = 4096;

/// A file system object apart from its names: device and inode.
pub(crate) type Identity = (u64, u64);

/// What a path leads to.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// Absolute, without links, `.` and `..`. The tail may not exist yet.
    pub(crate) path: PathBuf,
    /// The folders on the way and the object itself, as far as they exist.
    pub(crate) identities: Vec<Identity>,
    /// What is there; nothing when the tail does not exist.
    pub(crate) kind: Option<FileType>,
}

/// Why a path leads nowhere.
#[derive(Debug)]
pub(crate) enum Unresolved {
    TooManySymlinks,
    Invalid(String),
}

/// Follows the absolute `path`.
pub(crate) fn resolve(path: &Path) -> Result<Resolved, Unresolved> {
    if path.as_os_str().len() > MAX_LENGTH {
        return Err(Unresolved::Invalid(format!(
            "the path is longer than {MAX_LENGTH} bytes"
        )));
    }
    let mut walk = Walk {
        current: PathBuf::from("/"),
        identities: Vec::new(),
        pending: Vec::new(),
        hops: 0,
    };
    walk.push(path)?;
    let mut kind = Some(FileType::Directory);
    while let Some(name) = walk.pending.pop() {
        if name == ".." {
            walk.current.pop();
            walk.identities.pop();
            kind = Some(FileType::Directory);
            continue;
        }
        let candidate = walk.current.join(&name);
        let stat = match rustix::fs::lstat(&candidate) {
            Ok(stat) => stat,
            Err(rustix::io::Errno::NOENT) => {
                walk.pending.push(name);
                kind = None;
                break;
            }
            Err(error) => return Err(invalid(&candidate, error)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                walk.hops += 1;
                if walk.hops > MAX_HOPS {
                    return Err(Unresolved::TooManySymlinks);
                }
                let target =
                    std::fs::read_link(&candidate).map_err(|error| invalid(&candidate, error))?;
                walk.push(&target)?;
            }
            found => {
                if found != FileType::Directory && !walk.pending.is_empty() {
                    return Err(invalid(&candidate, rustix::io::Errno::NOTDIR));
                }
                walk.current = candidate;
                walk.identities.push((stat.st_dev, stat.st_ino));
                kind = Some(found);
            }
        }
    }
    // What does not exist yet is judged by its literal name; stepping back out of it has no meaning.
    while let Some(name) = walk.pending.pop() {
        if name == ".." {
            return Err(Unresolved::Invalid(format!(
                "`..` after {}, which does not exist",
                walk.current.display()
            )));
        }
        walk.current.push(name);
    }
    Ok(Resolved {
        path: walk.current,
        identities: walk.identities,
        kind,
    })
}

fn invalid(path: &Path, error: impl Into<io::Error>) -> Unresolved {
    let error: io::Error = error.into();
    Unresolved::Invalid(format!("{}: {error}", path.display()))
}

struct Walk {
    current: PathBuf,
    identities: Vec<Identity>,
    /// Components still to walk, the next one last.
    pending: Vec<OsString>,
    hops: usize,
}

impl Walk {
    fn push(&mut self, path: &Path) -> Result<(), Unresolved> {
        let mut components = Vec::new();
        for component in path.components() {
            match component {
                Component::RootDir => {
                    self.current = PathBuf::from("/");
                    self.identities.clear();
                }
                Component::Normal(name) => components.push(name.to_owned()),
                Component::ParentDir => components.push(OsString::from("..")),
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        self.pending.extend(components.into_iter().rev());
        if self.pending.len() > MAX_LENGTH {
            return Err(Unresolved::Invalid(
                "the path is too long once its links are followed".to_owned(),
            ));
        }
        Ok(())
    }
}
