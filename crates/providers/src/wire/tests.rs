//! Decoders against streams no provider would send on purpose.

use std::collections::HashSet;

use fermix_types::{AssistantMessage, Message, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Decode, Item, calls, chat, messages, responses};
use crate::request::Unseen;

fn decoders() -> [Box<dyn Decode>; 3] {
    [
        Box::<responses::Decoder>::default(),
        Box::<chat::Decoder>::default(),
        Box::<messages::Decoder>::default(),
    ]
}

/// Events of all three wires with arbitrary parts in arbitrary places.
fn event() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just(String::new()),
        Just("{}".to_owned()),
        Just(r#"{"a":1}"#.to_owned()),
        Just(r#"{"a":"#.to_owned()),
        "\\PC{0,8}",
    ];
    let odd = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,4}".prop_map(Value::from),
        Just(json!([[]])),
        Just(json!({"text": {"text": 1}})),
    ];
    (0..20_usize, 0..3_u64, text, odd).prop_map(|(kind, index, text, odd)| match kind {
        0 => json!({"type": "response.output_item.added", "output_index": index, "item": odd}),
        1 => json!({"type": "response.output_text.delta", "output_index": index, "delta": text}),
        2 => json!({"type": "response.output_item.done", "output_index": index, "item":
            {"type": "function_call", "name": text, "arguments": text, "call_id": odd}}),
        3 => json!({"type": "response.output_item.done", "output_index": odd, "item":
            {"type": "message", "content": [{"text": text}, odd]}}),
        4 => json!({"type": "response.output_item.done", "item":
            {"type": "reasoning", "summary": odd, "encrypted_content": text}}),
        5 => json!({"type": "response.completed", "response": {"output": odd, "usage": odd}}),
        6 => json!({"type": "response.failed", "response": {"error": odd}}),
        7 => json!({"choices": [{"delta": {"content": text, "reasoning": odd}}]}),
        8 => json!({"choices": [{"delta": {"content": [odd, {"type": "text", "text": text}]}}]}),
        9 => json!({"choices": [{"delta": {"tool_calls":
            [{"index": index, "id": text, "function": {"name": text, "arguments": text}}]}}]}),
        10 => json!({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": odd}}, odd]}}]}),
        11 => json!({"choices": odd, "usage": odd}),
        12 => json!({"choices": [{"message": {"content": text}, "finish_reason": text}]}),
        13 => Value::Null,
        14 => json!({"type": "content_block_start", "index": index, "content_block":
            {"type": "tool_use", "id": text, "name": text, "input": odd}}),
        15 => json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": odd}}),
        16 => json!({"type": "content_block_delta", "index": index, "delta":
            {"type": "input_json_delta", "partial_json": text}}),
        17 => json!({"type": "content_block_stop", "index": index}),
        18 => json!({"type": "message_delta", "delta": {"stop_reason": text}, "usage": odd}),
        _ => odd,
    })
}

proptest! {
    #[test]
    fn any_stream_gives_calls_with_ids_of_their_own(events in prop::collection::vec(event(), 0..24)) {
        let before = ToolCall { call_id: r#"{"a":1}"#.into(), name: "earlier".into(), arguments: "{}".into() };
        let conversation =
            [Message::Assistant(AssistantMessage { tool_calls: vec![before], ..AssistantMessage::default() })];
        for mut decoder in decoders() {
            for event in &events {
                if decoder.event(event, &mut Unseen).is_err() {
                    break;
                }
            }
            let items = calls::settle(decoder.finish().items, &conversation);
            let message = calls::message(&items);
            let mut ids: HashSet<&str> = HashSet::from([r#"{"a":1}"#]);
            for call in &message.tool_calls {
                prop_assert!(!call.call_id.is_empty() && ids.insert(&call.call_id), "{message:?}");
            }
            for replay in [responses::replay(&items), messages::replay(&items)].into_iter().flatten() {
                let answered = replay.iter().filter(|item| item["call_id"].is_string() || item["type"] == "tool_use");
                prop_assert_eq!(answered.count(), message.tool_calls.len());
            }
        }
    }
}

/// Feeds `events` to `decoder`; the items as text, calls as `name(arguments)`, and whether a limit
/// ended the answer. The words of the refusal when there is one.
fn decoded(
    mut decoder: Box<dyn Decode>,
    events: &[Value],
) -> Result<(Vec<String>, bool), Option<String>> {
    for event in events {
        decoder
            .event(event, &mut Unseen)
            .map_err(|refusal| refusal.words)?;
    }
    let arrived = decoder.finish();
    let items = arrived.items.into_iter().map(|item| match item {
        Item::Text(text) => text,
        Item::Call(call) => format!("{}({})", call.name, call.arguments),
        Item::Kept(_) => "kept".to_owned(),
    });
    Ok((items.collect(), arrived.truncated))
}

#[test]
fn an_item_the_limit_fell_into_is_kept_as_far_as_it_came() {
    let added = json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}});
    let delta = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "half"});
    let thought = json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning"}});
    let incomplete = |reason: &str, output: Value| {
        json!({"type": "response.incomplete", "response":
            {"incomplete_details": {"reason": reason}, "output": output}})
    };
    let limit = |output| incomplete("max_output_tokens", output);
    let listed = json!([{"type": "message", "content": [{"text": "half and a bit"}]}]);
    let kept = |items: &[&str]| {
        let items = items.iter().map(|item| (*item).to_owned());
        Ok((items.collect(), true))
    };
    let cases = [
        (
            vec![added.clone(), delta.clone(), limit(json!([]))],
            kept(&["half"]),
        ),
        (
            vec![added.clone(), delta.clone(), limit(listed)],
            kept(&["half and a bit"]),
        ),
        (vec![thought, limit(Value::Null)], kept(&["kept"])),
        (
            vec![added.clone(), limit(Value::Null)],
            Err(Some("the answer ran into its length limit".to_owned())),
        ),
        (
            vec![added, delta, incomplete("content_filter", json!([]))],
            Err(Some(
                "the answer was stopped by the provider's content filter".to_owned(),
            )),
        ),
    ];
    for (events, expected) in cases {
        assert_eq!(
            decoded(Box::<responses::Decoder>::default(), &events),
            expected
        );
    }

    let start = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}});
    let events = [
        start(0, json!({"type": "text", "text": ""})),
        delta,
        start(
            1,
            json!({"type": "tool_use", "id": "1", "name": "act", "input": {}}),
        ),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
        json!({"type": "message_stop"}),
    ];
    assert_eq!(
        decoded(Box::<messages::Decoder>::default(), &events),
        kept(&["half"])
    );
}

#[test]
fn pieces_of_calls_find_their_call_however_a_server_numbers_them() {
    // number, id, name and arguments of each piece
    type Piece = (Option<u64>, &'static str, &'static str, &'static str);
    let cases: [(&[Piece], &[&str]); 5] = [
        (
            &[
                (Some(0), "a", "one", "{"),
                (Some(1), "b", "two", "["),
                (Some(0), "", "", "}"),
                (Some(1), "", "", "]"),
            ],
            &["one({})", "two([])"],
        ),
        // Every call has the number 0.
        (
            &[
                (Some(0), "a", "one", "{}"),
                (Some(0), "b", "two", "["),
                (Some(0), "b", "two", "]"),
                (Some(0), "a", "one", " "),
            ],
            &["one({} )", "two([])"],
        ),
        // Every call has the same id.
        (
            &[(Some(0), "a", "one", "{}"), (Some(1), "a", "two", "[]")],
            &["one({})", "two([])"],
        ),
        // No call has a number.
        (
            &[
                (None, "a", "one", "{"),
                (None, "", "", "}"),
                (None, "b", "two", "[]"),
                (None, "a", "", " "),
            ],
            &["one({} )", "two([])"],
        ),
        (&[(None, "", "one", "{"), (None, "", "", "}")], &["one({})"]),
    ];
    for (pieces, expected) in cases {
        let mut events: Vec<Value> = pieces
            .iter()
            .map(|(index, id, name, arguments)| {
                json!({"choices": [{"delta": {"tool_calls": [{"index": index, "id": id,
                    "function": {"name": name, "arguments": arguments}}]}}]})
            })
            .collect();
        events.push(json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}));
        let expected = expected.iter().map(|call| (*call).to_owned()).collect();
        let got = decoded(Box::<chat::Decoder>::default(), &events);
        assert_eq!(got, Ok((expected, false)));
    }
}

#[test]
fn counts_beyond_belief_are_no_counts() {
    let chat = json!({"choices": [], "usage": {"prompt_tokens": u64::MAX, "completion_tokens": 7,
        "total_tokens": 10_000_001}});
    let counts = json!({
        "input_tokens": 10_000_001, "output_tokens": 7, "total_tokens": u64::MAX,
        "cache_read_input_tokens": u64::MAX, "cache_creation_input_tokens": u64::MAX,
    });
    let events = [
        json!({"type": "response.completed", "response": {"usage": counts}}),
        chat,
        json!({"type": "message_delta", "usage": counts}),
    ];
    for (mut decoder, event) in decoders().into_iter().zip(events) {
        assert!(decoder.event(&event, &mut Unseen).is_ok());
        let usage = decoder.finish().usage;
        assert_eq!(
            (
                usage.prompt_tokens,
                usage.completion_tokens,
                usage.total_tokens,
                usage.cached_input_tokens,
                usage.cache_creation_input_tokens,
            ),
            (0, 7, 7, None, None),
            "{usage:?}"
        );
    }
}
