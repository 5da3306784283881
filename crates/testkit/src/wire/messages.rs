//! The Messages stream: content blocks that start, grow and stop.

use serde_json::{Value, json};

use super::{Ids, Issued, Rendered, named, pieces};
use crate::request::Seen;
use crate::script::{Reply, TokenCounts};

pub(super) fn render(
    reply: &Reply,
    usage: Option<TokenCounts>,
    ids: &Ids,
    seen: &Seen,
) -> Rendered {
    let mut start = json!({"message": {
        "id": format!("msg_{:06}", ids.request), "type": "message", "role": "assistant",
        "model": seen.model, "content": [], "stop_reason": null, "stop_sequence": null,
    }});
    if let Some(counts) = usage {
        start["message"]["usage"] = input_counts(counts);
    }
    let mut events = vec![named("message_start", start)];
    let mut issued = Issued::default();
    let mut index = 0;
    let mut block = |opening: Value, deltas: Vec<Value>| {
        events.push(named(
            "content_block_start",
            json!({"index": index, "content_block": opening}),
        ));
        if index == 0 {
            events.push(named("ping", json!({})));
        }
        for delta in deltas {
            events.push(named(
                "content_block_delta",
                json!({"index": index, "delta": delta}),
            ));
        }
        events.push(named("content_block_stop", json!({"index": index})));
        index += 1;
    };
    if !reply.reasoning.is_empty() {
        let signature = ids.item("signature", 0);
        let mut deltas: Vec<Value> = reply
            .reasoning
            .iter()
            .map(|thought| json!({"type": "thinking_delta", "thinking": thought}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": signature}));
        block(
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas,
        );
        issued.signature = Some(signature);
    }
    if let Some(text) = reply.text.as_deref().filter(|text| !text.is_empty()) {
        let deltas = pieces(text)
            .into_iter()
            .map(|piece| json!({"type": "text_delta", "text": piece}))
            .collect();
        block(json!({"type": "text", "text": ""}), deltas);
    }
    for (position, call) in reply.calls.iter().enumerate() {
        let id = ids.item("toolu", position);
        let deltas = pieces(&call.arguments)
            .into_iter()
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
            .collect();
        let mut opening = json!({"type": "tool_use", "id": id, "name": call.name, "input": {}});
        if reply.without_call_ids {
            opening
                .as_object_mut()
                .expect("an object literal")
                .shift_remove("id");
        } else {
            issued.call_ids.push(id);
        }
        block(opening, deltas);
    }
    if let Some(failure) = &reply.failure {
        events.push(named(
            "error",
            json!({"error": {"type": "overloaded_error", "message": failure}}),
        ));
        return Rendered { events, issued };
    }
    let reason = match (reply.truncated, reply.calls.is_empty()) {
        _ if reply.declined => "refusal",
        (true, _) => "max_tokens",
        (false, false) => "tool_use",
        (false, true) => "end_turn",
    };
    let mut end = json!({"delta": {"stop_reason": reason, "stop_sequence": null}});
    if let Some(counts) = usage {
        end["usage"] = json!({"output_tokens": counts.completion});
    }
    events.push(named("message_delta", end));
    events.push(named("message_stop", json!({})));
    Rendered { events, issued }
}

/// On this wire `input_tokens` leaves the cached ones out.
fn input_counts(counts: TokenCounts) -> Value {
    let apart = counts.cached.unwrap_or(0) + counts.cache_creation.unwrap_or(0);
    let mut usage = json!({
        "input_tokens": counts.prompt.saturating_sub(apart),
        "output_tokens": 1,
    });
    if let Some(cached) = counts.cached {
        usage["cache_read_input_tokens"] = cached.into();
    }
    if let Some(created) = counts.cache_creation {
        usage["cache_creation_input_tokens"] = created.into();
    }
    usage
}
