//! One request to the fake model, read back from its wire into neutral terms.

use std::collections::BTreeMap;

use base64::Engine as _;
use bytes::Bytes;
use fermix_types::{Image, ToolCall};
use serde_json::Value;

/// The form of a conversation on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wire {
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Anthropic Messages.
    Messages,
}

impl Wire {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Responses, Self::Chat, Self::Messages];

    /// The wire served at `path`, with or without a leading `/v1`.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path.strip_prefix("/v1").unwrap_or(path) {
            "/responses" | CODEX_PATH => Some(Self::Responses),
            "/chat/completions" => Some(Self::Chat),
            "/messages" => Some(Self::Messages),
            _ => None,
        }
    }

    /// The path below `/v1`.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Responses => "/responses",
            Self::Chat => "/chat/completions",
            Self::Messages => "/messages",
        }
    }
}

/// Where ChatGPT subscriptions speak the Responses wire.
pub(crate) const CODEX_PATH: &str = "/backend-api/codex/responses";

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions inside the message list (Chat Completions, `developer` items).
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool's answer.
    Tool,
}

/// One message in neutral terms. Blocks and items of one assistant step are one message.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenMessage {
    /// Who speaks.
    pub role: Role,
    /// The text blocks, joined by line breaks.
    pub text: String,
    /// What an assistant message asks for.
    pub calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    pub call_id: Option<String>,
    /// The decoded images.
    pub images: Vec<Image>,
}

impl SeenMessage {
    fn new(role: Role, text: String) -> Self {
        Self {
            role,
            text,
            calls: Vec::new(),
            call_id: None,
            images: Vec::new(),
        }
    }
}

/// One tool the model is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenTool {
    /// The name on the wire.
    pub name: String,
    /// What the model reads about it.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: Value,
}

/// One request as the fake model saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Counts from 0 over the life of the server.
    pub number: usize,
    /// The wire it came over.
    pub wire: Wire,
    /// The path of the URL.
    pub path: String,
    /// The model it asks for.
    pub model: String,
    /// The leading system text; blocks are joined by blank lines.
    pub system: String,
    /// Everything after the leading system text.
    pub messages: Vec<SeenMessage>,
    /// The tools on offer.
    pub tools: Vec<SeenTool>,
    /// `prompt_cache_key`, when sent.
    pub cache_key: Option<String>,
    /// Headers by lower-case name, without the ones that carry a secret.
    pub headers: BTreeMap<String, String>,
    /// Whether the key was the expected one, or any key came when none is expected.
    pub authorized: bool,
    /// The key as it was sent.
    pub key: Option<String>,
    /// The body, parsed; `null` when it is no JSON.
    pub body: Value,
    /// The body as it came.
    pub raw: Bytes,
}

impl Seen {
    /// The names of the tools on offer, in order.
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    /// Every tool answer in the conversation, in order.
    pub fn results(&self) -> impl DoubleEndedIterator<Item = &SeenMessage> {
        self.messages
            .iter()
            .filter(|message| message.role == Role::Tool)
    }

    /// The tool answers that follow the last assistant message.
    pub fn last_results(&self) -> Vec<&SeenMessage> {
        let start = self
            .messages
            .iter()
            .rposition(|message| message.role == Role::Assistant)
            .map_or(0, |position| position + 1);
        self.messages[start..]
            .iter()
            .filter(|message| message.role == Role::Tool)
            .collect()
    }

    /// The text of the last user message, or nothing.
    pub fn last_user(&self) -> &str {
        self.messages
            .iter()
            .rfind(|message| message.role == Role::User)
            .map_or("", |message| message.text.as_str())
    }

    /// The text of the answer to `call_id`.
    pub fn result_of(&self, call_id: &str) -> Option<&str> {
        self.results()
            .find(|message| message.call_id.as_deref() == Some(call_id))
            .map(|message| message.text.as_str())
    }
}

/// What a body says in neutral terms; unreadable parts are left out, the checks report them.
pub(crate) struct Parsed {
    pub(crate) system: String,
    pub(crate) messages: Vec<SeenMessage>,
    pub(crate) tools: Vec<SeenTool>,
}

pub(crate) fn parse(wire: Wire, body: &Value) -> Parsed {
    let (mut system, items) = match wire {
        Wire::Responses => (text_of(&body["instructions"]), list(&body["input"])),
        Wire::Chat => (String::new(), list(&body["messages"])),
        Wire::Messages => (
            blocks_joined(&body["system"], "\n\n"),
            list(&body["messages"]),
        ),
    };
    let mut messages: Vec<SeenMessage> = Vec::new();
    for item in items {
        match wire {
            Wire::Responses => read_item(item, &mut messages),
            Wire::Chat => read_chat_message(item, &mut messages),
            Wire::Messages => read_message_blocks(item, &mut messages),
        }
    }
    let leading = messages
        .iter()
        .take_while(|message| message.role == Role::System)
        .count();
    for message in messages.drain(..leading) {
        if !system.is_empty() {
            system.push_str("\n\n");
        }
        system.push_str(&message.text);
    }
    if let (Wire::Responses, Some(text)) = (wire, body["input"].as_str()) {
        messages.push(SeenMessage::new(Role::User, text.to_owned()));
    }
    Parsed {
        system,
        messages,
        tools: list(&body["tools"])
            .iter()
            .map(|t| read_tool(wire, t))
            .collect(),
    }
}

fn read_tool(wire: Wire, tool: &Value) -> SeenTool {
    let (fields, schema) = match wire {
        Wire::Responses => (tool, &tool["parameters"]),
        Wire::Chat => (&tool["function"], &tool["function"]["parameters"]),
        Wire::Messages => (tool, &tool["input_schema"]),
    };
    SeenTool {
        name: text_of(&fields["name"]),
        description: text_of(&fields["description"]),
        schema: schema.clone(),
    }
}

/// Adds a Responses item; the items of one model step become one assistant message.
fn read_item(item: &Value, messages: &mut Vec<SeenMessage>) {
    match item["type"].as_str().unwrap_or("message") {
        "function_call" => {
            let call = ToolCall {
                call_id: text_of(&item["call_id"]),
                name: text_of(&item["name"]),
                arguments: text_of(&item["arguments"]),
            };
            assistant_step(messages).calls.push(call);
        }
        "function_call_output" => {
            let output = &item["output"];
            messages.push(SeenMessage {
                call_id: Some(text_of(&item["call_id"])),
                images: images_of(output),
                ..SeenMessage::new(Role::Tool, blocks_joined(output, "\n"))
            });
        }
        "message" => {
            let text = blocks_joined(&item["content"], "\n");
            if item["role"] == "assistant" {
                let step = assistant_step(messages);
                if !step.text.is_empty() {
                    step.text.push('\n');
                }
                step.text.push_str(&text);
            } else {
                messages.push(SeenMessage {
                    images: images_of(&item["content"]),
                    ..SeenMessage::new(role_of(item), text)
                });
            }
        }
        // Reasoning and vendor items carry nothing a script would look at.
        _ => {}
    }
}

fn assistant_step(messages: &mut Vec<SeenMessage>) -> &mut SeenMessage {
    if messages
        .last()
        .is_none_or(|message| message.role != Role::Assistant)
    {
        messages.push(SeenMessage::new(Role::Assistant, String::new()));
    }
    messages
        .last_mut()
        .expect("one was pushed if there was none")
}

fn read_chat_message(item: &Value, messages: &mut Vec<SeenMessage>) {
    let calls = list(&item["tool_calls"])
        .iter()
        .map(|call| ToolCall {
            call_id: text_of(&call["id"]),
            name: text_of(&call["function"]["name"]),
            arguments: text_of(&call["function"]["arguments"]),
        })
        .collect();
    messages.push(SeenMessage {
        calls,
        call_id: item["tool_call_id"].as_str().map(str::to_owned),
        images: images_of(&item["content"]),
        ..SeenMessage::new(role_of(item), blocks_joined(&item["content"], "\n"))
    });
}

/// Splits a Messages turn into its tool answers and what is left of it.
fn read_message_blocks(item: &Value, messages: &mut Vec<SeenMessage>) {
    let content = &item["content"];
    let mut rest = SeenMessage {
        images: images_of(content),
        ..SeenMessage::new(role_of(item), blocks_joined(content, "\n"))
    };
    let mut results = 0;
    for block in list(content) {
        match block["type"].as_str() {
            Some("tool_use") => rest.calls.push(ToolCall {
                call_id: text_of(&block["id"]),
                name: text_of(&block["name"]),
                arguments: block["input"].to_string(),
            }),
            Some("tool_result") => {
                results += 1;
                messages.push(SeenMessage {
                    call_id: Some(text_of(&block["tool_use_id"])),
                    images: images_of(&block["content"]),
                    ..SeenMessage::new(Role::Tool, blocks_joined(&block["content"], "\n"))
                });
            }
            _ => {}
        }
    }
    if results == 0 || !rest.text.is_empty() || !rest.images.is_empty() {
        messages.push(rest);
    }
}

fn role_of(item: &Value) -> Role {
    match item["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => Role::User,
    }
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A string, or the texts of a block array.
fn blocks_joined(content: &Value, separator: &str) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let texts: Vec<&str> = list(content)
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect();
    texts.join(separator)
}

fn images_of(content: &Value) -> Vec<Image> {
    list(content).iter().filter_map(image_of).collect()
}

fn image_of(block: &Value) -> Option<Image> {
    let (mime_type, data) = match block["type"].as_str()? {
        "image" => (
            block["source"]["media_type"].as_str()?,
            block["source"]["data"].as_str()?,
        ),
        "input_image" => data_uri(block["image_url"].as_str()?)?,
        "image_url" => data_uri(block["image_url"]["url"].as_str()?)?,
        _ => return None,
    };
    let data = base64::engine::general_purpose::STANDARD
        .decode(data)
        .ok()?;
    Some(Image {
        mime_type: mime_type.to_owned(),
        data: Bytes::from(data),
    })
}

fn data_uri(uri: &str) -> Option<(&str, &str)> {
    uri.strip_prefix("data:")?.split_once(";base64,")
}
