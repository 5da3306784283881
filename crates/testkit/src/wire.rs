//! One scripted reply as the event stream of a wire.

mod chat;
mod messages;
mod responses;

use serde_json::{Value, json};

use crate::request::{Seen, Wire};
use crate::script::{Refusal, Reply, Step, TokenCounts, UsageReport};

/// What the fake gave out in one reply; later requests are held to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Issued {
    /// Ids of the calls, in order.
    pub(crate) call_ids: Vec<String>,
    /// Proof that must come back with a thinking block of the Messages wire.
    pub(crate) signature: Option<String>,
}

/// A rendered reply.
pub(crate) struct Rendered {
    /// One event each, blank line included.
    pub(crate) events: Vec<String>,
    pub(crate) issued: Issued,
}

/// The names of one reply, unique over the life of the server and the same in every run.
struct Ids {
    request: usize,
}

impl Ids {
    fn response(&self) -> String {
        format!("resp_{:06}", self.request)
    }

    fn item(&self, kind: &str, index: usize) -> String {
        format!("{kind}_{:06}_{index}", self.request)
    }
}

/// Renders what `step` says as the answer to `seen`. The step must be a reply.
pub(crate) fn render(reply: &Reply, step: &Step, seen: &Seen) -> Rendered {
    let ids = Ids {
        request: seen.number,
    };
    let usage = usage(reply, step, seen);
    match seen.wire {
        Wire::Responses => responses::render(reply, usage, &ids, seen),
        Wire::Chat => chat::render(reply, usage, &ids, seen),
        Wire::Messages => messages::render(reply, usage, &ids, seen),
    }
}

/// The body of an HTTP error, in the wire's own form.
pub(crate) fn error_body(wire: Wire, refusal: &Refusal) -> String {
    if let Some(body) = &refusal.body {
        return body.clone();
    }
    let kind = match refusal.status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        402 => "insufficient_quota",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    let error = json!({"type": kind, "message": refusal.message});
    match wire {
        Wire::Messages => json!({"type": "error", "error": error}),
        Wire::Responses | Wire::Chat => {
            json!({"error": {"type": kind, "message": refusal.message, "param": null, "code": null}})
        }
    }
    .to_string()
}

fn usage(reply: &Reply, step: &Step, seen: &Seen) -> Option<TokenCounts> {
    match step.usage {
        UsageReport::Absent => None,
        UsageReport::Fixed(counts) => Some(counts),
        UsageReport::Estimated => {
            let said = reply.text.as_deref().map_or(0, str::len)
                + reply.reasoning.iter().map(String::len).sum::<usize>()
                + reply
                    .calls
                    .iter()
                    .map(|c| c.name.len() + c.arguments.len())
                    .sum::<usize>();
            Some(TokenCounts::new(
                seen.raw.len() as u64 / 4,
                said as u64 / 4 + 1,
            ))
        }
    }
}

/// Cuts text into up to three pieces, as providers send it; no piece is empty.
fn pieces(text: &str) -> Vec<&str> {
    let step = text.len().div_ceil(3).max(1);
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(rest.ceil_char_boundary(step.min(rest.len())));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

/// An event with its name, as the Responses and Messages wires send it.
fn named(kind: &str, mut data: Value) -> String {
    data["type"] = kind.into();
    format!("event: {kind}\ndata: {data}\n\n")
}

/// An event without a name, as Chat Completions sends it.
fn unnamed(data: &Value) -> String {
    format!("data: {data}\n\n")
}
