//! The daemon as a client sees it: one connection a request, on the socket in the home.

use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fermix_api::frame::{self, FrameError};
use fermix_api::{Event, Reply, Request};
use fermix_config::Home;
use rustix::fs::{Mode, OFlags};
use serde_json::{Map, Value};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long a connection may take; the daemon is on this machine.
const CONNECT: Duration = Duration::from_millis(500);
/// How long an answer that is no stream may take.
const REPLY: Duration = Duration::from_secs(10);
/// Events that wait for the terminal. The daemon notices when nobody takes more.
const EVENT_QUEUE: usize = 64;
/// The longest path that an address of a socket has room for, its closing zero included.
const MAX_ADDRESS: usize = 104;
/// The events this build knows; others come from a newer daemon and are passed over.
const KNOWN_EVENTS: &[&str] = &["delta", "text_done", "tool", "approval", "notice", "done"];

/// Why the daemon gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// Nobody listens on the socket.
    NotRunning,
    /// It answered: no, and why.
    Refused(String),
    /// It is there and cannot be talked to, or stopped talking.
    Broken(String),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRunning => f.write_str("no daemon is running; start one with `fermix run`"),
            Self::Refused(reason) | Self::Broken(reason) => f.write_str(reason),
        }
    }
}

/// The daemon of one home, running or not.
#[derive(Clone, Debug)]
pub struct Daemon {
    socket: PathBuf,
}

impl Daemon {
    /// The daemon of `home`.
    pub fn of(home: &Home) -> Self {
        Self {
            socket: home.daemon_socket(),
        }
    }

    /// Whether it takes connections.
    pub async fn is_there(&self) -> bool {
        self.connect().await.is_ok()
    }

    /// Asks something that has one answer.
    pub async fn request(&self, request: &Request) -> Result<Map<String, Value>, ClientError> {
        let mut stream = self.send(request).await?;
        let frame = tokio::time::timeout(REPLY, frame::read(&mut stream))
            .await
            .map_err(|_| {
                let waited = REPLY.as_secs();
                ClientError::Broken(format!("the daemon did not answer within {waited} seconds"))
            })?
            .map_err(broken)?;
        match serde_json::from_slice(&frame) {
            Ok(Reply::Ok(members)) => Ok(members),
            Ok(Reply::ShuttingDown {}) => Ok(Map::new()),
            Ok(Reply::Error { reason, .. }) => Err(ClientError::Refused(reason)),
            Err(error) => Err(not_understood(&error)),
        }
    }

    /// Asks something that is answered by events. They end with `done` or an error, and when
    /// `cancel` is cancelled: the connection is closed then, which stops the turn.
    pub async fn stream(
        &self,
        request: &Request,
        cancel: CancellationToken,
    ) -> Result<mpsc::Receiver<Result<Event, String>>, ClientError> {
        let mut stream = self.send(request).await?;
        let (sender, receiver) = mpsc::channel(EVENT_QUEUE);
        // A frame that is read in part must not be forgotten, so it is read in a task of its own.
        tokio::spawn(async move {
            loop {
                let frame = tokio::select! {
                    () = cancel.cancelled() => return,
                    frame = frame::read(&mut stream) => frame,
                };
                let event = match frame.map_err(broken).and_then(|frame| read_event(&frame)) {
                    Ok(None) => continue,
                    Ok(Some(event)) => Ok(event),
                    Err(error) => Err(error.to_string()),
                };
                let is_last = matches!(event, Ok(Event::Done(_)) | Err(_));
                let is_taken = tokio::select! {
                    () = cancel.cancelled() => false,
                    sent = sender.send(event) => sent.is_ok(),
                };
                if is_last || !is_taken {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    async fn send(&self, request: &Request) -> Result<UnixStream, ClientError> {
        let mut stream = self.connect().await?;
        let bytes = request.to_bytes();
        let sent = tokio::time::timeout(REPLY, frame::write(&mut stream, &bytes));
        match sent.await {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(error)) => Err(ClientError::Broken(format!(
                "cannot send to the daemon: {error}"
            ))),
            Err(_) => Err(ClientError::Broken(
                "the daemon takes no request; look at it with `fermix logs`".to_owned(),
            )),
        }
    }

    async fn connect(&self) -> Result<UnixStream, ClientError> {
        let unreachable = |reason: &str| {
            ClientError::Broken(format!(
                "cannot reach the daemon at `{}`: {reason}",
                self.socket.display()
            ))
        };
        let (address, _folder) = self.address().map_err(|error| match error.kind() {
            ErrorKind::NotFound => ClientError::NotRunning,
            _ => unreachable(&error.to_string()),
        })?;
        match tokio::time::timeout(CONNECT, UnixStream::connect(&address)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => ClientError::NotRunning,
                _ => unreachable(&error.to_string()),
            }),
            Err(_) => Err(unreachable("it takes no connection")),
        }
    }

    /// A path that fits into an address. One that is too long is named by its folder's descriptor,
    /// which has to stay open meanwhile.
    fn address(&self) -> std::io::Result<(PathBuf, Option<OwnedFd>)> {
        if self.socket.as_os_str().len() < MAX_ADDRESS {
            return Ok((self.socket.clone(), None));
        }
        let folder = self.socket.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let address = format!("/proc/self/fd/{}/daemon.sock", folder.as_raw_fd());
        Ok((address.into(), Some(folder)))
    }
}

/// The event of a frame; `None` for one that this build does not know.
fn read_event(frame: &[u8]) -> Result<Option<Event>, ClientError> {
    let value: Value = serde_json::from_slice(frame).map_err(|error| not_understood(&error))?;
    match value.get("event").map(|name| name.as_str()) {
        Some(Some(name)) if KNOWN_EVENTS.contains(&name) => serde_json::from_value(value)
            .map(Some)
            .map_err(|error| not_understood(&error)),
        Some(_) => Ok(None),
        // A request that never became a turn is refused by a reply.
        None => {
            let words = ["reason", "error"]
                .iter()
                .find_map(|name| value.get(name).and_then(Value::as_str));
            Err(match words {
                Some(words) => ClientError::Refused(words.to_owned()),
                None => ClientError::Broken("the daemon answered something else".to_owned()),
            })
        }
    }
}

fn broken(error: FrameError) -> ClientError {
    ClientError::Broken(match error {
        FrameError::Closed => "the daemon went away before it had answered".to_owned(),
        FrameError::TooLong(_) | FrameError::Io(_) => {
            format!("cannot read the daemon's answer: {error}")
        }
    })
}

fn not_understood(error: &serde_json::Error) -> ClientError {
    ClientError::Broken(format!(
        "the daemon's answer is not understood ({error}); it may be of another version: \
         restart it after an upgrade"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_newer_daemon_are_passed_over_and_refusals_are_told() {
        let read = |text: &str| read_event(text.as_bytes());
        assert_eq!(
            read(r#"{"event":"delta","text":"a"}"#),
            Ok(Some(Event::Delta { text: "a".into() }))
        );
        assert_eq!(read(r#"{"event":"sparkle","text":"a"}"#), Ok(None));
        assert_eq!(
            read(r#"{"status":"error","reason":"invalid request"}"#),
            Err(ClientError::Refused("invalid request".into()))
        );
        assert_eq!(
            read(r#"{"status":"error","error":"timeout"}"#),
            Err(ClientError::Refused("timeout".into()))
        );
        for nonsense in [r#"{"event":"delta"}"#, "[]", "{", "{}"] {
            assert!(
                matches!(read(nonsense), Err(ClientError::Broken(_))),
                "{nonsense}"
            );
        }
    }
}
