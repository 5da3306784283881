//! The daemon's place: its lock, and the socket that only its owner can open.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use fermix_config::Home;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The longest path that an address of a socket has room for, its closing zero included.
const MAX_ADDRESS: usize = 104;
/// Nobody but the owner may connect: `connect` needs the right to write.
const UMASK: u32 = 0o177;

/// A bound socket. Dropping it removes the file if it is still this socket's.
pub(crate) struct Bound {
    pub(crate) listener: Option<UnixListener>,
    path: PathBuf,
    identity: Identity,
}

/// Which file it is: a number alone is given again to the next file.
type Identity = (u64, u64, i64, i64);

fn identity(address: &Path) -> io::Result<Identity> {
    let file = std::fs::symlink_metadata(address)?;
    Ok((file.dev(), file.ino(), file.mtime(), file.mtime_nsec()))
}

/// Why there is no socket.
#[derive(Debug)]
pub(crate) enum NotBound {
    /// Somebody listens there.
    Taken,
    /// The system's answer.
    Io(io::Error),
}

impl From<io::Error> for NotBound {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Bound {
    /// Binds the socket of `home`. A file that a killed daemon left is replaced; one that somebody
    /// listens on never is. While other threads create files, their modes are narrowed for a
    /// moment, so this comes before there are any.
    pub(crate) fn bind(home: &Home) -> Result<Self, NotBound> {
        let path = home.daemon_socket();
        let (address, _folder) = address(&path)?;
        match probe(&address)? {
            Probe::Answers => return Err(NotBound::Taken),
            Probe::LeftBehind => std::fs::remove_file(&address)?,
            Probe::Absent => {}
        }
        let before = rustix::process::umask(Mode::from_raw_mode(UMASK));
        let bound = UnixListener::bind(&address);
        rustix::process::umask(before);
        let listener = bound?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: Some(listener),
            identity: identity(&address)?,
            path,
        })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let is_ours = identity(&self.path).is_ok_and(|found| found == self.identity);
        if is_ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, "the socket could not be removed");
        }
    }
}

/// A path that fits into an address. One that is too long is named by its folder's descriptor,
/// which has to stay open meanwhile.
fn address(path: &Path) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    if path.as_os_str().len() < MAX_ADDRESS {
        return Ok((path.to_owned(), None));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default();
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    let address = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    Ok((address, Some(folder)))
}

/// What is at the address.
#[derive(Debug, PartialEq, Eq)]
enum Probe {
    Answers,
    LeftBehind,
    Absent,
}

/// Looks without waiting: a listener that is too busy for one more connection is one that lives.
fn probe(address: &Path) -> io::Result<Probe> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(address)?) {
        Ok(()) | Err(Errno::AGAIN) => Ok(Probe::Answers),
        Err(Errno::NOENT) => Ok(Probe::Absent),
        Err(Errno::CONNREFUSED) => {
            use std::os::unix::fs::FileTypeExt as _;
            let is_socket = std::fs::symlink_metadata(address)?.file_type().is_socket();
            if is_socket {
                Ok(Probe::LeftBehind)
            } else {
                Err(io::Error::other(
                    "something that is no socket has its place; move it away",
                ))
            }
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use fermix_config::Environment;

    use super::*;

    fn home(folder: &Path) -> Home {
        Home::resolve(Some(folder), &Environment::default()).unwrap()
    }

    #[test]
    fn a_socket_that_answers_is_left_alone_and_one_left_behind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        // Longer than an address has room for.
        for name in ["home".to_owned(), "h".repeat(120)] {
            let home = home(&folder.path().join(name));
            let first = Bound::bind(&home).unwrap();
            let mode = std::fs::metadata(home.daemon_socket())
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
            assert!(matches!(Bound::bind(&home), Err(NotBound::Taken)));

            // As after `kill -9`: the file stays and nobody listens.
            let mut killed = first;
            killed.listener = None;
            let second = Bound::bind(&home).unwrap();
            drop(killed);
            assert!(matches!(Bound::bind(&home), Err(NotBound::Taken)));
            drop(second);
            assert!(!home.daemon_socket().exists());
        }
    }

    #[test]
    fn what_is_no_socket_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder.path().join("home"));
        std::fs::write(home.daemon_socket(), "mine").unwrap();
        assert!(matches!(Bound::bind(&home), Err(NotBound::Io(_))));
        assert_eq!(std::fs::read(home.daemon_socket()).unwrap(), b"mine");
    }
}
