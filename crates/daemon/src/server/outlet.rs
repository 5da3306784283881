//! What a client of `agent_message` is sent: events and their end, or one reply.

use fermix_api::frame::MAX_FRAME;
use fermix_api::{Done, Event, Reply};
use fermix_types::text;
use serde_json::{Map, Value};
use tokio::net::unix::OwnedWriteHalf;

use super::connection::{send, send_reply};
use super::message::Ended;

/// Text of an answer that does not fit into a frame is cut to this many bytes; escaped as JSON it
/// is at most six times as long.
const MAX_RESPONSE: usize = MAX_FRAME / 8;

/// The client closed its connection or reads no more; nobody is left to be answered.
pub(super) struct Gone;

/// The way to the client.
pub(super) struct Outlet<'a> {
    writer: &'a mut OwnedWriteHalf,
    is_stream: bool,
}

impl<'a> Outlet<'a> {
    pub(super) fn new(writer: &'a mut OwnedWriteHalf, is_stream: bool) -> Self {
        Self { writer, is_stream }
    }

    /// Tells an event, to a client that wants them.
    pub(super) async fn event(&mut self, event: &Event) -> Result<(), Gone> {
        if !self.is_stream || send(self.writer, &event.to_bytes()).await {
            Ok(())
        } else {
            Err(Gone)
        }
    }

    /// Tells the end.
    pub(super) async fn end(self, mut ended: Ended) {
        fit(&mut ended.done);
        if self.is_stream {
            let bytes = Event::Done(Box::new(ended.done)).to_bytes();
            send(self.writer, &bytes).await;
        } else {
            send_reply(self.writer, &reply(ended)).await;
        }
    }
}

/// Cuts an answer that no frame can carry. The whole one is in the conversation.
fn fit(done: &mut Done) {
    let is_long =
        |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > MAX_RESPONSE);
    for text in [&mut done.response, &mut done.error] {
        if is_long(text)
            && let Some(whole) = text.take()
        {
            *text = Some(text::shortened(&whole, MAX_RESPONSE));
            done.note = Some(format!(
                "the answer has {} bytes, and this is the beginning of it",
                whole.len()
            ));
        }
    }
}

/// The members of the end as one reply.
fn reply(ended: Ended) -> Reply {
    let is_answer = ended.done.status == "ok";
    let members = match serde_json::to_value(&ended.done) {
        Ok(Value::Object(mut members)) => {
            members.shift_remove("status");
            members
        }
        Ok(_) | Err(_) => Map::new(),
    };
    if is_answer {
        Reply::Ok(members)
    } else {
        Reply::Error {
            reason: ended.reason.to_owned(),
            more: members,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_no_frame_can_carry_is_cut_and_says_so() {
        let mut done = Done {
            status: "ok".into(),
            response: Some("\u{1}".repeat(MAX_FRAME)),
            ..Done::default()
        };
        fit(&mut done);
        assert!(done.note.as_deref().unwrap().contains("4194304 bytes"));
        let bytes = reply(Ended { done, reason: "" }).to_bytes();
        assert!(bytes.len() <= MAX_FRAME);
    }

    #[test]
    fn a_failure_has_a_name_and_words() {
        let ended = Ended {
            done: Done {
                status: "error".into(),
                error: Some("there is no message".into()),
                session_id: "s".into(),
                ..Done::default()
            },
            reason: "empty_input",
        };
        assert_eq!(
            String::from_utf8(reply(ended).to_bytes()).unwrap(),
            r#"{"status":"error","reason":"empty_input","error":"there is no message","session_id":"s"}"#
        );
    }
}
