//! Speaking to the daemon's socket, one request a connection.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use fermix_api::frame::MAX_FRAME;
use fermix_api::{Done, Event, Request};
use serde_json::Value;

/// How long a daemon may keep a client waiting for the next frame.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that a request was sent on.
pub(crate) struct Talk(UnixStream);

impl Talk {
    pub(crate) fn open(socket: &Path, request: &Request) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let body = request.to_bytes();
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend_from_slice(&body);
        stream.write_all(&bytes)?;
        Ok(Self(stream))
    }

    /// The next frame.
    pub(crate) fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_FRAME {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(body)
    }
}

/// The one answer to `request`, as JSON.
pub(crate) fn ask(socket: &Path, request: &Request) -> io::Result<Value> {
    let frame = Talk::open(socket, request)?.frame()?;
    serde_json::from_slice(&frame).map_err(io::Error::other)
}

/// What a client saw of a message.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Whether the daemon did anything for it: then the message must be stored.
    pub(crate) was_begun: bool,
    /// The end, when it came.
    pub(crate) done: Option<Done>,
}

/// Sends a message and listens until the end, or until the daemon is gone.
pub(crate) fn say(socket: &Path, session: &str, text: &str) -> Heard {
    let request = message(session, text);
    let mut heard = Heard::default();
    let Ok(mut talk) = Talk::open(socket, &request) else {
        return heard;
    };
    while let Ok(frame) = talk.frame() {
        match serde_json::from_slice(&frame) {
            Ok(Event::Done(done)) => {
                heard.was_begun |= done.status == "ok";
                heard.done = Some(*done);
                return heard;
            }
            // A tool runs after the message was stored, and the model is asked after it, too.
            Ok(Event::Delta { .. } | Event::Tool { .. }) => heard.was_begun = true,
            Ok(_) => {}
            Err(_) => return heard,
        }
    }
    heard
}

/// A streamed message of the owner.
pub(crate) fn message(session: &str, text: &str) -> Request {
    Request::AgentMessage {
        content: text.to_owned(),
        session_id: Some(session.to_owned()),
        timeout_ms: Some(60_000),
        cwd: None,
        images: Vec::new(),
        stream: true,
        can_approve: false,
    }
}
