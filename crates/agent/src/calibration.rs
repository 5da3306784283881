//! How many bytes of text one token of a model stands for, learned from what providers report.
//!
//! Four is a fair guess for English prose and two or three times off for other scripts and for
//! code. A budget that is wrong by as much either wastes a window or overflows it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use fermix_providers::{ChatRequest, ProviderId, Route};
use fermix_types::Message;

/// Before anything was reported.
const FIRST_GUESS: f64 = 4.0;
/// What no real text of a real tokenizer lies outside of. Other reports teach nothing.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.8..=10.0;
/// A smaller prompt says more about the wire's framing than about the text.
const SMALLEST_SAMPLE: u64 = 256;
/// How many models are remembered.
const MAX_MODELS: usize = 64;

/// Bytes per token of each model that has answered.
#[derive(Debug, Default)]
pub(crate) struct Calibration(Mutex<HashMap<(ProviderId, String), f64>>);

impl Calibration {
    /// Bytes per token of the route's model.
    pub(crate) fn bytes_per_token(&self, route: &Route) -> f64 {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&(route.provider, route.model.clone()))
            .copied()
            .unwrap_or(FIRST_GUESS)
    }

    /// Takes in that `request` was `prompt_tokens` for the model. Images have no bytes of text, so
    /// a request with any teaches nothing.
    pub(crate) fn learn(&self, route: &Route, request: &ChatRequest, prompt_tokens: u64) {
        if prompt_tokens < SMALLEST_SAMPLE || request.has_images() {
            return;
        }
        let sample = request_bytes(request) as f64 / prompt_tokens as f64;
        if !PLAUSIBLE.contains(&sample) {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (route.provider, route.model.clone());
        if known.len() >= MAX_MODELS && !known.contains_key(&key) {
            return;
        }
        known
            .entry(key)
            .and_modify(|ratio| *ratio = (*ratio + sample) / 2.0)
            .or_insert(sample);
    }
}

/// The text a request consists of, in bytes.
pub(crate) fn request_bytes(request: &ChatRequest) -> usize {
    let system: usize = request.system.iter().map(|part| part.text.len()).sum();
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.name.as_str().len() + tool.description.len() + tool.parameters.get().len())
        .sum();
    let messages: usize = request.messages.iter().map(message_bytes).sum();
    system + tools + messages
}

fn message_bytes(message: &Message) -> usize {
    match message {
        Message::User(user) => user.text.len(),
        Message::Tool(tool) => tool.text.len(),
        Message::Assistant(assistant) => {
            let calls = assistant.tool_calls.iter();
            assistant.text.len()
                + calls
                    .map(|call| call.name.len() + call.arguments.len())
                    .sum::<usize>()
        }
    }
}
