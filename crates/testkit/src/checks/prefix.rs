//! What a conversation sent once it sends again, byte for byte, so that provider caches hit.
//!
//! Inside a turn (the request carries results of the step before) tools, system text and all
//! earlier messages stay as they were. Between turns tool work is rewritten to texts, so what is
//! held is tools, system text, where dates may move on, and the messages that opened the turn
//! before: texts of people and answers, which are replayed as they were. Images are not replayed,
//! and a request with a lone message is a conversation that starts over. The closing request of a
//! run offers no tools by design and is compared by system text and messages only.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Finding, Rule};
use crate::request::{Role, Seen, Wire};

/// At most this many conversations are followed; later ones are not compared.
const MAX_CONVERSATIONS: usize = 10_000;

/// How much of a difference is shown, in characters.
const SHOWN: usize = 60;

/// The last requests of every conversation.
#[derive(Default)]
pub(super) struct Conversations {
    known: BTreeMap<String, Conversation>,
}

#[derive(Default)]
struct Conversation {
    /// The last request.
    last: Option<Sent>,
    /// The last request that offered tools.
    offering: Option<Sent>,
    /// The last request that began a turn.
    opening: Option<Sent>,
}

#[derive(Clone)]
struct Sent {
    number: usize,
    system: String,
    tools: Option<String>,
    messages: Vec<String>,
}

impl Conversations {
    pub(super) fn check(&mut self, seen: &Seen) -> Vec<Finding> {
        if !seen.body.is_object() {
            return Vec::new();
        }
        let sent = Sent::read(seen);
        let key = key(seen, &sent);
        if !self.known.contains_key(&key) && self.known.len() >= MAX_CONVERSATIONS {
            return Vec::new();
        }
        let conversation = self.known.entry(key).or_default();
        let mut findings = Vec::new();
        let in_turn = !seen.last_results().is_empty();
        if let Some(before) = conversation.last.as_ref().filter(|_| in_turn) {
            compare(
                Rule::StableSystem,
                "system text",
                before.number,
                &before.system,
                &sent.system,
                &mut findings,
            );
            if let (Some(old), Some(new)) = (&before.tools, &sent.tools) {
                compare(
                    Rule::StableTools,
                    "tool list",
                    before.number,
                    old,
                    new,
                    &mut findings,
                );
            }
            compare_messages(Rule::StableMessages, before, &sent, &mut findings);
            compare_items(before, &sent, &mut findings);
        } else if let Some(before) = conversation.offering.as_ref()
            && let (Some(old), Some(new)) = (&before.tools, &sent.tools)
        {
            compare(
                Rule::StableTools,
                "tool list",
                before.number,
                old,
                new,
                &mut findings,
            );
            let (old, new) = (without_dates(&before.system), without_dates(&sent.system));
            compare(
                Rule::StableSystem,
                "system text",
                before.number,
                &old,
                &new,
                &mut findings,
            );
        }
        if !in_turn {
            if let Some(before) = &conversation.opening
                && sent.messages.len() > 1
            {
                compare_messages(Rule::StableHistory, before, &sent, &mut findings);
            }
            conversation.opening = Some(sent.clone());
        }
        if sent.tools.is_some() {
            conversation.offering = Some(sent.clone());
        }
        conversation.last = Some(sent);
        findings
    }
}

/// A conversation is known by its cache key, else by its system text and first message.
fn key(seen: &Seen, sent: &Sent) -> String {
    let route = format!("{:?} {}", seen.wire, seen.model);
    match &seen.cache_key {
        Some(key) => format!("{route} {key}"),
        None => {
            let first = seen
                .messages
                .iter()
                .find(|message| message.role == Role::User);
            let first = first.map_or("", |message| message.text.as_str());
            format!("{route} {} {first}", without_dates(&sent.system))
        }
    }
}

impl Sent {
    fn read(seen: &Seen) -> Self {
        let (system, messages) = match seen.wire {
            Wire::Responses => ("instructions", "input"),
            Wire::Chat => ("", "messages"),
            Wire::Messages => ("system", "messages"),
        };
        let mut system = raw_field(&seen.raw, system).unwrap_or_default();
        let mut messages: Vec<String> = raw_field(&seen.raw, messages)
            .and_then(|list| serde_json::from_str::<Vec<Box<RawValue>>>(&list).ok())
            .unwrap_or_default()
            .into_iter()
            .map(|message| message.get().to_owned())
            .collect();
        if seen.wire == Wire::Chat {
            let leading = messages
                .iter()
                .take_while(|message| is_system(message))
                .count();
            system = messages.drain(..leading).collect::<Vec<_>>().join("\n");
        }
        if seen.wire == Wire::Messages {
            system = without_marks(&system);
            for message in &mut messages {
                *message = without_marks(message);
            }
        }
        Self {
            number: seen.number,
            system,
            tools: raw_field(&seen.raw, "tools"),
            messages,
        }
    }
}

fn is_system(message: &str) -> bool {
    serde_json::from_str::<Value>(message)
        .is_ok_and(|message| message["role"] == "system" || message["role"] == "developer")
}

/// The bytes of one top-level member of a JSON object.
pub(super) fn raw_field(body: &[u8], name: &str) -> Option<String> {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(body).ok()?;
    members.get(name).map(|value| value.get().to_owned())
}

/// Removes the cache marks, which move along with the conversation, and gives a plain text the
/// block form it takes when it is marked.
fn without_marks(json: &str) -> String {
    fn clean(value: &mut Value) {
        let Value::Object(members) = value else {
            return;
        };
        members.shift_remove("cache_control");
        if members.get("type").is_some_and(|kind| kind == "tool_use") {
            return;
        }
        if let Some(content) = members.get_mut("content") {
            if let Value::String(text) = content {
                *content = serde_json::json!([{"type": "text", "text": text}]);
            }
            clean_list(content);
        }
    }
    fn clean_list(value: &mut Value) {
        for item in value.as_array_mut().into_iter().flatten() {
            clean(item);
        }
    }
    let Ok(mut value) = serde_json::from_str::<Value>(json) else {
        return json.to_owned();
    };
    clean(&mut value);
    clean_list(&mut value);
    value.to_string()
}

/// Replaces every `2026-01-31` by `DATE`.
fn without_dates(text: &str) -> String {
    const SHAPE: &[u8] = b"dddd-dd-dd";
    let bytes = text.as_bytes();
    let mut clean = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let is_date = bytes.get(at..at + SHAPE.len()).is_some_and(|window| {
            window.iter().zip(SHAPE).all(|(byte, shape)| match shape {
                b'd' => byte.is_ascii_digit(),
                _ => byte == shape,
            })
        });
        if is_date {
            clean.extend_from_slice(b"DATE");
            at += SHAPE.len();
        } else {
            clean.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(clean).expect("only ASCII was replaced, by ASCII")
}

fn compare(
    rule: Rule,
    what: &str,
    before: usize,
    old: &str,
    new: &str,
    findings: &mut Vec<Finding>,
) {
    if old != new {
        let (old, new) = difference(old, new);
        findings.push((
            rule,
            format!("the {what} differs from request {before}: {old:?} became {new:?}"),
        ));
    }
}

fn has_image(message: &str) -> bool {
    [r#""image""#, r#""image_url""#, r#""input_image""#]
        .iter()
        .any(|kind| message.contains(kind))
}

fn compare_messages(rule: Rule, before: &Sent, sent: &Sent, findings: &mut Vec<Finding>) {
    for (index, old) in before.messages.iter().enumerate() {
        let Some(new) = sent.messages.get(index) else {
            findings.push((
                rule,
                format!("message {index} of request {} is gone", before.number),
            ));
            return;
        };
        let is_forgotten = rule == Rule::StableHistory && has_image(old);
        if old != new && !is_forgotten {
            let what = format!("message {index}");
            compare(rule, &what, before.number, old, new, findings);
            return;
        }
    }
}

/// Compares what stays when the texts of results do not: which items there are, and in which order.
/// Images come and go with the results they belong to.
fn compare_items(before: &Sent, sent: &Sent, findings: &mut Vec<Finding>) {
    let old = before.messages.iter().filter_map(|item| shape(item));
    let mut new = sent.messages.iter().filter_map(|item| shape(item));
    for (index, old) in old.enumerate() {
        let new = new.next().unwrap_or_default();
        if old != new {
            let what = format!("item {index} of the turn");
            compare(
                Rule::StableItems,
                &what,
                before.number,
                &old,
                &new,
                findings,
            );
            return;
        }
    }
}

/// An item without the text of a result; nothing for one that only shows images of results.
fn shape(item: &str) -> Option<String> {
    let Ok(mut value) = serde_json::from_str::<Value>(item) else {
        return Some(item.to_owned());
    };
    if value["type"] == "function_call_output" {
        value["output"] = Value::Null;
    } else if value["role"] == "tool" {
        value["content"] = Value::Null;
    } else {
        let blocks = value["content"].as_array_mut().into_iter().flatten();
        for block in blocks.filter(|block| block["type"] == "tool_result") {
            for name in ["content", "is_error"] {
                if let Some(members) = block.as_object_mut() {
                    members.shift_remove(name);
                }
            }
        }
        let shown = value.to_string();
        if has_image(&shown) {
            return None;
        }
        return Some(shown);
    }
    Some(value.to_string())
}

/// The first place where two texts differ, a little of each.
fn difference(old: &str, new: &str) -> (String, String) {
    let same = old
        .bytes()
        .zip(new.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let show = |text: &str| {
        let start = text.floor_char_boundary(same.saturating_sub(SHOWN / 3));
        text[start..].chars().take(SHOWN).collect::<String>()
    };
    (show(old), show(new))
}
