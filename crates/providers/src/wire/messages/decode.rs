//! Reading the event stream of the Messages wire.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::Refusal;
use crate::request::{EventSink, ModelEvent, Usage};
use crate::wire::{Arrived, Decode, Item, Progress, RawCall, count};

/// Collects content blocks as they stop.
#[derive(Default)]
pub(crate) struct Decoder {
    items: Vec<Item>,
    open: BTreeMap<u64, Block>,
    usage: Value,
    has_begun: bool,
    model: Option<String>,
    stop_reason: Option<String>,
}

enum Block {
    Text(String),
    Call {
        call: RawCall,
        start: Value,
    },
    Thinking {
        text: String,
        signature: String,
    },
    /// A block that comes whole: a redacted thought, or a kind newer than this code.
    Whole(Value),
}

impl Decode for Decoder {
    fn event(&mut self, data: &Value, events: &mut dyn EventSink) -> Result<Progress, Refusal> {
        let index = data["index"].as_u64().unwrap_or_default();
        match data["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.model = data["message"]["model"].as_str().map(str::to_owned);
                self.note_usage(&data["message"]["usage"]);
            }
            "content_block_start" => {
                let block = begin(&data["content_block"], events);
                self.has_begun |= matches!(block, Block::Text(_) | Block::Call { .. });
                self.open.insert(index, block);
            }
            "content_block_delta" => {
                if let Some(block) = self.open.get_mut(&index) {
                    grow(block, &data["delta"], events);
                }
            }
            "content_block_stop" => {
                if let Some(block) = self.open.remove(&index) {
                    self.items.extend(end(block, events));
                }
            }
            "message_delta" => {
                self.note_usage(&data["usage"]);
                if let Some(reason) = data["delta"]["stop_reason"].as_str() {
                    self.stop_reason = Some(reason.to_owned());
                }
            }
            "message_stop" => {
                // Text counts even when its block has no end of its own. Half a call does not.
                for block in std::mem::take(&mut self.open).into_values() {
                    if !matches!(block, Block::Call { .. }) {
                        self.items.extend(end(block, events));
                    }
                }
                return Ok(Progress::Complete);
            }
            "error" => return Err(Refusal::from_value(data, 0)),
            _ => {}
        }
        Ok(Progress::More)
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn finish(self: Box<Self>) -> Arrived {
        let unfinished_text = self.open.values().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            Block::Call { .. } | Block::Thinking { .. } | Block::Whole(_) => None,
        });
        Arrived {
            unfinished_text: unfinished_text.collect(),
            has_unfinished: !self.open.is_empty(),
            truncated: matches!(
                self.stop_reason.as_deref(),
                Some("max_tokens" | "model_context_window_exceeded")
            ),
            is_complete: self.stop_reason.is_some() && self.open.is_empty(),
            usage: usage(&self.usage),
            items: self.items,
            model: self.model,
            stop_reason: self.stop_reason,
        }
    }
}

impl Decoder {
    /// The counts of the end are totals; what they leave out was said at the start.
    fn note_usage(&mut self, usage: &Value) {
        let Some(fields) = usage.as_object() else {
            return;
        };
        for (name, value) in fields {
            if value.is_u64() {
                self.usage[name.as_str()] = value.clone();
            }
        }
    }
}

fn begin(block: &Value, events: &mut dyn EventSink) -> Block {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str().unwrap_or_default() {
        "text" => {
            if !text("text").is_empty() {
                events.emit(ModelEvent::TextDelta(text("text")));
            }
            Block::Text(text("text"))
        }
        "tool_use" => Block::Call {
            call: RawCall {
                id: block["id"].as_str().map(str::to_owned),
                name: text("name"),
                arguments: String::new(),
            },
            start: block["input"].clone(),
        },
        "thinking" => Block::Thinking {
            text: text("thinking"),
            signature: text("signature"),
        },
        _ => Block::Whole(block.clone()),
    }
}

fn grow(block: &mut Block, delta: &Value, events: &mut dyn EventSink) {
    let piece = |name: &str| delta[name].as_str().unwrap_or_default();
    match (block, delta["type"].as_str().unwrap_or_default()) {
        (Block::Text(text), "text_delta") => {
            text.push_str(piece("text"));
            events.emit(ModelEvent::TextDelta(piece("text").to_owned()));
        }
        (Block::Call { call, .. }, "input_json_delta") => {
            call.arguments.push_str(piece("partial_json"));
        }
        (Block::Thinking { text, .. }, "thinking_delta") => {
            text.push_str(piece("thinking"));
            events.emit(ModelEvent::ReasoningDelta(piece("thinking").to_owned()));
        }
        (Block::Thinking { signature, .. }, "signature_delta") => {
            signature.push_str(piece("signature"));
        }
        _ => {}
    }
}

fn end(block: Block, events: &mut dyn EventSink) -> Option<Item> {
    Some(match block {
        Block::Text(text) => {
            events.emit(ModelEvent::TextDone);
            Item::Text(text)
        }
        Block::Call { mut call, start } => {
            // A call without arguments sends no delta: its input was whole at the start.
            if call.arguments.is_empty() && start.is_object() {
                call.arguments = start.to_string();
            }
            Item::Call(call)
        }
        Block::Thinking { text, signature } => {
            events.emit(ModelEvent::ReasoningDone);
            // Without its signature a thought cannot be sent back.
            Item::Kept(if signature.is_empty() {
                Value::Null
            } else {
                json!({"type": "thinking", "thinking": text, "signature": signature})
            })
        }
        Block::Whole(block) => Item::Kept(if block["type"] == "redacted_thinking" {
            block
        } else {
            Value::Null
        }),
    })
}

/// `input_tokens` leaves out what was read from or written to the cache; our prompt count holds
/// everything.
fn usage(usage: &Value) -> Usage {
    let cached = count(&usage["cache_read_input_tokens"]);
    let created = count(&usage["cache_creation_input_tokens"]);
    let prompt_tokens = count(&usage["input_tokens"])
        .unwrap_or_default()
        .saturating_add(cached.unwrap_or_default())
        .saturating_add(created.unwrap_or_default());
    let completion_tokens = count(&usage["output_tokens"]).unwrap_or_default();
    Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens.saturating_add(completion_tokens),
        cached_input_tokens: cached,
        cache_creation_input_tokens: created,
    }
}
