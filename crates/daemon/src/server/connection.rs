//! One connection: a request in, an answer out.

use std::time::Duration;

use fermix_api::frame::{self, FrameError, MAX_FRAME};
use fermix_api::{Reply, Request, RequestError};
use serde_json::Map;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::Server;
use super::message::Asked;
use super::peer::Peer;

/// How long a request may take to arrive.
const RECEIVE: Duration = Duration::from_secs(5);
/// How long a client may take to read one frame.
const SEND: Duration = Duration::from_secs(30);
/// How long, and how much of, a request that nobody wants is read, so that its sender comes to read
/// why.
const DRAIN: Duration = Duration::from_secs(2);
const MAX_DRAINED: u64 = 64 << 20;

/// Answers one connection.
pub(super) async fn serve(server: &Server, stream: UnixStream, peer: Peer) {
    let Some(_place) = server.place_for(&peer) else {
        refuse(stream, "busy: too many connections are open; try again").await;
        return;
    };
    let (mut reader, mut writer) = stream.into_split();
    let bytes = match tokio::time::timeout(RECEIVE, frame::read(&mut reader)).await {
        Ok(Ok(bytes)) => bytes,
        // Nobody is there to be told.
        Ok(Err(FrameError::Closed | FrameError::Io(_))) => return,
        Ok(Err(error @ FrameError::TooLong(_))) => {
            send_reply(&mut writer, &invalid(&error.to_string())).await;
            drain(reader, writer).await;
            return;
        }
        Err(_) => {
            let late = format!("no request came within {} seconds", RECEIVE.as_secs());
            send_reply(&mut writer, &invalid(&late)).await;
            return;
        }
    };
    let request = match Request::from_bytes(&bytes) {
        Ok(request) => request,
        Err(error) => {
            send_reply(&mut writer, &not_a_request(error)).await;
            return;
        }
    };
    drop(bytes);
    match request {
        Request::AgentMessage {
            content,
            session_id,
            timeout_ms,
            cwd,
            images,
            stream,
            can_approve,
        } => {
            let asked = Asked {
                content,
                session_id,
                timeout_ms,
                cwd,
                images,
                stream,
                can_approve,
            };
            server.agent_message(asked, peer, reader, &mut writer).await;
        }
        request => {
            let is_shutdown = request == Request::Shutdown {};
            let reply = server.reply(request, peer).await;
            send_reply(&mut writer, &reply).await;
            // Only now, so that the one who asked has heard that it happens.
            if is_shutdown && matches!(reply, Reply::ShuttingDown {}) {
                server.asked_to_stop.cancel();
            }
        }
    }
}

/// Says why nothing is answered.
pub(super) async fn refuse(stream: UnixStream, reason: &str) {
    let (reader, mut writer) = stream.into_split();
    send_reply(&mut writer, &Reply::error(reason)).await;
    drain(reader, writer).await;
}

/// Sends a reply. Whoever no longer reads it gets none.
pub(super) async fn send_reply(writer: &mut OwnedWriteHalf, reply: &Reply) {
    let mut bytes = reply.to_bytes();
    if bytes.len() > MAX_FRAME {
        let reason = format!(
            "answer_too_long: the answer has {} bytes and a frame takes {MAX_FRAME}",
            bytes.len()
        );
        bytes = Reply::error(reason).to_bytes();
    }
    send(writer, &bytes).await;
}

/// Sends one frame. Whether it was taken.
pub(super) async fn send(writer: &mut OwnedWriteHalf, bytes: &[u8]) -> bool {
    matches!(
        tokio::time::timeout(SEND, frame::write(writer, bytes)).await,
        Ok(Ok(()))
    )
}

fn invalid(detail: &str) -> Reply {
    Reply::Error {
        reason: "invalid request".to_owned(),
        more: Map::from_iter([("detail".to_owned(), detail.into())]),
    }
}

fn not_a_request(error: RequestError) -> Reply {
    match error {
        RequestError::Invalid(detail) => invalid(&detail),
        RequestError::UnknownMethod(method) => Reply::Error {
            reason: "unknown method".to_owned(),
            more: Map::from_iter([("method".to_owned(), method.into())]),
        },
        error @ RequestError::Version(_) => Reply::error(error.to_string()),
    }
}

/// Reads what is still coming and forgets it: closing at once would break the sender's write, and
/// with it its way to the answer.
async fn drain(reader: OwnedReadHalf, mut writer: OwnedWriteHalf) {
    let _ = writer.shutdown().await;
    let mut rest = reader.take(MAX_DRAINED);
    let mut nowhere = tokio::io::sink();
    let _ = tokio::time::timeout(DRAIN, tokio::io::copy(&mut rest, &mut nowhere)).await;
}
