//! A small HTTP client that shows the bytes as they are, broken endings included.

use std::net::SocketAddr;
use std::time::Duration;

use fermix_testkit::{FakeModel, Wire};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// No answer of these tests takes longer unless something hangs.
const DEADLINE: Duration = Duration::from_secs(20);

/// An answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
    /// Whether the body ended the way HTTP says.
    pub complete: bool,
}

impl Answer {
    /// The data of every event that is JSON, in order.
    pub fn events(&self) -> Vec<Value> {
        self.body
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
            .collect()
    }
}

/// Opens a connection and sends a request, without waiting for the answer.
pub async fn open(address: SocketAddr, path: &str, body: &str) -> TcpStream {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test speaks to its own loopback server"
    )]
    let mut stream = TcpStream::connect(address)
        .await
        .expect("the fake model listens");
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: fake\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
         anthropic-version: 2023-06-01\r\nx-trace: 7\r\ncontent-length: {}\r\n\r\n{body}",
        FakeModel::KEY,
        body.len(),
    );
    stream
        .write_all(request.as_bytes())
        .await
        .expect("loopback takes the request");
    stream
}

/// Sends a request and reads the whole answer.
pub async fn post(model: &FakeModel, path: &str, body: &Value) -> Answer {
    post_text(model, path, &body.to_string()).await
}

/// The same with a body that need not be JSON.
pub async fn post_text(model: &FakeModel, path: &str, body: &str) -> Answer {
    let mut stream = open(model.address(), path, body).await;
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut bytes)).await;
    read.expect("the answer ends").ok();
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let (head, rest) = text.split_once("\r\n\r\n").expect("an answer has a head");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .expect("a status");
    if !head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        return Answer {
            status,
            head: head.to_owned(),
            body: rest.to_owned(),
            complete: true,
        };
    }
    let (mut body, mut rest, mut complete) = (String::new(), rest, false);
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        if size == 0 {
            complete = true;
            break;
        }
        let Some(chunk) = tail.get(..size) else { break };
        body.push_str(chunk);
        rest = tail.get(size + 2..).unwrap_or_default();
    }
    Answer {
        status,
        head: head.to_owned(),
        body,
        complete,
    }
}

/// The path of a wire below the base URL.
pub fn path(wire: Wire) -> String {
    format!("/v1{}", wire.path())
}

/// A tool in the form of a wire.
pub fn tool(wire: Wire, name: &str, schema: &Value) -> Value {
    let about = "Reads a file.";
    match wire {
        Wire::Responses => json!({
            "type": "function", "name": name, "description": about,
            "parameters": schema, "strict": false,
        }),
        Wire::Chat => json!({
            "type": "function",
            "function": {"name": name, "description": about, "parameters": schema},
        }),
        Wire::Messages => json!({"name": name, "description": about, "input_schema": schema}),
    }
}

/// A plain schema for a path.
pub fn path_schema() -> Value {
    json!({
        "type": "object", "properties": {"path": {"$ref": "#/$defs/path"}},
        "required": ["path"], "$defs": {"path": {"type": "string"}},
    })
}

/// A faultless request of a wire: one system text, one tool, these messages.
pub fn request(wire: Wire, messages: &[Value]) -> Value {
    let tools = json!([tool(wire, "file_read", &path_schema())]);
    match wire {
        Wire::Responses => json!({
            "model": "m", "stream": true, "instructions": "Be brief.", "input": messages,
            "tools": tools, "prompt_cache_key": "c1",
        }),
        Wire::Chat => {
            let mut all = vec![json!({"role": "system", "content": "Be brief."})];
            all.extend_from_slice(messages);
            json!({
                "model": "m", "stream": true, "stream_options": {"include_usage": true},
                "messages": all, "tools": tools, "prompt_cache_key": "c1",
            })
        }
        Wire::Messages => json!({
            "model": "m", "stream": true, "max_tokens": 100,
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": messages, "tools": tools,
        }),
    }
}

/// What the user says, in the form of a wire.
pub fn user(wire: Wire, text: &str) -> Value {
    match wire {
        Wire::Responses => {
            json!({"role": "user", "content": [{"type": "input_text", "text": text}]})
        }
        Wire::Chat => json!({"role": "user", "content": text}),
        Wire::Messages => json!({"role": "user", "content": [{"type": "text", "text": text}]}),
    }
}

/// What the assistant said, in the form of a wire.
pub fn assistant(wire: Wire, text: &str) -> Value {
    match wire {
        Wire::Responses => json!({
            "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": text}],
        }),
        Wire::Chat => json!({"role": "assistant", "content": text}),
        Wire::Messages => {
            json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
        }
    }
}

/// An assistant step that makes these calls.
pub fn step(wire: Wire, ids: &[&str]) -> Vec<Value> {
    let arguments = r#"{"path":"a"}"#;
    match wire {
        Wire::Responses => ids
            .iter()
            .map(|id| {
                json!({
                    "type": "function_call", "call_id": id, "name": "file_read",
                    "arguments": arguments,
                })
            })
            .collect(),
        Wire::Chat => {
            let calls: Vec<Value> = ids
                .iter()
                .map(|id| {
                    json!({
                        "id": id, "type": "function",
                        "function": {"name": "file_read", "arguments": arguments},
                    })
                })
                .collect();
            vec![json!({"role": "assistant", "tool_calls": calls})]
        }
        Wire::Messages => {
            let calls: Vec<Value> = ids
                .iter()
                .map(|id| {
                    json!({
                        "type": "tool_use", "id": id, "name": "file_read", "input": {"path": "a"},
                    })
                })
                .collect();
            vec![json!({"role": "assistant", "content": calls})]
        }
    }
}

/// The answers to these calls.
pub fn results(wire: Wire, ids: &[&str]) -> Vec<Value> {
    let text = "hello";
    match wire {
        Wire::Responses => ids
            .iter()
            .map(|id| json!({"type": "function_call_output", "call_id": id, "output": text}))
            .collect(),
        Wire::Chat => ids
            .iter()
            .map(|id| json!({"role": "tool", "tool_call_id": id, "content": text}))
            .collect(),
        Wire::Messages => {
            let blocks: Vec<Value> = ids
                .iter()
                .map(|id| {
                    json!({
                        "type": "tool_result", "tool_use_id": id,
                        "content": [{"type": "text", "text": text}],
                    })
                })
                .collect();
            vec![json!({"role": "user", "content": blocks})]
        }
    }
}
