//! The offline provider through its one door: a conversation in, calls or an answer out.

mod dialogues;
mod everyday;
mod plain;
mod random;
mod sentences;
mod turns;

use std::sync::Arc;

use fermix_types::ToolDefinition;
use fermix_types::{AssistantMessage, Message, ToolMessage, ToolName, UserMessage};
use futures_util::FutureExt as _;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::OfflineAdapter;
use crate::request::{
    Adapter, ChatRequest, ChatResponse, EventSink, ModelEvent, SystemPart, Unseen,
};

/// Name, description and schema of the tools a turn of the owner has.
const TOOLS: [(&str, &str, &str); 11] = [
    (
        "file_read",
        "Read a text file, or the text of a PDF, docx or xlsx. Long files come in pieces.",
        r#"{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":["integer","null"],"minimum":1},"limit":{"type":["integer","null"],"minimum":1}},"required":["path"]}"#,
    ),
    (
        "glob_search",
        "Find files by name.",
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":["string","null"]},"max_results":{"type":["integer","null"]}},"required":["pattern"]}"#,
    ),
    (
        "content_search",
        "Find text in files.",
        r#"{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":["string","null"]},"regex":{"type":["boolean","null"]},"max_results":{"type":["integer","null"]},"timeout_ms":{"type":["integer","null"]},"glob":{"type":["string","null"]},"respect_gitignore":{"type":["boolean","null"]},"context":{"type":["integer","null"]}},"required":["pattern"]}"#,
    ),
    (
        "file_write",
        "Create a text file, or replace the whole content of one.",
        r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"mkdir":{"type":["boolean","null"]}},"required":["path","content"]}"#,
    ),
    (
        "file_edit",
        "Replace one exact piece of a text file.",
        r#"{"type":"object","properties":{"path":{"type":"string"},"old_string":{"type":"string"},"new_string":{"type":"string"},"replace_all":{"type":["boolean","null"]}},"required":["path","old_string","new_string"]}"#,
    ),
    (
        "shell",
        "Run a command with `sh -c`.",
        r#"{"type":"object","properties":{"command":{"type":"string"},"working_dir":{"type":["string","null"]},"timeout_ms":{"type":["integer","null"]}},"required":["command"]}"#,
    ),
    (
        "tool_help",
        "Show how to use a tool: parameters, examples, failures.",
        r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#,
    ),
    (
        "tool_search",
        "Find a plugin or MCP tool by what it does.",
        r#"{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":["integer","null"]}},"required":["query"]}"#,
    ),
    (
        "tool_call",
        "Call a deferred tool by name.",
        r#"{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name","arguments"]}"#,
    ),
    CALENDAR,
    (
        "mail_send",
        "Send a mail to a recipient.",
        r#"{"type":"object","properties":{"to":{"type":"string","description":"Email address of the recipient."},"subject":{"type":"string"},"body":{"type":"string"}},"required":["to","subject","body"]}"#,
    ),
];

const CALENDAR: (&str, &str, &str) = (
    "calendar_create_event",
    "Create an event in the calendar.",
    r#"{"type":"object","properties":{"title":{"type":"string"},"start":{"type":"string","format":"date-time"},"attendees":{"type":"array","items":{"type":"string","format":"email"}}},"required":["title","start"]}"#,
);

const CATALOG: &str = "## Built-in Capability Catalog\n### File & Code\n`file_read` — You know the path.\n`glob_search` — x\n### System\n`shell` — Run programs.\n";

pub(super) fn tools(names: &[&str]) -> Arc<[ToolDefinition]> {
    TOOLS
        .iter()
        .filter(|(name, ..)| names.is_empty() || names.contains(name))
        .map(|(name, description, schema)| ToolDefinition {
            name: ToolName::new(name).unwrap(),
            description: (*description).into(),
            parameters: RawValue::from_string((*schema).to_owned()).unwrap().into(),
        })
        .collect()
}

fn user(text: &str) -> Message {
    Message::User(UserMessage {
        text: text.into(),
        images: Vec::new(),
    })
}

/// A conversation in which the owner has just said `text`.
pub(super) fn request(text: &str, tools: Arc<[ToolDefinition]>) -> ChatRequest {
    ChatRequest {
        model: "offline".into(),
        system: vec![SystemPart {
            text: CATALOG.into(),
            stable: true,
        }],
        messages: vec![
            user("read secrets.txt"),
            Message::Assistant(AssistantMessage {
                text: "Earlier answer.".into(),
                ..AssistantMessage::default()
            }),
            user(text),
        ],
        tools,
        calls: crate::request::Calls::Allowed,
        effort: None,
        max_output_tokens: None,
        temperature: None,
        cache_key: "k".into(),
    }
}

/// The response, which takes no time.
pub(super) fn respond(request: &ChatRequest, events: &mut dyn EventSink) -> ChatResponse {
    OfflineAdapter
        .chat(request, events, &CancellationToken::new())
        .now_or_never()
        .unwrap()
        .unwrap()
}

/// The calls of a response, one a line.
pub(super) fn calls(response: &ChatResponse) -> Vec<String> {
    response
        .message
        .tool_calls
        .iter()
        .map(|call| format!("{} {}", call.name, call.arguments))
        .collect()
}

/// Appends the response and the result of each of its calls.
pub(super) fn append(
    request: &mut ChatRequest,
    response: &ChatResponse,
    mut result: impl FnMut(&str, &str) -> (String, bool),
) {
    request
        .messages
        .push(Message::Assistant(response.message.clone()));
    for call in &response.message.tool_calls {
        let (text, is_error) = result(&call.name, &call.arguments);
        request.messages.push(Message::Tool(ToolMessage {
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            text,
            images: Vec::new(),
            is_error,
        }));
    }
}

/// Every event of a call.
#[derive(Default)]
struct Seen(Vec<ModelEvent>);

impl EventSink for Seen {
    fn emit(&mut self, event: ModelEvent) {
        self.0.push(event);
    }
}

/// The call that tells which folder a turn works in.
const HERE: &str = r#"glob_search {"pattern":"*","max_results":1}"#;

/// A call, and what the tool answers; answers that begin with `Error` are failures.
pub(super) type Script<'a> = &'a [(&'a str, &'a str)];

/// Plays a turn in which exactly the calls of `script` are made, and returns the answer.
pub(super) fn play_in(mut request: ChatRequest, script: Script<'_>) -> String {
    let mut made = 0;
    loop {
        let response = respond(&request, &mut Unseen);
        if response.message.tool_calls.is_empty() {
            assert_eq!(
                made,
                script.len(),
                "calls that were not made: {}",
                response.message.text
            );
            return response.message.text;
        }
        // Unless a script says otherwise, turns work in `/w`.
        let in_script = script[made..].iter().any(|(call, _)| *call == HERE);
        let scripted = |call: &str| call != HERE || in_script;
        for call in calls(&response).iter().filter(|call| scripted(call)) {
            let expected = script.get(made).map_or("no call", |(call, _)| *call);
            assert_eq!(call, expected);
            made += 1;
        }
        made -= calls(&response)
            .iter()
            .filter(|call| scripted(call))
            .count();
        append(&mut request, &response, |name, arguments| {
            if !scripted(&format!("{name} {arguments}")) {
                return ("[\"/w/x\"]".to_owned(), false);
            }
            let (_, text) = script[made];
            made += 1;
            (text.to_owned(), text.starts_with("Error"))
        });
    }
}

pub(super) fn play(text: &str, script: Script<'_>) -> String {
    play_in(request(text, tools(&[])), script)
}
