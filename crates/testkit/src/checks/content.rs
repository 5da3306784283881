//! The body, its parameters and its blocks, one message at a time.

use serde_json::Value;

use super::{Finding, Rule};
use crate::request::{CODEX_PATH, Seen, Wire, list};

/// The cache marks that the Messages wire accepts in one request.
const MAX_CACHE_MARKS: usize = 4;

/// The version header of the Messages wire that Fermix speaks.
const MESSAGES_VERSION: &str = "2023-06-01";

fn messages_key(wire: Wire) -> &'static str {
    match wire {
        Wire::Responses => "input",
        Wire::Chat | Wire::Messages => "messages",
    }
}

/// The frame of the request: an object with a model, messages and a stream.
pub(super) fn body(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut flag = |detail: String| findings.push((Rule::Body, detail));
    if !seen.body.is_object() {
        flag("the body is no JSON object".to_owned());
        return findings;
    }
    if seen.model.trim().is_empty() {
        flag("`model` is missing or blank".to_owned());
    }
    if seen.body["stream"] != true {
        flag("`stream` is not true; every adapter streams".to_owned());
    }
    let key = messages_key(seen.wire);
    match &seen.body[key] {
        Value::Array(items) if !items.is_empty() => {}
        Value::String(text) if seen.wire == Wire::Responses && !text.is_empty() => {}
        _ => flag(format!("`{key}` is missing or empty")),
    }
    if seen.body["tools"].as_array().is_some_and(Vec::is_empty) {
        flag("`tools` is an empty list, which providers refuse; leave it out".to_owned());
    }
    findings
}

/// Parameters that a wire demands or refuses.
pub(super) fn parameters(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut flag = |detail: String| findings.push((Rule::Parameters, detail));
    let body = &seen.body;
    match seen.wire {
        Wire::Responses => {
            for name in [
                "temperature",
                "top_p",
                "previous_response_id",
                "conversation",
            ] {
                if body.get(name).is_some() {
                    flag(format!("`{name}` is never sent on the Responses wire"));
                }
            }
            if seen.path.ends_with(CODEX_PATH) {
                if body["store"] != false {
                    flag("`store` must be false on the codex endpoint".to_owned());
                }
                if body["instructions"].as_str().is_none_or(str::is_empty) {
                    flag("`instructions` are required on the codex endpoint".to_owned());
                }
                for (index, item) in list(&body["input"]).iter().enumerate() {
                    if item.get("id").is_some() {
                        flag(format!(
                            "input[{index}] keeps its `id`, but nothing is stored"
                        ));
                    }
                }
            }
        }
        Wire::Chat => {}
        Wire::Messages => {
            if body["max_tokens"].as_u64().is_none_or(|tokens| tokens == 0) {
                flag("`max_tokens` is required and positive".to_owned());
            }
            match seen.headers.get("anthropic-version").map(String::as_str) {
                Some(MESSAGES_VERSION) => {}
                other => flag(format!(
                    "anthropic-version is {other:?}, not {MESSAGES_VERSION}"
                )),
            }
        }
    }
    findings
}

/// Empty text, blank assistant messages, cache marks.
pub(super) fn blocks(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, item) in list(&seen.body[messages_key(seen.wire)]).iter().enumerate() {
        match seen.wire {
            Wire::Responses => responses_item(index, item, &mut findings),
            Wire::Chat => chat_message(index, item, &mut findings),
            Wire::Messages => messages_turn(index, item, &mut findings),
        }
    }
    if seen.wire == Wire::Messages {
        empty_texts("system", &seen.body["system"], &mut findings);
        let marks = cache_marks(&seen.body);
        if marks > MAX_CACHE_MARKS {
            findings.push((
                Rule::CacheControl,
                format!("{marks} cache_control marks, at most {MAX_CACHE_MARKS} are accepted"),
            ));
        }
    }
    findings
}

fn is_blank(content: &Value) -> bool {
    match content {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(blocks) => blocks.iter().all(|block| {
            block["text"]
                .as_str()
                .is_some_and(|text| text.trim().is_empty())
        }),
        _ => true,
    }
}

fn responses_item(index: usize, item: &Value, findings: &mut Vec<Finding>) {
    let is_message = item.get("type").is_none_or(|kind| kind == "message");
    if is_message && item["role"] == "assistant" && is_blank(&item["content"]) {
        findings.push((
            Rule::BlankAssistant,
            format!("input[{index}] is a blank assistant message"),
        ));
    }
}

fn chat_message(index: usize, item: &Value, findings: &mut Vec<Finding>) {
    if item["role"] != "assistant" || !is_blank(&item["content"]) {
        return;
    }
    if list(&item["tool_calls"]).is_empty() {
        findings.push((
            Rule::BlankAssistant,
            format!("messages[{index}] is a blank assistant message"),
        ));
    } else if item.get("content").is_some() {
        findings.push((
            Rule::EmptyText,
            format!("messages[{index}] has calls and blank `content`; leave it out"),
        ));
    }
}

fn messages_turn(index: usize, item: &Value, findings: &mut Vec<Finding>) {
    let place = format!("messages[{index}]");
    let content = &item["content"];
    empty_texts(&place, content, findings);
    for block in list(content)
        .iter()
        .filter(|block| block["type"] == "tool_result")
    {
        empty_texts(&format!("{place}.tool_result"), &block["content"], findings);
    }
    let says_something = match content {
        Value::String(text) => !text.trim().is_empty(),
        _ => list(content)
            .iter()
            .any(|block| match block["type"].as_str() {
                Some("text") => block["text"]
                    .as_str()
                    .is_some_and(|text| !text.trim().is_empty()),
                Some("thinking" | "redacted_thinking") => false,
                _ => true,
            }),
    };
    if !says_something {
        let rule = if item["role"] == "assistant" {
            Rule::BlankAssistant
        } else {
            Rule::EmptyText
        };
        findings.push((rule, format!("{place} says nothing")));
    }
}

fn empty_texts(place: &str, content: &Value, findings: &mut Vec<Finding>) {
    for (index, block) in list(content).iter().enumerate() {
        if block["type"] == "text" && is_blank(&block["text"]) {
            findings.push((
                Rule::EmptyText,
                format!("{place}[{index}] is an empty text block"),
            ));
        }
    }
}

/// Marks on system blocks, tools, and message blocks with the blocks inside their results.
/// Schemas and call arguments are left alone: a field of that name there is somebody's data.
fn cache_marks(body: &Value) -> usize {
    fn count(blocks: &Value) -> usize {
        list(blocks)
            .iter()
            .map(|block| {
                usize::from(block.get("cache_control").is_some()) + count(&block["content"])
            })
            .sum()
    }
    count(&body["system"]) + count(&body["tools"]) + count(&body["messages"])
}
