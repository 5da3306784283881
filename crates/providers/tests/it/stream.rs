//! What models write that is not quite right, on every wire.

use fermix_providers::{ChatResponse, ErrorKind};
use fermix_testkit::{Checks, FakeModel, Rule, Step};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{Setup, append, request, setup};

const WIRES: [&str; 3] = ["xai", "openai_compatible", "anthropic"];

fn on(wire: &str, model: &FakeModel) -> Setup {
    let key = if wire == "openai_compatible" {
        ""
    } else {
        "api_key = \"key-0001-abcd\"\n"
    };
    let slug = if wire == "anthropic" {
        "claude-haiku-4-5"
    } else {
        "m"
    };
    setup(&format!(
        "[fermix_core.providers.{wire}]\n{key}base_url = \"{}\"\ndefault_model = \"{slug}\"\n",
        model.base_url()
    ))
}

/// Name and arguments of every call.
fn calls(response: &ChatResponse) -> Vec<(&str, &str)> {
    response
        .message
        .tool_calls
        .iter()
        .map(|call| (call.name.as_str(), call.arguments.as_str()))
        .collect()
}

#[tokio::test]
async fn merged_and_broken_arguments_never_become_a_wrong_call() {
    let cases: [(&str, &[&str]); 8] = [
        (
            r#"{"path":"a"}{"path":"b"}"#,
            &[r#"{"path":"a"}"#, r#"{"path":"b"}"#],
        ),
        (
            "{\"path\":\"a\"}\n {\"path\":\"a\"}",
            &[r#"{"path":"a"}"#, r#"{"path":"a"}"#],
        ),
        (r#"{"path":"a"}{"path":"b"#, &[r#"{"path":"a"}{"path":"b"#]),
        (r#"{}{"path":"b"}"#, &[r#"{}{"path":"b"}"#]),
        (r#"{"path":"a"}[1]"#, &[r#"{"path":"a"}[1]"#]),
        (r#"{"path": a}"#, &[r#"{"path": a}"#]),
        (r#""{\"path\":\"a\"}""#, &[r#""{\"path\":\"a\"}""#]),
        (r#"{"path":"a"}"#, &[r#"{"path":"a"}"#]),
    ];
    for wire in WIRES {
        for (written, expected) in cases {
            // The server rightly wonders about calls and arguments it never issued.
            let checks = Checks::all().without(Rule::Replay);
            let model = FakeModel::start_with(
                [Step::raw_call("file_read", written), Step::say("done")],
                checks,
            );
            let setup = on(wire, &model);
            let mut request = request("go");
            let (response, _) = setup.first(&request).await.0.unwrap();
            let expected: Vec<_> = expected
                .iter()
                .map(|arguments| ("file_read", *arguments))
                .collect();
            assert_eq!(calls(&response), expected, "{wire} {written}");
            append(&mut request, &response, &[]);
            setup
                .next(&setup.providers.routes()[0], &request)
                .await
                .unwrap();
            model.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_call_without_arguments_is_one() {
    for wire in WIRES {
        let model = FakeModel::start([Step::call("convert", json!({}))]);
        let (response, _) = on(wire, &model).first(&request("go")).await.0.unwrap();
        assert_eq!(calls(&response), [("convert", "{}")], "{wire}");
    }
}

#[tokio::test]
async fn missing_ids_are_made_the_same_way_every_time_and_never_twice() {
    for wire in WIRES {
        let mut runs = Vec::new();
        for _ in 0..2 {
            let again = || Step::call("file_read", json!({"path": "a"})).without_call_ids();
            let model = FakeModel::start([again(), again(), Step::say("done")]);
            let setup = on(wire, &model);
            let mut request = request("go");
            let route = setup.providers.routes()[0].clone();
            let (first, _) = setup.first(&request).await.0.unwrap();
            append(&mut request, &first, &[]);
            let second = setup.next(&route, &request).await.unwrap();
            append(&mut request, &second, &[]);
            setup.next(&route, &request).await.unwrap();
            let id = |response: &ChatResponse| response.message.tool_calls[0].call_id.clone();
            let made = [id(&first), id(&second)];
            assert!(
                made.iter()
                    .all(|id| id.starts_with("call_") && id.len() == 17),
                "{made:?}"
            );
            assert!(
                made[0] != made[1],
                "{wire}: a repeated call needs an id of its own"
            );
            runs.push(made);
        }
        assert_eq!(runs[0], runs[1], "{wire}");
    }
}

#[tokio::test]
async fn streams_may_be_odd_but_not_endless() {
    let huge = format!("data: \"{}\"\n\n", "x".repeat(1 << 20));
    for wire in WIRES {
        let whole = Ok("one two three");
        let cases = [
            (
                "carriage returns",
                Step::say("one two three").with_carriage_returns(),
                whole,
            ),
            (
                "a byte at a time",
                Step::say("one two three").trickle(3, std::time::Duration::ZERO),
                whole,
            ),
            (
                "comments",
                Step::say("one two three").with_raw(1, ": still here\n\n"),
                whole,
            ),
            (
                "an unknown event",
                Step::say("one two three").with_raw(1, "data: {\"type\":\"new\"}\n\n"),
                whole,
            ),
            (
                "an event that is null",
                Step::say("one two three").with_raw(1, "data: null\n\n"),
                whole,
            ),
            (
                "a byte that is no text",
                Step::say("one two three").with_raw(1, b"data: {\"type\":\"\xff\"}\n\n".to_vec()),
                whole,
            ),
            (
                "an event that is no JSON",
                Step::say("one two three").malformed(),
                Err(ErrorKind::Transport),
            ),
            (
                "an event over the limit",
                Step::say("one two three").with_raw(1, huge.clone()),
                Err(ErrorKind::Transport),
            ),
            (
                "an event that is no text",
                Step::say("one two three").with_raw(1, b"data: \xff\xfe\n\n".to_vec()),
                Err(ErrorKind::Transport),
            ),
        ];
        for (name, step, expected) in cases {
            let model = FakeModel::start([step]);
            let setup = on(wire, &model);
            let outcome = setup.first(&request("go")).await.0;
            let got = outcome
                .as_ref()
                .map(|(response, _)| response.message.text.as_str())
                .map_err(|error| error.kind);
            assert_eq!(got, expected, "{wire}: {name}");
        }
    }
}

#[tokio::test]
async fn complete_items_outlive_a_missing_end() {
    // (wire, events up to the end of the only item)
    for (wire, events) in [("xai", 10), ("openai_compatible", 5), ("anthropic", 7)] {
        for step in [
            Step::say("one two three").end_after(events),
            Step::say("one two three").cut_after(events),
        ] {
            let model = FakeModel::start([step]);
            let setup = on(wire, &model);
            let outcome = setup.first(&request("go")).await.0;
            let text = outcome
                .as_ref()
                .map(|(response, _)| response.message.text.as_str());
            assert_eq!(text, Ok("one two three"), "{wire}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn declared_failures_are_quoted() {
    for wire in WIRES {
        let model = FakeModel::start([Step::say("half").then_fail("the cluster is on fire")]);
        let error = on(wire, &model).first(&request("go")).await.0.unwrap_err();
        assert_eq!(
            (error.kind, error.details.partial_text.as_str()),
            (ErrorKind::ProviderUnavailable, "half"),
            "{wire}"
        );
        assert!(
            error.user_sentence().contains("the cluster is on fire"),
            "{}",
            error.user_sentence()
        );
    }
}

#[tokio::test]
async fn a_length_limit_keeps_what_there_is_and_says_so() {
    for wire in WIRES {
        let call = || Step::call("file_read", json!({"path": "a"}));
        let cases = [
            ("whole text", Step::say("all of it"), "all of it", 0, false),
            (
                "a text that is cut",
                Step::say("as far as it goes").truncated(),
                "as far as it goes",
                0,
                true,
            ),
            ("whole call", call(), "", 1, false),
            ("a call that may be cut", call().truncated(), "", 1, true),
        ];
        for (name, step, text, calls, truncated) in cases {
            let model = FakeModel::start([step]);
            let setup = on(wire, &model);
            let (response, _) = setup.first(&request("go")).await.0.unwrap();
            let got = (
                response.message.text.as_str(),
                response.message.tool_calls.len(),
                response.truncated,
            );
            assert_eq!(got, (text, calls, truncated), "{wire}: {name}");
            let row = &setup.trace.rows()[0].fields;
            assert_eq!(row.get("truncated"), truncated.then_some(&json!(true)));
        }
        // A limit that left nothing is no answer.
        let model = FakeModel::start([Step::nothing().truncated()]);
        let error = on(wire, &model).first(&request("go")).await.0.unwrap_err();
        let kinds = [ErrorKind::EmptyResponse, ErrorKind::Provider];
        assert!(kinds.contains(&error.kind), "{wire}: {error:?}");
    }
}

#[tokio::test]
async fn an_answer_holds_only_so_many_calls() {
    let calls = |count: usize| {
        Step::raw_calls((0..count).map(|number| ("convert", format!("{{\"to\":\"{number}\"}}"))))
    };
    for wire in WIRES {
        // No call is dropped, however many of them the loop will decline.
        let model = FakeModel::start([calls(4096), Step::say("go on")]);
        let setup = on(wire, &model);
        let mut conversation = request("go");
        let (response, _) = setup.first(&conversation).await.0.unwrap();
        let kept = &response.message.tool_calls;
        assert_eq!(
            (kept.len(), kept[4095].arguments.as_str()),
            (4096, r#"{"to":"4095"}"#),
            "{wire}"
        );
        append(&mut conversation, &response, &[]);
        let route = &setup.providers.routes()[0];
        setup.next(route, &conversation).await.unwrap();
        model.assert_clean();

        // Beyond that the answer is none.
        let model = FakeModel::start([calls(4097)]);
        let error = on(wire, &model).first(&request("go")).await.0.unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (
                ErrorKind::Provider,
                "the answer holds 4097 tool calls and 4096 are taken, so none of them ran"
            ),
            "{wire}"
        );

        // Calls run together count one by one; those there is no room for stay one call, which
        // dispatch refuses.
        let merged = r#"{"to":"a"}"#.repeat(3000);
        let model = FakeModel::start([Step::raw_calls([
            ("convert", merged.as_str()),
            ("convert", merged.as_str()),
        ])]);
        let (response, _) = on(wire, &model).first(&request("go")).await.0.unwrap();
        let calls = &response.message.tool_calls;
        assert_eq!(
            (calls.len(), calls[3000].arguments == merged),
            (3001, true),
            "{wire}"
        );
    }
}

#[tokio::test]
async fn a_message_without_words_is_an_answer_and_no_message_is_none() {
    for (wire, step, expected) in [
        ("xai", Step::empty(), Ok("")),
        ("openai_compatible", Step::empty(), Ok("")),
        ("anthropic", Step::empty(), Ok("")),
        ("anthropic", Step::nothing(), Ok("")),
        ("xai", Step::nothing(), Err(ErrorKind::EmptyResponse)),
        (
            "openai_compatible",
            Step::empty().with_raw(0, "data: [DONE]\n\n"),
            Err(ErrorKind::EmptyResponse),
        ),
    ] {
        let model = FakeModel::start([step]);
        let setup = on(wire, &model);
        let outcome = setup.first(&request("go")).await.0;
        let got = outcome
            .as_ref()
            .map(|(response, _)| response.message.text.as_str())
            .map_err(|error| error.kind);
        assert_eq!(got, expected, "{wire}");
        assert_eq!(model.request_count(), 1, "{wire}");
    }
}

#[tokio::test]
async fn a_name_no_provider_takes_is_not_sent_back() {
    let long = "x".repeat(65);
    for wire in WIRES {
        for name in ["", "read file", "lire_\u{e9}", long.as_str()] {
            let model = FakeModel::start_with(
                [
                    Step::call(name, json!({"path": "a"})).with_reasoning(["hm"]),
                    Step::say("done"),
                ],
                Checks::all().without(Rule::Replay),
            );
            let setup = on(wire, &model);
            let mut request = request("go");
            let (response, _) = setup.first(&request).await.0.unwrap();
            assert_eq!(calls(&response), [(name, r#"{"path":"a"}"#)], "{wire}");
            append(&mut request, &response, &[]);
            let route = &setup.providers.routes()[0];
            setup.next(route, &request).await.unwrap();
            let sent = String::from_utf8(model.last_request().raw.to_vec()).unwrap();
            assert!(sent.contains(r#""name":"invalid_name""#), "{wire}: {sent}");
            assert!(!sent.contains(&format!("\"name\":\"{name}\"")), "{wire}");
            model.assert_clean();
        }
    }
}
