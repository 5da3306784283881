//! Telling a service manager how far the daemon is (the protocol of `sd_notify`): a datagram of
//! `KEY=value` lines to the socket that `NOTIFY_SOCKET` names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use fermix_config::Environment;

/// The daemon answers.
pub(crate) const READY: &str = "READY=1";
/// The daemon ends.
pub(crate) const STOPPING: &str = "STOPPING=1";

/// Tells the service manager, when there is one. One that does not listen is not waited for.
pub(crate) fn tell(environment: &Environment, state: &str) {
    if let Some(socket) = environment.get_os(fermix_config::env::NOTIFY_SOCKET)
        && let Err(error) = send(socket, state)
    {
        tracing::warn!(%error, "the service manager could not be told `{state}`");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let environment = Environment::from_pairs([("NOTIFY_SOCKET", &path)]);
        tell(&environment, READY);
        let mut told = [0; 64];
        let length = manager.recv(&mut told).unwrap();
        assert_eq!(&told[..length], b"READY=1");
        tell(&Environment::default(), READY);
    }
}
