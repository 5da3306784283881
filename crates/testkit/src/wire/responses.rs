//! The Responses stream: numbered events around output items.

use serde_json::{Value, json};

use super::{Ids, Issued, Rendered, named, pieces};
use crate::request::Seen;
use crate::script::{Reply, ScriptedCall, TokenCounts};

pub(super) fn render(
    reply: &Reply,
    usage: Option<TokenCounts>,
    ids: &Ids,
    seen: &Seen,
) -> Rendered {
    let mut stream = Stream {
        events: Vec::new(),
        output: Vec::new(),
        ids,
    };
    let mut issued = Issued::default();
    let response = |status: &str, output: &[Value]| {
        json!({
            "id": ids.response(), "object": "response", "created_at": 1_767_225_600,
            "status": status, "model": seen.model, "output": output,
            "error": null, "incomplete_details": null, "usage": null,
        })
    };
    for kind in ["response.created", "response.in_progress"] {
        stream.push(kind, json!({"response": response("in_progress", &[])}));
    }
    if !reply.reasoning.is_empty() {
        stream.reasoning(&reply.reasoning);
    }
    if let Some(text) = &reply.text {
        stream.message(text);
    }
    for (position, call) in reply.calls.iter().enumerate() {
        let call_id = (!reply.without_call_ids).then(|| ids.item("call", position));
        stream.call(call, position, call_id.as_deref());
        issued.call_ids.extend(call_id);
    }
    let (kind, status) = match (&reply.failure, reply.truncated || reply.declined) {
        (Some(_), _) => ("response.failed", "failed"),
        (None, true) => ("response.incomplete", "incomplete"),
        (None, false) => ("response.completed", "completed"),
    };
    let mut last = response(status, &stream.output);
    if let Some(failure) = &reply.failure {
        last["error"] = json!({"code": "server_error", "message": failure});
    } else if reply.declined {
        last["incomplete_details"] = json!({"reason": "content_filter"});
    } else if reply.truncated {
        last["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    if let Some(counts) = usage {
        last["usage"] = json!({
            "input_tokens": counts.prompt,
            "output_tokens": counts.completion,
            "total_tokens": counts.prompt + counts.completion,
        });
        if let Some(cached) = counts.cached {
            last["usage"]["input_tokens_details"] = json!({"cached_tokens": cached});
        }
    }
    stream.push(kind, json!({"response": last}));
    Rendered {
        events: stream.events,
        issued,
    }
}

struct Stream<'a> {
    events: Vec<String>,
    output: Vec<Value>,
    ids: &'a Ids,
}

impl Stream<'_> {
    fn push(&mut self, kind: &str, mut data: Value) {
        data["sequence_number"] = self.events.len().into();
        self.events.push(named(kind, data));
    }

    fn open(&mut self, item: &Value) -> usize {
        let index = self.output.len();
        self.push(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
        );
        index
    }

    fn close(&mut self, item: Value) {
        let index = self.output.len();
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
        self.output.push(item);
    }

    fn reasoning(&mut self, thoughts: &[String]) {
        let id = self.ids.item("rs", 0);
        let index = self.open(&json!({"id": id, "type": "reasoning", "summary": []}));
        let whole = thoughts.concat();
        let place = |mut data: Value| {
            data["item_id"] = id.clone().into();
            data["output_index"] = index.into();
            data["summary_index"] = 0.into();
            data
        };
        let part = |text: &str| json!({"part": {"type": "summary_text", "text": text}});
        self.push("response.reasoning_summary_part.added", place(part("")));
        for thought in thoughts {
            self.push(
                "response.reasoning_summary_text.delta",
                place(json!({"delta": thought})),
            );
        }
        self.push(
            "response.reasoning_summary_text.done",
            place(json!({"text": whole})),
        );
        self.push("response.reasoning_summary_part.done", place(part(&whole)));
        self.close(json!({
            "id": id, "type": "reasoning",
            "summary": [{"type": "summary_text", "text": whole}],
            "encrypted_content": self.ids.item("sealed", 0),
        }));
    }

    fn message(&mut self, text: &str) {
        let id = self.ids.item("msg", 0);
        let item = |status: &str, content: Value| {
            json!({
                "id": id, "type": "message", "role": "assistant",
                "status": status, "content": content,
            })
        };
        let index = self.open(&item("in_progress", json!([])));
        let place = |mut data: Value| {
            data["item_id"] = id.clone().into();
            data["output_index"] = index.into();
            data["content_index"] = 0.into();
            data
        };
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        self.push(
            "response.content_part.added",
            place(json!({"part": part("")})),
        );
        for piece in pieces(text) {
            self.push("response.output_text.delta", place(json!({"delta": piece})));
        }
        self.push("response.output_text.done", place(json!({"text": text})));
        self.push(
            "response.content_part.done",
            place(json!({"part": part(text)})),
        );
        self.close(item("completed", json!([part(text)])));
    }

    fn call(&mut self, call: &ScriptedCall, position: usize, call_id: Option<&str>) {
        let id = self.ids.item("fc", position);
        let item = |status: &str, arguments: &str| {
            let mut item = json!({
                "id": id, "type": "function_call", "status": status,
                "name": call.name, "arguments": arguments,
            });
            if let Some(call_id) = call_id {
                item["call_id"] = call_id.into();
            }
            item
        };
        let index = self.open(&item("in_progress", ""));
        for piece in pieces(&call.arguments) {
            self.push(
                "response.function_call_arguments.delta",
                json!({"item_id": id, "output_index": index, "delta": piece}),
            );
        }
        self.push(
            "response.function_call_arguments.done",
            json!({"item_id": id, "output_index": index, "arguments": call.arguments}),
        );
        self.close(item("completed", &call.arguments));
    }
}
