//! Reading the chunk stream of the Chat Completions wire.

use std::collections::HashMap;

use serde_json::Value;

use crate::error::Refusal;
use crate::request::{EventSink, ModelEvent, Usage};
use crate::wire::{Arrived, Decode, Item, Progress, RawCall, count};

/// Collects one message out of its deltas.
#[derive(Default)]
pub(crate) struct Decoder {
    text: String,
    thought: bool,
    calls: Vec<RawCall>,
    /// The latest call that a server's number stands for.
    by_index: HashMap<u64, usize>,
    by_id: HashMap<(Option<u64>, String), usize>,
    finish_reason: Option<String>,
    complete: bool,
    usage: Usage,
    model: Option<String>,
}

impl Decode for Decoder {
    fn event(&mut self, data: &Value, events: &mut dyn EventSink) -> Result<Progress, Refusal> {
        if data["error"].is_object() || data["error"].is_string() {
            return Err(Refusal::from_value(data, 0));
        }
        if let Some(model) = data["model"].as_str().filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
        if data["usage"].is_object() {
            self.usage = usage(&data["usage"]);
        }
        let choice = &data["choices"][0];
        // Servers that answer in one piece put a whole message where others put a delta.
        let delta = if choice["delta"].is_object() {
            &choice["delta"]
        } else {
            &choice["message"]
        };
        self.think(delta, events);
        self.speak(&delta["content"], events);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call);
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish_reason = Some(reason.to_owned());
            self.end(events);
        }
        Ok(Progress::More)
    }

    fn done(&mut self, events: &mut dyn EventSink) -> Progress {
        self.end(events);
        Progress::Complete
    }

    fn has_begun(&self) -> bool {
        !self.text.is_empty() || !self.calls.is_empty()
    }

    fn finish(self: Box<Self>) -> Arrived {
        let has_content = !self.text.is_empty() || !self.calls.is_empty();
        let mut arrived = Arrived {
            // Mistral tells a full window from a reached limit; to the reader both cut the answer.
            truncated: matches!(
                self.finish_reason.as_deref(),
                Some("length" | "model_length")
            ),
            usage: self.usage,
            model: self.model,
            stop_reason: self.finish_reason,
            is_complete: self.complete,
            ..Arrived::default()
        };
        if !self.complete {
            arrived.has_unfinished = has_content || self.thought;
            arrived.unfinished_text = self.text;
            return arrived;
        }
        if self.thought {
            arrived.items.push(Item::Kept(Value::Null));
        }
        if !self.text.is_empty() {
            arrived.items.push(Item::Text(self.text));
        }
        arrived.items.extend(self.calls.into_iter().map(Item::Call));
        arrived
    }
}

impl Decoder {
    fn end(&mut self, events: &mut dyn EventSink) {
        if !std::mem::replace(&mut self.complete, true) && !self.text.is_empty() {
            events.emit(ModelEvent::TextDone);
        }
    }

    fn think(&mut self, delta: &Value, events: &mut dyn EventSink) {
        let text = [&delta["reasoning_content"], &delta["reasoning"]]
            .into_iter()
            .find_map(Value::as_str);
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.thought = true;
            events.emit(ModelEvent::ReasoningDelta(text.to_owned()));
        }
    }

    fn speak(&mut self, content: &Value, events: &mut dyn EventSink) {
        match content {
            Value::String(text) if !text.is_empty() => {
                self.text.push_str(text);
                events.emit(ModelEvent::TextDelta(text.clone()));
            }
            // Mistral's thinking models send typed parts.
            Value::Array(parts) => {
                for part in parts {
                    if part["type"] == "thinking" {
                        for thought in part["thinking"].as_array().into_iter().flatten() {
                            if let Some(text) = thought["text"].as_str() {
                                self.thought = true;
                                events.emit(ModelEvent::ReasoningDelta(text.to_owned()));
                            }
                        }
                    } else {
                        self.speak(&part["text"], events);
                    }
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, delta: &Value) {
        let id = delta["id"].as_str().filter(|id| !id.is_empty());
        let name = delta["function"]["name"].as_str().unwrap_or_default();
        let index = delta["index"].as_u64();
        // Some servers number every call 0; a new id beside a name is a new call all the same.
        // Some number none; then a name begins a call and the rest belongs to the last one.
        let known = id.and_then(|id| self.by_id.get(&(index, id.to_owned())).copied());
        let position = match index {
            Some(index) => self.by_index.get(&index).and_then(|&latest| {
                let other_id = self.calls[latest]
                    .id
                    .as_deref()
                    .filter(|own| Some(*own) != id);
                let is_other = id.is_some() && other_id.is_some() && !name.is_empty();
                if is_other { known } else { Some(latest) }
            }),
            None if id.is_none() && name.is_empty() => self.calls.len().checked_sub(1),
            None => known,
        };
        let position = position.unwrap_or_else(|| {
            let position = self.calls.len();
            self.calls.push(RawCall::default());
            self.by_index
                .insert(index.unwrap_or(position as u64), position);
            position
        });
        let call = &mut self.calls[position];
        if let Some(id) = id.filter(|_| call.id.is_none()) {
            call.id = Some(id.to_owned());
            self.by_id.insert((index, id.to_owned()), position);
        }
        if call.name.is_empty() {
            call.name = name.to_owned();
        }
        match &delta["function"]["arguments"] {
            Value::String(text) => call.arguments.push_str(text),
            // Not what the wire says, but its meaning is plain.
            object @ Value::Object(_) => call.arguments.push_str(&object.to_string()),
            _ => {}
        }
    }
}

fn usage(usage: &Value) -> Usage {
    let prompt_tokens = count(&usage["prompt_tokens"]).unwrap_or_default();
    let completion_tokens = count(&usage["completion_tokens"]).unwrap_or_default();
    Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: count(&usage["total_tokens"])
            .unwrap_or(prompt_tokens.saturating_add(completion_tokens)),
        cached_input_tokens: count(&usage["prompt_tokens_details"]["cached_tokens"]),
        cache_creation_input_tokens: count(&usage["prompt_tokens_details"]["cache_write_tokens"]),
    }
}
