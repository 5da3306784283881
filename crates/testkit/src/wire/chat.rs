//! The Chat Completions stream: nameless chunks, `[DONE]` at the end.

use serde_json::{Value, json};

use super::{Ids, Issued, Rendered, pieces, unnamed};
use crate::request::Seen;
use crate::script::{Reply, TokenCounts};

pub(super) fn render(
    reply: &Reply,
    usage: Option<TokenCounts>,
    ids: &Ids,
    seen: &Seen,
) -> Rendered {
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl_{:06}", ids.request),
            "object": "chat.completion.chunk",
            "created": 1_767_225_600,
            "model": seen.model,
            "choices": choices,
        })
    };
    let delta = |delta: Value| {
        unnamed(&chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": null}]),
        ))
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}))];
    let mut issued = Issued::default();
    for thought in &reply.reasoning {
        events.push(delta(json!({"reasoning_content": thought})));
    }
    if let Some(text) = &reply.text {
        events.extend(
            pieces(text)
                .into_iter()
                .map(|piece| delta(json!({"content": piece}))),
        );
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let mut opening = json!({
            "index": index, "type": "function",
            "function": {"name": call.name, "arguments": ""},
        });
        if !reply.without_call_ids {
            let id = ids.item("call", index);
            opening["id"] = id.clone().into();
            issued.call_ids.push(id);
        }
        events.push(delta(json!({"tool_calls": [opening]})));
        for piece in pieces(&call.arguments) {
            let part = json!({"index": index, "function": {"arguments": piece}});
            events.push(delta(json!({"tool_calls": [part]})));
        }
    }
    if let Some(failure) = &reply.failure {
        // Routers report a failed upstream this way, in the middle of a stream that began with 200.
        events.push(unnamed(
            &json!({"error": {"code": 502, "message": failure}}),
        ));
        return Rendered { events, issued };
    }
    let finish = match (reply.truncated, reply.calls.is_empty()) {
        _ if reply.declined => "content_filter",
        (true, _) => "length",
        (false, false) => "tool_calls",
        (false, true) => "stop",
    };
    events.push(unnamed(&chunk(
        json!([{"index": 0, "delta": {}, "finish_reason": finish}]),
    )));
    if let Some(counts) = usage
        && seen.body["stream_options"]["include_usage"] == true
    {
        let mut last = chunk(json!([]));
        last["usage"] = json!({
            "prompt_tokens": counts.prompt,
            "completion_tokens": counts.completion,
            "total_tokens": counts.prompt + counts.completion,
        });
        if let Some(cached) = counts.cached {
            last["usage"]["prompt_tokens_details"] = json!({"cached_tokens": cached});
        }
        events.push(unnamed(&last));
    }
    events.push("data: [DONE]\n\n".to_owned());
    Rendered { events, issued }
}
