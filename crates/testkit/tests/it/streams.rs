//! One script reads the same through the stream of every wire, faults included.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fermix_testkit::{FakeModel, Step, TokenCounts, Wire};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::client::{Answer, open, path, post, request, user};

/// Generous: only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(20);

/// What a client reads out of a stream.
#[derive(Debug, Default, PartialEq)]
struct Read {
    text: String,
    reasoning: String,
    calls: Vec<(String, String)>,
    ids: usize,
    end: String,
    usage: Option<[Option<u64>; 3]>,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn read(wire: Wire, answer: &Answer) -> Read {
    let mut read = Read::default();
    let mut open: BTreeMap<u64, (String, String)> = BTreeMap::new();
    for event in answer.events() {
        match wire {
            Wire::Responses => match text(&event["type"]) {
                "response.output_text.delta" => read.text += text(&event["delta"]),
                "response.reasoning_summary_text.delta" => read.reasoning += text(&event["delta"]),
                "response.function_call_arguments.delta" => {
                    let index = event["output_index"].as_u64().expect("an output index");
                    open.entry(index).or_default().1 += text(&event["delta"]);
                }
                "response.output_item.done" if event["item"]["type"] == "function_call" => {
                    let index = event["output_index"].as_u64().expect("an output index");
                    let arguments = open.remove(&index).unwrap_or_default().1;
                    assert_eq!(arguments, text(&event["item"]["arguments"]));
                    read.calls
                        .push((text(&event["item"]["name"]).to_owned(), arguments));
                    read.ids += usize::from(event["item"]["call_id"].is_string());
                }
                "response.completed" | "response.incomplete" | "response.failed" => {
                    read.end = text(&event["response"]["status"]).to_owned();
                    let usage = &event["response"]["usage"];
                    read.usage = usage.is_object().then(|| {
                        [
                            usage["input_tokens"].as_u64(),
                            usage["output_tokens"].as_u64(),
                            usage["input_tokens_details"]["cached_tokens"].as_u64(),
                        ]
                    });
                }
                _ => {}
            },
            Wire::Chat => {
                let delta = &event["choices"][0]["delta"];
                read.text += text(&delta["content"]);
                read.reasoning += text(&delta["reasoning_content"]);
                for call in delta["tool_calls"].as_array().into_iter().flatten() {
                    let entry = open
                        .entry(call["index"].as_u64().expect("a call index"))
                        .or_default();
                    entry.0 += text(&call["function"]["name"]);
                    entry.1 += text(&call["function"]["arguments"]);
                    read.ids += usize::from(call["id"].is_string());
                }
                read.end += text(&event["choices"][0]["finish_reason"]);
                read.end += if event["error"].is_object() {
                    "failed"
                } else {
                    ""
                };
                let usage = &event["usage"];
                if usage.is_object() {
                    read.usage = Some([
                        usage["prompt_tokens"].as_u64(),
                        usage["completion_tokens"].as_u64(),
                        usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
                    ]);
                }
            }
            Wire::Messages => {
                let delta = &event["delta"];
                read.text += text(&delta["text"]);
                read.reasoning += text(&delta["thinking"]);
                let index = event["index"].as_u64().unwrap_or_default();
                let block = &event["content_block"];
                if block["type"] == "tool_use" {
                    open.insert(index, (text(&block["name"]).to_owned(), String::new()));
                    read.ids += usize::from(block["id"].is_string());
                }
                if let Some(entry) = open.get_mut(&index) {
                    entry.1 += text(&delta["partial_json"]);
                }
                read.end += text(&delta["stop_reason"]);
                read.end += if event["error"].is_object() {
                    "failed"
                } else {
                    ""
                };
                let start = &event["message"]["usage"];
                if start.is_object() {
                    let cached = start["cache_read_input_tokens"].as_u64();
                    let created = start["cache_creation_input_tokens"].as_u64().unwrap_or(0);
                    let fresh = start["input_tokens"].as_u64();
                    let prompt = fresh.map(|fresh| fresh + cached.unwrap_or(0) + created);
                    read.usage = Some([prompt, None, cached]);
                }
                if let (Some(usage), Some(said)) =
                    (&mut read.usage, event["usage"]["output_tokens"].as_u64())
                {
                    usage[1] = Some(said);
                }
            }
        }
    }
    read.calls.extend(open.into_values());
    read
}

async fn ask(wire: Wire, step: Step) -> Answer {
    let model = FakeModel::start(step);
    let answer = post(&model, &path(wire), &request(wire, &[user(wire, "hi")])).await;
    assert_eq!(model.remaining_steps(), 0);
    answer
}

#[tokio::test]
async fn text_reasoning_calls_and_counts_read_the_same_on_every_wire() {
    let counts = TokenCounts::new(100, 9);
    for wire in Wire::ALL {
        let end =
            |said: [&str; 3]| said[Wire::ALL.iter().position(|w| *w == wire).unwrap()].to_owned();
        let step = Step::calls([("a", json!({"x": "ä€😀"})), ("b", json!({}))])
            .with_text("First, á look.")
            .with_reasoning(["I ", "think."])
            .with_usage(counts.with_cache(60, 0));
        let answer = ask(wire, step).await;
        assert!(answer.complete && answer.head.contains("text/event-stream"));
        assert_eq!(
            read(wire, &answer),
            Read {
                text: "First, á look.".to_owned(),
                reasoning: "I think.".to_owned(),
                calls: vec![
                    ("a".to_owned(), r#"{"x":"ä€😀"}"#.to_owned()),
                    ("b".to_owned(), "{}".to_owned()),
                ],
                ids: 2,
                end: end(["completed", "tool_calls", "tool_use"]),
                usage: Some([Some(100), Some(9), Some(60)]),
            },
            "{wire:?}"
        );

        let plain = read(wire, &ask(wire, Step::say("hi").with_usage(counts)).await);
        assert_eq!(
            plain.usage,
            Some([Some(100), Some(9), None]),
            "{wire:?}: no word on a cache"
        );
        assert_eq!(plain.end, end(["completed", "stop", "end_turn"]));
        assert_eq!(
            read(wire, &ask(wire, Step::say("hi").without_usage()).await).usage,
            None
        );
        assert_eq!(
            read(wire, &ask(wire, Step::say("hi").truncated()).await).end,
            end(["incomplete", "length", "max_tokens"])
        );
        let failed = ask(wire, Step::say("half").then_fail("upstream is overloaded")).await;
        assert_eq!(
            (
                read(wire, &failed).end.as_str(),
                read(wire, &failed).text.as_str()
            ),
            ("failed", "half")
        );
        assert!(failed.body.contains("upstream is overloaded"));

        let merged = r#"{"a":1}{"a":2}"#;
        let raw = read(
            wire,
            &ask(wire, Step::raw_call("a", merged).without_call_ids()).await,
        );
        assert_eq!(
            (raw.calls, raw.ids),
            (vec![("a".to_owned(), merged.to_owned())], 0)
        );
        for silent in [Step::empty(), Step::nothing()] {
            let silent = read(wire, &ask(wire, silent).await);
            assert_eq!((silent.text.as_str(), silent.calls.len()), ("", 0));
            assert_eq!(silent.end, end(["completed", "stop", "end_turn"]));
        }
    }
}

#[tokio::test]
async fn streams_break_where_the_script_says() {
    for wire in Wire::ALL {
        let whole = ask(wire, Step::say("one two three").without_usage()).await;
        let total = whole.events().len();
        let first_two = &whole.events()[..2];

        let cut = ask(
            wire,
            Step::say("one two three").without_usage().cut_after(2),
        )
        .await;
        assert!(!cut.complete, "{wire:?}: a cut connection ends no body");
        assert_eq!(&cut.events()[..], first_two);
        let ended = ask(
            wire,
            Step::say("one two three").without_usage().end_after(2),
        )
        .await;
        assert!(ended.complete);
        assert_eq!(&ended.events()[..], first_two);

        let malformed = ask(wire, Step::say("one two three").without_usage().malformed()).await;
        assert!(malformed.body.contains("data: {\"type\": \n\n"));
        assert_eq!(
            malformed.events().len(),
            total,
            "everything else is still there"
        );
        let crlf = ask(
            wire,
            Step::say("one")
                .with_raw(0, ": hello\r\n")
                .with_carriage_returns(),
        )
        .await;
        assert!(
            crlf.body.starts_with(": hello\r\n") && !crlf.body.replace("\r\n", "").contains('\n')
        );
        assert_eq!(read(wire, &crlf).text, "one");

        let slow = Step::say("one")
            .trickle(64, Duration::from_millis(1))
            .after(Duration::from_millis(30));
        let started = Instant::now();
        let slow = ask(wire, slow).await;
        assert!(started.elapsed() >= Duration::from_millis(30));
        assert_eq!(read(wire, &slow).text, "one");
    }
}

#[tokio::test]
async fn an_answer_that_is_left_is_counted() {
    let wire = Wire::Chat;
    let body = request(wire, &[user(wire, "hi")]).to_string();
    let model = FakeModel::start([
        Step::say("one two three").stall_after(2),
        Step::say("never").after(Duration::from_secs(3600)),
        Step::say("done"),
    ]);
    for left in 1..=2 {
        let mut stream = open(model.address(), &path(wire), &body).await;
        assert!(model.wait_for_requests(left, DEADLINE).await);
        if left == 1 {
            let mut head = [0; 12];
            stream.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"HTTP/1.1 200");
        }
        drop(stream);
        assert!(
            model.wait_for_abandoned(left, DEADLINE).await,
            "answer {left} was left"
        );
    }
    let answer = post(&model, &path(wire), &serde_json::from_str(&body).unwrap()).await;
    assert_eq!(
        (
            answer.status,
            model.abandoned_count(),
            model.request_count()
        ),
        (200, 2, 3)
    );
}

#[tokio::test]
async fn refusals_have_the_form_of_their_wire_and_repeat() {
    for wire in Wire::ALL {
        let body = request(wire, &[user(wire, "hi")]);
        let model = FakeModel::start([
            Step::status(429)
                .with_message("slow down")
                .with_header("retry-after", "3")
                .times(2),
            Step::status(503).with_body("<html>busy</html>"),
            Step::say("fine"),
        ]);
        for remaining in [3, 2] {
            let answer = post(&model, &path(wire), &body).await;
            assert_eq!((answer.status, model.remaining_steps()), (429, remaining));
            assert!(answer.head.contains("retry-after: 3"));
            let error: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(error["error"]["message"], "slow down");
            assert_eq!(error["type"] == "error", wire == Wire::Messages);
        }
        let busy = post(&model, &path(wire), &body).await;
        assert_eq!(
            (busy.status, busy.body.as_str()),
            (503, "<html>busy</html>")
        );
        let fine = post(&model, wire.path(), &body).await;
        assert_eq!(
            (fine.status, read(wire, &fine).text.as_str()),
            (200, "fine")
        );
    }
}
