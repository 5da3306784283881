//! Reading the event stream of the Responses wire.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::Refusal;
use crate::request::{EventSink, ModelEvent, Usage};
use crate::wire::{Arrived, Decode, Item, Progress, RawCall, count};

/// Why an answer is incomplete when it ran into its length limit.
const LENGTH_LIMIT: &str = "max_output_tokens";

/// Collects output items as they end.
#[derive(Default)]
pub(crate) struct Decoder {
    items: Vec<Item>,
    /// Items that have begun and not ended, with their text so far.
    open: BTreeMap<u64, String>,
    has_begun: bool,
    truncated: bool,
    usage: Usage,
    model: Option<String>,
}

impl Decode for Decoder {
    fn event(&mut self, data: &Value, events: &mut dyn EventSink) -> Result<Progress, Refusal> {
        let index = data["output_index"].as_u64().unwrap_or_default();
        let delta = || data["delta"].as_str().unwrap_or_default().to_owned();
        match data["type"].as_str().unwrap_or_default() {
            "response.created" => self.note_model(&data["response"]),
            "response.output_item.added" => {
                self.open.entry(index).or_default();
                self.has_begun |= data["item"]["type"] != "reasoning";
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.has_begun = true;
                self.open.entry(index).or_default().push_str(&delta());
                events.emit(ModelEvent::TextDelta(delta()));
            }
            "response.output_text.done" | "response.refusal.done" => {
                events.emit(ModelEvent::TextDone);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                events.emit(ModelEvent::ReasoningDelta(delta()));
            }
            "response.reasoning_summary_text.done" | "response.reasoning_text.done" => {
                events.emit(ModelEvent::ReasoningDone);
            }
            "response.output_item.done" => {
                self.open.remove(&index);
                self.items.push(item(&data["item"]));
            }
            "response.completed" => {
                let response = &data["response"];
                self.note_model(response);
                self.usage = usage(&response["usage"]);
                self.open.clear();
                // A server may leave out the events of single items and list them here only.
                if self.items.is_empty() {
                    self.take_list(&response["output"]);
                }
                return Ok(Progress::Complete);
            }
            "response.failed" => {
                self.usage = usage(&data["response"]["usage"]);
                return Err(Refusal::from_value(&data["response"], 0));
            }
            "response.incomplete" => {
                self.note_model(&data["response"]);
                self.usage = usage(&data["response"]["usage"]);
                let reason = data["response"]["incomplete_details"]["reason"]
                    .as_str()
                    .unwrap_or("no reason given");
                if reason == LENGTH_LIMIT && self.keep_beginning(&data["response"]["output"]) {
                    self.truncated = true;
                    return Ok(Progress::Complete);
                }
                return Err(Refusal {
                    code: Some(fermix_types::text::prefix(reason, 64).to_owned()),
                    words: Some(match reason {
                        LENGTH_LIMIT => "the answer ran into its length limit".to_owned(),
                        "content_filter" => {
                            "the answer was stopped by the provider's content filter".to_owned()
                        }
                        other => format!(
                            "the answer is incomplete: {}",
                            fermix_types::text::prefix(other, 200)
                        ),
                    }),
                    ..Refusal::default()
                });
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
        Arrived {
            items: self.items,
            truncated: self.truncated,
            is_complete: false,
            has_unfinished: !self.open.is_empty(),
            unfinished_text: self.open.into_values().collect(),
            usage: self.usage,
            model: self.model,
            stop_reason: None,
        }
    }
}

impl Decoder {
    fn take_list(&mut self, output: &Value) {
        self.items = output.as_array().into_iter().flatten().map(item).collect();
    }

    /// Settles what an answer that ran into its limit consists of, and says whether that is
    /// anything. The item the limit fell into may have no end of its own: then the list at the end
    /// has it, or only its deltas do.
    fn keep_beginning(&mut self, output: &Value) -> bool {
        let open = std::mem::take(&mut self.open);
        let listed = output.as_array().map_or(0, Vec::len);
        if listed > self.items.len() {
            self.take_list(output);
        } else {
            let texts = open.into_values().filter(|text| !text.is_empty());
            self.items.extend(texts.map(Item::Text));
        }
        !self.items.is_empty()
    }

    fn note_model(&mut self, response: &Value) {
        if let Some(model) = response["model"].as_str() {
            self.model = Some(model.to_owned());
        }
    }
}

fn item(item: &Value) -> Item {
    match item["type"].as_str().unwrap_or_default() {
        "message" => {
            let parts = item["content"].as_array().into_iter().flatten();
            Item::Text(
                parts
                    .filter_map(|part| part["text"].as_str().or_else(|| part["refusal"].as_str()))
                    .collect(),
            )
        }
        "function_call" => Item::Call(RawCall {
            id: item["call_id"].as_str().map(str::to_owned),
            name: item["name"].as_str().unwrap_or_default().to_owned(),
            arguments: item["arguments"].as_str().unwrap_or_default().to_owned(),
        }),
        // Without its sealed content a thought means nothing to a server that stored nothing.
        "reasoning" if item["encrypted_content"].is_string() => Item::Kept(json!({
            "type": "reasoning",
            "summary": if item["summary"].is_array() { item["summary"].clone() } else { json!([]) },
            "encrypted_content": item["encrypted_content"],
        })),
        _ => Item::Kept(Value::Null),
    }
}

fn usage(usage: &Value) -> Usage {
    let prompt_tokens = count(&usage["input_tokens"]).unwrap_or_default();
    let completion_tokens = count(&usage["output_tokens"]).unwrap_or_default();
    Usage {
        prompt_tokens,
        completion_tokens,
        total_tokens: count(&usage["total_tokens"])
            .unwrap_or(prompt_tokens.saturating_add(completion_tokens)),
        cached_input_tokens: count(&usage["input_tokens_details"]["cached_tokens"]),
        cache_creation_input_tokens: None,
    }
}
