//! The Responses wire: OpenAI, ChatGPT sign-in and xAI.
//!
//! Nothing is stored server-side; the whole item list goes out each time. Reasoning travels
//! encrypted and comes back as it came, without the ids that only a storing server could resolve.

mod decode;
mod schema;

use std::borrow::Cow;

use fermix_types::{AssistantMessage, Effort, Image, Message, ToolMessage};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(crate) use decode::Decoder;

use super::{Item, data_uri, image_caption, sent_name};
use crate::catalog::ModelFacts;
use crate::request::{ChatRequest, ProviderId};

/// What differs between the vendors that speak this wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub provider: ProviderId,
    /// Ask for the faster, dearer service (ChatGPT sign-in only).
    pub fast: bool,
}

/// What a sign-in request without a system prompt says, because the field may not be empty.
const INSTRUCTIONS: &str = "Answer the user.";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    store: bool,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    prompt_cache_key: &'a str,
    input: Vec<Value>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, RawValue>,
    strict: bool,
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

/// The request's body. Temperature is never sent: the models of this wire answer 400 to it.
pub(crate) fn body(
    request: &ChatRequest,
    facts: &ModelFacts,
    effort: Option<Effort>,
    dialect: Dialect,
) -> Vec<u8> {
    let codex = dialect.provider == ProviderId::OpenaiCodex;
    let xai = dialect.provider == ProviderId::Xai;
    let mut instructions = request.instructions();
    if codex && instructions.is_empty() {
        instructions.push_str(INSTRUCTIONS);
    }
    let has_tools = !request.tools.is_empty();
    let summary = codex.then_some("auto");
    let body = Body {
        model: &request.model,
        // Nothing is stored, so they are sent again every time.
        instructions: (!instructions.is_empty()).then_some(instructions),
        tools: request
            .tools
            .iter()
            .map(|tool| Tool {
                r#type: "function",
                name: tool.name.as_str(),
                description: &tool.description,
                parameters: if xai {
                    schema::without_slashes(&tool.parameters)
                } else {
                    Cow::Borrowed(&tool.parameters)
                },
                strict: false,
            })
            .collect(),
        tool_choice: has_tools.then_some("auto"),
        parallel_tool_calls: has_tools.then_some(true),
        store: false,
        stream: true,
        include: facts.reasoning.then_some(["reasoning.encrypted_content"]),
        reasoning: (effort.is_some() || summary.is_some()).then_some(Reasoning { effort, summary }),
        service_tier: (codex && dialect.fast).then_some("priority"),
        // The sign-in endpoint answers 400 to a limit.
        max_output_tokens: if codex {
            None
        } else {
            request.max_output_tokens
        },
        prompt_cache_key: &request.cache_key,
        input: input(&request.messages, dialect.provider),
    };
    serde_json::to_vec(&body).expect("plain data with string keys always serialises")
}

fn input(messages: &[Message], provider: ProviderId) -> Vec<Value> {
    let mut items = Vec::with_capacity(messages.len());
    let mut seen: Vec<&ToolMessage> = Vec::new();
    for message in messages {
        match message {
            Message::Tool(tool) => {
                items.push(json!({"type": "function_call_output", "call_id": tool.call_id, "output": tool.text}));
                if !tool.images.is_empty() {
                    seen.push(tool);
                }
                continue;
            }
            Message::User(_) | Message::Assistant(_) => items.extend(pictures(&mut seen)),
        }
        match message {
            Message::User(user) => items.extend(said(&user.text, &user.images)),
            Message::Assistant(assistant) => answered(assistant, provider, &mut items),
            Message::Tool(_) => {}
        }
    }
    items.extend(pictures(&mut seen));
    items
}

/// The images of a run of results, as one message after all of its outputs.
fn pictures(seen: &mut Vec<&ToolMessage>) -> Option<Value> {
    let mut content = Vec::new();
    for tool in seen.drain(..) {
        content.push(json!({"type": "input_text", "text": image_caption(tool)}));
        content.extend(tool.images.iter().map(image));
    }
    (!content.is_empty()).then(|| json!({"type": "message", "role": "user", "content": content}))
}

fn said(text: &str, images: &[Image]) -> Option<Value> {
    let mut content = Vec::new();
    if !text.trim().is_empty() {
        content.push(json!({"type": "input_text", "text": text}));
    }
    content.extend(images.iter().map(image));
    (!content.is_empty()).then(|| json!({"type": "message", "role": "user", "content": content}))
}

fn image(image: &Image) -> Value {
    json!({"type": "input_image", "image_url": data_uri(image)})
}

fn answered(assistant: &AssistantMessage, provider: ProviderId, items: &mut Vec<Value>) {
    if let Some(replay) = assistant
        .replay
        .as_ref()
        .filter(|replay| replay.provider == provider.as_str())
    {
        items.extend(replay.items.iter().cloned());
        return;
    }
    if !assistant.text.trim().is_empty() {
        items.push(text_item(&assistant.text));
    }
    for call in &assistant.tool_calls {
        items.push(call_item(&call.call_id, &call.name, &call.arguments));
    }
}

fn text_item(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn call_item(call_id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": call_id, "name": sent_name(name), "arguments": arguments})
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
                    Item::Text(text) => (!text.trim().is_empty()).then(|| text_item(text)),
                    Item::Call(call) => Some(call_item(
                        call.id.as_deref().unwrap_or_default(),
                        &call.name,
                        &call.arguments,
                    )),
                    Item::Kept(kept) => kept.is_object().then(|| kept.clone()),
                })
                .collect()
        })
}
