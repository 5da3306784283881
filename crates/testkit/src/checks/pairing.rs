//! Each result follows its call and each call has its result, by the rules of each wire.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Finding, Rule};
use crate::request::{Seen, Wire, list};

/// Calls that wait for their results, and every id that was ever used.
#[derive(Default)]
struct Open {
    waiting: BTreeSet<String>,
    used: BTreeSet<String>,
    findings: Vec<Finding>,
}

impl Open {
    fn call(&mut self, place: &str, id: &Value) {
        let Some(id) = id.as_str().filter(|id| !id.is_empty()) else {
            self.findings
                .push((Rule::CallIds, format!("{place}: a call without an id")));
            return;
        };
        if !self.used.insert(id.to_owned()) {
            self.findings.push((
                Rule::CallIds,
                format!("{place}: call id {id} is used twice"),
            ));
        }
        self.waiting.insert(id.to_owned());
    }

    fn result(&mut self, place: &str, id: &Value) {
        let id = id.as_str().unwrap_or_default();
        if !self.waiting.remove(id) {
            let why = if self.used.contains(id) {
                "answers a call that has its result or is no longer waiting"
            } else {
                "answers no call"
            };
            self.findings
                .push((Rule::Pairing, format!("{place}: result {id:?} {why}")));
        }
    }

    /// Something other than a result comes next: nothing may wait any longer.
    fn close(&mut self, place: &str) {
        for id in std::mem::take(&mut self.waiting) {
            self.findings.push((
                Rule::Pairing,
                format!("call {id} has no result before {place}"),
            ));
        }
    }
}

pub(super) fn check(wire: Wire, body: &Value) -> Vec<Finding> {
    let mut open = Open::default();
    match wire {
        Wire::Responses => responses(list(&body["input"]), &mut open),
        Wire::Chat => chat(list(&body["messages"]), &mut open),
        Wire::Messages => messages(list(&body["messages"]), &mut open),
    }
    open.close("the end");
    open.findings
}

fn responses(items: &[Value], open: &mut Open) {
    let mut answering = false;
    for (index, item) in items.iter().enumerate() {
        let place = format!("input[{index}]");
        let kind = item["type"].as_str().unwrap_or("message");
        if kind == "function_call_output" {
            answering = true;
            open.result(&place, &item["call_id"]);
            continue;
        }
        let belongs_to_step = matches!(kind, "function_call" | "reasoning")
            || (kind == "message" && item["role"] == "assistant");
        if answering || !belongs_to_step {
            open.close(&place);
            answering = false;
        }
        if kind == "function_call" {
            open.call(&place, &item["call_id"]);
        }
    }
}

fn chat(items: &[Value], open: &mut Open) {
    for (index, item) in items.iter().enumerate() {
        let place = format!("messages[{index}]");
        if item["role"] == "tool" {
            open.result(&place, &item["tool_call_id"]);
            continue;
        }
        open.close(&place);
        for call in list(&item["tool_calls"]) {
            open.call(&place, &call["id"]);
        }
    }
}

fn messages(items: &[Value], open: &mut Open) {
    for (index, item) in items.iter().enumerate() {
        let place = format!("messages[{index}]");
        let blocks = list(&item["content"]);
        let mut leading = true;
        for block in blocks {
            let is_result = block["type"] == "tool_result";
            if is_result {
                open.result(&place, &block["tool_use_id"]);
                if !leading {
                    open.findings.push((
                        Rule::Pairing,
                        format!("{place}: tool_result blocks come first in their message"),
                    ));
                }
                if item["role"] != "user" {
                    open.findings.push((
                        Rule::Pairing,
                        format!("{place}: results belong to the user turn"),
                    ));
                }
            }
            leading = leading && is_result;
        }
        // The results stand in the very next message, so nothing may wait after it.
        open.close(&format!("the end of {place}"));
        for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
            open.call(&place, &block["id"]);
        }
    }
    match items.first() {
        Some(first) if first["role"] != "user" => open
            .findings
            .push((Rule::Pairing, "messages[0] is not the user's".to_owned())),
        _ => {}
    }
    match items.last() {
        Some(last) if last["role"] == "assistant" => open.findings.push((
            Rule::Pairing,
            "the last message is the assistant's; current models refuse a started answer"
                .to_owned(),
        )),
        _ => {}
    }
}

/// A call that came with signed thinking goes back with the same thinking in front of it.
pub(super) fn replay(seen: &Seen, signatures: &BTreeMap<String, String>) -> Vec<Finding> {
    if seen.wire != Wire::Messages || signatures.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, item) in list(&seen.body["messages"]).iter().enumerate() {
        let blocks = list(&item["content"]);
        let Some(expected) = blocks
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .find_map(|block| signatures.get(block["id"].as_str()?))
        else {
            continue;
        };
        let first = blocks.first().unwrap_or(&Value::Null);
        if first["type"] != "thinking" || first["signature"] != expected.as_str() {
            findings.push((
                Rule::Replay,
                format!("messages[{index}] lost the signed thinking {expected} of its call"),
            ));
        }
    }
    findings
}
