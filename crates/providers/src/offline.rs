//! The embedded provider: answers without a model, a key or a network.
//!
//! It reads the person's words with a small grammar, ranks the tools on offer with the same index
//! as `tool_search`, fills arguments from the text, makes real calls through the loop, and tells
//! what came of them. It is a pure function of the request: the same conversation always goes on
//! the same way. It never guesses what would change something, and results of tools are data to
//! it, so there is nothing in them that it could obey.

mod choose;
mod dialogue;
mod fill;
mod intent;
mod ledger;
mod near;
mod perform;
mod render;
mod reply;
#[cfg(test)]
mod tests;
mod toolbox;
mod values;
mod words;

use async_trait::async_trait;
use fermix_types::{AssistantMessage, Message};
use tokio_util::sync::CancellationToken;

use crate::error::ProviderError;
use crate::request::{
    Adapter, ChatRequest, ChatResponse, EventSink, ModelEvent, ProviderId, Usage,
};
use dialogue::Next;

/// How much of the answer one event carries, in bytes.
const CHUNK: usize = 512;
/// What a token is taken to be where nothing counts them, in bytes.
const BYTES_PER_TOKEN: usize = 4;

/// The provider that needs nothing. It holds no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineAdapter;

#[async_trait]
impl Adapter for OfflineAdapter {
    async fn chat(
        &self,
        request: &ChatRequest,
        events: &mut dyn EventSink,
        cancel: &CancellationToken,
    ) -> Result<ChatResponse, ProviderError> {
        if cancel.is_cancelled() {
            return Err(ProviderError::cancelled(
                ProviderId::Offline,
                &request.model,
            ));
        }
        let message = match dialogue::next(request) {
            Next::Calls(tool_calls) => AssistantMessage {
                tool_calls,
                ..AssistantMessage::default()
            },
            Next::Answer(text) => {
                stream(&text, events);
                AssistantMessage {
                    text,
                    ..AssistantMessage::default()
                }
            }
        };
        Ok(ChatResponse {
            usage: estimated(request, &message),
            message,
            model: ProviderId::Offline.as_str().to_owned(),
            truncated: false,
            declined: None,
        })
    }
}

/// Sends `text` in pieces that end on a line or a word where they can.
fn stream(text: &str, events: &mut dyn EventSink) {
    let mut rest = text;
    while !rest.is_empty() {
        let most = rest.floor_char_boundary(CHUNK);
        let end = if most == rest.len() {
            most
        } else {
            rest[..most]
                .rfind(['\n', ' '])
                .map_or(most, |space| space + 1)
        };
        let (piece, after) = rest.split_at(end);
        events.emit(ModelEvent::TextDelta(piece.to_owned()));
        rest = after;
    }
    events.emit(ModelEvent::TextDone);
}

/// What a model would have read and written, at four bytes a token.
fn estimated(request: &ChatRequest, message: &AssistantMessage) -> Usage {
    let system: usize = request.system.iter().map(|part| part.text.len()).sum();
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.name.as_str().len() + tool.description.len() + tool.parameters.get().len())
        .sum();
    let messages: usize = request.messages.iter().map(size).sum();
    let tokens = |bytes: usize| bytes.div_ceil(BYTES_PER_TOKEN) as u64;
    let prompt_tokens = tokens(system + tools + messages);
    let completion_tokens = tokens(written(message));
    Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens + completion_tokens,
        cached_input_tokens: None,
        cache_creation_input_tokens: None,
    }
}

fn size(message: &Message) -> usize {
    match message {
        Message::User(user) => user.text.len(),
        Message::Assistant(assistant) => written(assistant),
        Message::Tool(tool) => tool.text.len(),
    }
}

fn written(message: &AssistantMessage) -> usize {
    let calls = message
        .tool_calls
        .iter()
        .map(|call| call.name.len() + call.arguments.len());
    message.text.len() + calls.sum::<usize>()
}
