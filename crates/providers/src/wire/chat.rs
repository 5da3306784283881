//! The Chat Completions wire: OpenRouter, Mistral, Ollama, any compatible server, and OpenAI
//! models that the Responses wire does not serve.

mod decode;

use std::borrow::Cow;

use fermix_types::{Effort, Image, Message, ToolMessage};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub(crate) use decode::Decoder;

use super::{data_uri, image_caption, sent_name};
use crate::catalog::ModelFacts;
use crate::request::{ChatRequest, ProviderId};

/// What differs between the servers that speak this wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub provider: ProviderId,
    /// Whether the address is the vendor's own, which takes the vendor's own fields.
    pub own_address: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

/// The request's body.
pub(crate) fn body(
    request: &ChatRequest,
    facts: &ModelFacts,
    effort: Option<Effort>,
    dialect: Dialect,
) -> Vec<u8> {
    let openai = dialect.provider == ProviderId::Openai;
    let mistral = dialect.provider == ProviderId::Mistral;
    let limit = request.max_output_tokens;
    let body = Body {
        model: &request.model,
        stream: true,
        // Mistral reports usage unasked and refuses fields it does not know.
        stream_options: (!mistral).then_some(StreamOptions {
            include_usage: true,
        }),
        temperature: request.temperature.filter(|_| facts.temperature),
        max_tokens: limit.filter(|_| !openai),
        max_completion_tokens: limit.filter(|_| openai),
        reasoning_effort: effort.filter(|_| openai),
        prompt_cache_key: (openai && dialect.own_address && !request.cache_key.is_empty())
            .then_some(request.cache_key.as_str()),
        tools: request
            .tools
            .iter()
            .map(|tool| Tool {
                r#type: "function",
                function: Function {
                    name: tool.name.as_str(),
                    description: &tool.description,
                    parameters: &tool.parameters,
                },
            })
            .collect(),
        messages: messages(request, mistral),
    };
    serde_json::to_vec(&body).expect("plain data with string keys always serialises")
}

fn messages(request: &ChatRequest, short_ids: bool) -> Vec<Value> {
    let call_id = |id: &str| {
        if short_ids {
            short_id(id).into_owned()
        } else {
            id.to_owned()
        }
    };
    let mut rendered = Vec::with_capacity(request.messages.len() + 1);
    let instructions = request.instructions();
    if !instructions.is_empty() {
        // One message, not one a part: chat templates of local models accept a system message in
        // first place only.
        rendered.push(json!({"role": "system", "content": instructions}));
    }
    let mut seen: Vec<&ToolMessage> = Vec::new();
    for message in &request.messages {
        match message {
            Message::Tool(tool) => {
                rendered.push(json!({
                    "role": "tool", "tool_call_id": call_id(&tool.call_id), "content": tool.text,
                }));
                if !tool.images.is_empty() {
                    seen.push(tool);
                }
                continue;
            }
            Message::User(_) | Message::Assistant(_) => rendered.extend(pictures(&mut seen)),
        }
        match message {
            Message::User(user) => rendered.extend(said(&user.text, &user.images)),
            Message::Assistant(assistant) => {
                let mut entry = json!({"role": "assistant"});
                // Mistral answers 422 to an empty content beside calls, and nobody needs it.
                if !assistant.text.trim().is_empty() {
                    entry["content"] = assistant.text.as_str().into();
                }
                if !assistant.tool_calls.is_empty() {
                    let calls = assistant.tool_calls.iter().map(|call| {
                        json!({
                            "id": call_id(&call.call_id), "type": "function",
                            "function": {"name": sent_name(&call.name), "arguments": call.arguments},
                        })
                    });
                    entry["tool_calls"] = calls.collect();
                }
                // A message with neither would be refused, and tells the model nothing.
                if entry.as_object().is_some_and(|members| members.len() > 1) {
                    rendered.push(entry);
                }
            }
            Message::Tool(_) => {}
        }
    }
    rendered.extend(pictures(&mut seen));
    rendered
}

/// The images of a run of results, as one message after all of them.
fn pictures(seen: &mut Vec<&ToolMessage>) -> Option<Value> {
    let mut content = Vec::new();
    for tool in seen.drain(..) {
        content.push(json!({"type": "text", "text": image_caption(tool)}));
        content.extend(tool.images.iter().map(image));
    }
    (!content.is_empty()).then(|| json!({"role": "user", "content": content}))
}

fn said(text: &str, images: &[Image]) -> Option<Value> {
    if images.is_empty() {
        return (!text.trim().is_empty()).then(|| json!({"role": "user", "content": text}));
    }
    let mut content = Vec::new();
    if !text.trim().is_empty() {
        content.push(json!({"type": "text", "text": text}));
    }
    content.extend(images.iter().map(image));
    Some(json!({"role": "user", "content": content}))
}

fn image(image: &Image) -> Value {
    json!({"type": "image_url", "image_url": {"url": data_uri(image)}})
}

/// Mistral takes ids of exactly nine letters and digits. Its own pass; any other becomes the
/// start of its digest, the same every time.
fn short_id(id: &str) -> Cow<'_, str> {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(hex::encode(Sha256::digest(id))[..9].to_owned())
    }
}
