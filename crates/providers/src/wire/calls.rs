//! What an answer is made of, and the one place that decides what a call's arguments are.

use std::collections::HashSet;

use fermix_types::{AssistantMessage, Message, ToolCall};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::MAX_CALLS;

/// One complete piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// Text for the reader.
    Text(String),
    /// A tool call.
    Call(RawCall),
    /// Something only the provider understands and wants back.
    Kept(Value),
}

/// A call as it came over the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RawCall {
    pub id: Option<String>,
    pub name: String,
    pub arguments: String,
}

/// How many calls `items` hold.
pub(crate) fn number_of_calls(items: &[Item]) -> usize {
    items
        .iter()
        .filter(|item| matches!(item, Item::Call(_)))
        .count()
}

/// Gives every call exactly one arguments text and an id of its own.
///
/// Some models run the arguments of two calls together (`{"a":1}{"a":2}`). They meant two calls,
/// so two calls they become. Text that is anything else stays as it is, for dispatch to refuse:
/// a guess here would run a tool with arguments nobody chose.
///
/// Ids that are missing, or already taken in `conversation`, are made from the call itself, so
/// that sending the same conversation again gives the same bytes.
pub(crate) fn settle(items: Vec<Item>, conversation: &[Message]) -> Vec<Item> {
    let mut taken: HashSet<String> = HashSet::new();
    for message in conversation {
        if let Message::Assistant(assistant) = message {
            taken.extend(assistant.tool_calls.iter().map(|call| call.call_id.clone()));
        }
    }
    let mut position = taken.len();
    let mut room = MAX_CALLS.saturating_sub(number_of_calls(&items));
    let mut settled = Vec::with_capacity(items.len());
    for item in items {
        let Item::Call(call) = item else {
            settled.push(item);
            continue;
        };
        let mut id = call.id.filter(|id| !id.is_empty());
        let pieces = separate(call.arguments, 1 + room);
        room -= pieces.len() - 1;
        for arguments in pieces {
            let id = id
                .take()
                .filter(|id| !taken.contains(id))
                .unwrap_or_else(|| made_id(&call.name, &arguments, position));
            position += 1;
            taken.insert(id.clone());
            settled.push(Item::Call(RawCall {
                id: Some(id),
                name: call.name.clone(),
                arguments,
            }));
        }
    }
    settled
}

/// The settled items as the message the rest of Fermix sees.
pub(crate) fn message(items: &[Item]) -> AssistantMessage {
    let mut message = AssistantMessage::default();
    for item in items {
        match item {
            Item::Text(text) if text.trim().is_empty() => {}
            Item::Text(text) => {
                if !message.text.is_empty() {
                    message.text.push_str("\n\n");
                }
                message.text.push_str(text);
            }
            Item::Call(call) => message.tool_calls.push(ToolCall {
                call_id: call.id.clone().unwrap_or_default(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            }),
            Item::Kept(_) => {}
        }
    }
    message
}

/// The arguments of the calls that one string holds: itself, unless it is several non-empty
/// objects and nothing else, at most `most` of them.
fn separate(arguments: String, most: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    for piece in serde_json::Deserializer::from_str(&arguments).into_iter::<&RawValue>() {
        let Ok(piece) = piece else {
            return vec![arguments];
        };
        let holds_something = serde_json::from_str::<serde_json::Map<String, Value>>(piece.get())
            .is_ok_and(|object| !object.is_empty());
        if !holds_something || pieces.len() == most {
            return vec![arguments];
        }
        pieces.push(piece.get().to_owned());
    }
    if pieces.len() < 2 {
        vec![arguments]
    } else {
        pieces
    }
}

/// `position` counts calls over the whole conversation: a model that repeats a call gets a new id.
fn made_id(name: &str, arguments: &str, position: usize) -> String {
    let digest = Sha256::digest(format!("{name}:{arguments}:{position}"));
    format!("call_{}", &hex::encode(digest)[..12])
}
