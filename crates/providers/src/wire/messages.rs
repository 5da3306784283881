//! The Messages wire: Anthropic.
//!
//! The models sign their thoughts, so an assistant turn goes back block for block as it came.
//! Cache marks are placed while the request is built, never stored, so that they cannot pile up
//! past the four the API allows.

mod decode;

use fermix_types::{AssistantMessage, Effort, Image, Message, ToolMessage};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(crate) use decode::Decoder;

use super::{Item, as_object, sent_name};
use crate::catalog::{ModelFacts, Thinking};
use crate::request::{Calls, ChatRequest, ProviderId, SystemPart};

/// The version of the API this wire was written for.
pub(crate) const VERSION: &str = "2023-06-01";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Typed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Typed>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Value>,
    messages: Vec<Value>,
}

#[derive(Serialize)]
struct Typed {
    r#type: &'static str,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: Effort,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Typed>,
}

/// The request's body.
pub(crate) fn body(request: &ChatRequest, facts: &ModelFacts, effort: Option<Effort>) -> Vec<u8> {
    let thinks = facts.thinking == Thinking::Adaptive;
    let asked = request.max_output_tokens.map_or(u64::MAX, u64::from).max(1);
    let mut messages = messages(&request.messages);
    mark_last(&mut messages);
    let last_tool = request.tools.len().checked_sub(1);
    let body = Body {
        model: &request.model,
        max_tokens: facts.max_output.min(asked),
        stream: true,
        // A model that thinks refuses any temperature but its own.
        temperature: request
            .temperature
            .filter(|_| facts.temperature && !thinks)
            .map(|t| t.clamp(0.0, 1.0)),
        thinking: thinks.then_some(Typed { r#type: "adaptive" }),
        output_config: effort.map(|effort| OutputConfig { effort }),
        tools: request
            .tools
            .iter()
            .enumerate()
            .map(|(index, tool)| Tool {
                name: tool.name.as_str(),
                description: &tool.description,
                input_schema: &tool.parameters,
                cache_control: (Some(index) == last_tool).then_some(Typed {
                    r#type: "ephemeral",
                }),
            })
            .collect(),
        tool_choice: (request.calls == Calls::Forbidden && !request.tools.is_empty())
            .then_some(Typed { r#type: "none" }),
        system: system(&request.system),
        messages,
    };
    serde_json::to_vec(&body).expect("plain data with string keys always serialises")
}

fn ephemeral() -> Value {
    json!({"type": "ephemeral"})
}

/// The system blocks. The last one is marked; so is the last stable one, because a mark behind
/// text that changes every day would never be found again.
fn system(parts: &[SystemPart]) -> Vec<Value> {
    let parts: Vec<&SystemPart> = parts
        .iter()
        .filter(|part| !part.text.trim().is_empty())
        .collect();
    let last_stable = parts.iter().rposition(|part| part.stable);
    let last = parts.len().checked_sub(1);
    let blocks = parts.iter().enumerate().map(|(index, part)| {
        let mut block = json!({"type": "text", "text": part.text});
        if Some(index) == last || Some(index) == last_stable {
            block["cache_control"] = ephemeral();
        }
        block
    });
    blocks.collect()
}

/// Marks the last block of the last message that may carry a mark; signed thoughts may not.
fn mark_last(messages: &mut [Value]) {
    let Some(blocks) = messages
        .last_mut()
        .and_then(|last| last["content"].as_array_mut())
    else {
        return;
    };
    let may_carry = |block: &&mut Value| {
        matches!(
            block["type"].as_str(),
            Some("text" | "image" | "tool_use" | "tool_result")
        )
    };
    if let Some(block) = blocks.iter_mut().rev().find(may_carry) {
        block["cache_control"] = ephemeral();
    }
}

fn messages(conversation: &[Message]) -> Vec<Value> {
    let mut rendered: Vec<Value> = Vec::with_capacity(conversation.len());
    for message in conversation {
        let (role, blocks) = match message {
            Message::User(user) => ("user", said(&user.text, &user.images)),
            Message::Tool(tool) => ("user", vec![result(tool)]),
            Message::Assistant(assistant) => ("assistant", answered(assistant)),
        };
        if blocks.is_empty() {
            continue;
        }
        // Results of one turn belong into one message, and roles take turns.
        match rendered
            .last_mut()
            .filter(|last| last["role"] == role)
            .and_then(|last| last["content"].as_array_mut())
        {
            Some(content) => content.extend(blocks),
            None => rendered.push(json!({"role": role, "content": blocks})),
        }
    }
    rendered
}

fn said(text: &str, images: &[Image]) -> Vec<Value> {
    let mut blocks: Vec<Value> = images.iter().map(image).collect();
    if !text.trim().is_empty() {
        blocks.push(json!({"type": "text", "text": text}));
    }
    blocks
}

fn image(image: &Image) -> Value {
    json!({
        "type": "image",
        "source": {"type": "base64", "media_type": image.mime_type, "data": image.base64()},
    })
}

fn result(tool: &ToolMessage) -> Value {
    let content = {
        let mut blocks = Vec::new();
        if !tool.text.trim().is_empty() {
            blocks.push(json!({"type": "text", "text": tool.text}));
        }
        blocks.extend(tool.images.iter().map(image));
        blocks
    };
    let mut block = json!({"type": "tool_result", "tool_use_id": tool.call_id});
    // The API refuses an empty text block; a result with nothing in it has no content at all.
    if !content.is_empty() {
        block["content"] = content.into();
    }
    if tool.is_error {
        block["is_error"] = true.into();
    }
    block
}

fn answered(assistant: &AssistantMessage) -> Vec<Value> {
    let anthropic = ProviderId::Anthropic.as_str();
    if let Some(replay) = assistant
        .replay
        .as_ref()
        .filter(|replay| replay.provider == anthropic)
    {
        return replay.items.clone();
    }
    let mut blocks = Vec::new();
    if !assistant.text.trim().is_empty() {
        blocks.push(json!({"type": "text", "text": assistant.text}));
    }
    blocks.extend(
        assistant
            .tool_calls
            .iter()
            .map(|call| tool_use(&call.call_id, &call.name, &call.arguments)),
    );
    blocks
}

fn tool_use(id: &str, name: &str, arguments: &str) -> Value {
    // The API takes an object only. What the model wrote is kept where the model can see it.
    let input = as_object(arguments).unwrap_or_else(|| json!({"unparseable_arguments": arguments}));
    json!({"type": "tool_use", "id": id, "name": sent_name(name), "input": input})
}

/// What has to be sent back next time, when the message's text and calls do not say it all.
pub(crate) fn replay(items: &[Item]) -> Option<Vec<Value>> {
    items
        .iter()
        .any(|item| matches!(item, Item::Kept(Value::Object(_))))
        .then(|| {
            items
                .iter()
                .filter_map(|item| match item {
                    Item::Text(text) => {
                        (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
                    }
                    Item::Call(call) => Some(tool_use(
                        call.id.as_deref().unwrap_or_default(),
                        &call.name,
                        &call.arguments,
                    )),
                    Item::Kept(kept) => kept.is_object().then(|| kept.clone()),
                })
                .collect()
        })
}
