//! Whether a daemon runs, and which.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use fermix_api::frame::MAX_FRAME;
use fermix_api::{HealthRow, Request, Status};
use serde_json::json;

use super::{Patient, fail, ok, warn, with_facts};

/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The row. That no daemon runs is for the owner to know and breaks nothing.
pub(super) fn daemon(patient: &Patient) -> HealthRow {
    let socket = patient.home.socket();
    match ask(&socket) {
        Ok(status) => {
            let ours = env!("CARGO_PKG_VERSION");
            let facts = json!({ "running": true, "version": status.version, "pid": status.pid });
            let row = if status.version == ours {
                ok("daemon", format!("running as process {}", status.pid))
            } else {
                warn(
                    "daemon",
                    format!(
                        "version {} runs as process {}, and this is {ours}; run `fermix stop`, then `fermix run`",
                        status.version, status.pid
                    ),
                )
            };
            with_facts(row, facts)
        }
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            with_facts(
                warn(
                    "daemon",
                    "not running; `fermix ask` and `fermix chat` work without it, `fermix run` starts it",
                ),
                json!({ "running": false }),
            )
        }
        Err(error) => fail(
            "daemon",
            format!("`{}` does not answer: {error}", socket.display()),
        ),
    }
}

fn ask(socket: &Path) -> io::Result<Status> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let body = Request::Status {}.to_bytes();
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(&body)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    serde_json::from_slice(&body).map_err(io::Error::other)
}
