//! The three wire formats: how a request is written and how a stream is read.
//!
//! Each wire has a pure `body` function and a [`Decode`] that turns events into [`Item`]s. What
//! all of them share is here: what an answer is made of, and which ends of a stream count as one.

pub(crate) mod calls;
pub(crate) mod chat;
pub(crate) mod messages;
pub(crate) mod responses;
pub(crate) mod sse;

use serde_json::Value;

use crate::error::Refusal;
use crate::request::{EventSink, Usage};

pub(crate) use calls::{Item, RawCall};

/// The most calls one answer may hold. No request needs as many, and each is kept, shown, answered
/// and sent back. An answer with more is an error as a whole: nobody could tell which of its calls
/// the model can do without.
pub(crate) const MAX_CALLS: usize = 4096;

/// The most tokens one count may claim. No window is as large, so a count above it is no count.
const MAX_TOKENS: u64 = 10_000_000;

/// What stands in a request for a call's name that no provider would take.
const INVALID_NAME: &str = "invalid_name";

/// Reads the events of one stream.
pub(crate) trait Decode: Send {
    /// Takes one event and says whether the answer is complete.
    fn event(&mut self, data: &Value, events: &mut dyn EventSink) -> Result<Progress, Refusal>;

    /// Takes the `[DONE]` line, which only some wires end with.
    fn done(&mut self, _events: &mut dyn EventSink) -> Progress {
        Progress::More
    }

    /// Whether any of the answer itself, thoughts aside, has arrived.
    fn has_begun(&self) -> bool;

    /// Hands over what has arrived.
    fn finish(self: Box<Self>) -> Arrived;
}

/// Whether more events are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The answer goes on.
    More,
    /// The terminal event has come.
    Complete,
}

/// Everything a stream delivered.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    /// Complete output items, in order.
    pub items: Vec<Item>,
    /// Whether the provider said it was done, be it without the wire's last event.
    pub is_complete: bool,
    /// Text of an item that never ended.
    pub unfinished_text: String,
    /// Whether an item had begun and never ended.
    pub has_unfinished: bool,
    /// Token counts, when the provider reported any.
    pub usage: Usage,
    /// The model in the provider's words.
    pub model: Option<String>,
    /// Whether a length limit ended the answer.
    pub truncated: bool,
    /// Why the provider stopped, in its words, for example `refusal`.
    pub stop_reason: Option<String>,
}

/// Arguments as a JSON object, or nothing when they are anything else.
pub(crate) fn as_object(arguments: &str) -> Option<Value> {
    serde_json::from_str::<Value>(arguments)
        .ok()
        .filter(Value::is_object)
}

/// A token count, or nothing when the field is absent, no number, or beyond [`MAX_TOKENS`]: a
/// number nobody can believe was not reported.
pub(crate) fn count(value: &Value) -> Option<u64> {
    value.as_u64().filter(|count| *count <= MAX_TOKENS)
}

/// The name of a call as a request may hold it: every provider refuses the whole conversation over
/// a name that is empty, longer than 64 bytes, or holds anything but letters, digits, `_` and `-`.
/// The result of such a call still says which name the model wrote.
pub(crate) fn sent_name(name: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=64).contains(&name.len()) && name.bytes().all(is_plain) {
        name
    } else {
        INVALID_NAME
    }
}

/// An image as the address the OpenAI wires take.
pub(crate) fn data_uri(image: &fermix_types::Image) -> String {
    format!("data:{};base64,{}", image.mime_type, image.base64())
}

/// What stands before the images of tool results on wires that send them apart from the results.
pub(crate) fn image_caption(tool: &fermix_types::ToolMessage) -> String {
    let many = if tool.images.len() == 1 {
        "image"
    } else {
        "images"
    };
    format!(
        "The {many} in the result of {} (call {}):",
        tool.name, tool.call_id
    )
}

#[cfg(test)]
mod tests;
