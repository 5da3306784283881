//! Retries, fallbacks and what the owner is told.

use std::time::Duration;

use fermix_providers::{ErrorKind, ModelEvent};
use fermix_testkit::{FakeModel, Step};
use fermix_types::{Message, UserMessage};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{Setup, append, image, request, setup};

/// A primary with a key on one server and a fallback on another.
fn two(primary: &FakeModel, fallback: &FakeModel) -> Setup {
    setup(&format!(
        "[fermix_core.providers.openrouter]\nprimary = true\napi_key = \"sk-or-v1-secret\"\nbase_url = \"{}\"\n\
         default_model = \"first\"\n\n\
         [fermix_core.providers.openai_compatible]\nbase_url = \"{}\"\ndefault_model = \"second\"\nvision = true\n",
        primary.base_url(),
        fallback.base_url()
    ))
}

struct Case {
    name: &'static str,
    primary: Vec<Step>,
    /// Which route answers, or the kind of the error.
    outcome: Result<usize, ErrorKind>,
    primary_requests: usize,
    failovers: usize,
}

#[tokio::test]
async fn a_first_call_follows_the_table() {
    let ok = || Step::say("from the first");
    let busy = |wait: &str| Step::status(429).with_header("retry-after-ms", wait);
    let cases = [
        Case { name: "503 twice", primary: vec![Step::status(503).times(2), ok()], outcome: Ok(0), primary_requests: 3, failovers: 0 },
        Case { name: "503 four times", primary: vec![Step::status(503).times(4)], outcome: Ok(1), primary_requests: 4, failovers: 1 },
        Case { name: "a refused key", primary: vec![Step::status(401)], outcome: Err(ErrorKind::Auth), primary_requests: 1, failovers: 0 },
        Case { name: "a forbidden key", primary: vec![Step::status(403)], outcome: Err(ErrorKind::Auth), primary_requests: 1, failovers: 0 },
        Case { name: "no money", primary: vec![Step::status(402)], outcome: Ok(1), primary_requests: 1, failovers: 1 },
        Case {
            name: "a quota behind a 429",
            primary: vec![Step::status(429).with_body(r#"{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}"#)],
            outcome: Ok(1),
            primary_requests: 1,
            failovers: 1,
        },
        Case { name: "a rate limit", primary: vec![Step::status(429)], outcome: Ok(1), primary_requests: 1, failovers: 1 },
        Case { name: "a short rate limit", primary: vec![busy("2"), ok()], outcome: Ok(0), primary_requests: 2, failovers: 0 },
        Case { name: "a rate limit longer than the way to the next", primary: vec![busy("2001")], outcome: Ok(1), primary_requests: 1, failovers: 1 },
        Case { name: "a long rate limit", primary: vec![busy("31000")], outcome: Ok(1), primary_requests: 1, failovers: 1 },
        Case {
            name: "a broken server that asks for patience",
            primary: vec![Step::status(503).with_header("retry-after", "29")],
            outcome: Ok(1),
            primary_requests: 1,
            failovers: 1,
        },
        Case { name: "a server's timeout", primary: vec![Step::status(408), ok()], outcome: Ok(0), primary_requests: 2, failovers: 0 },
        Case {
            name: "a prompt too long",
            primary: vec![Step::status(400).with_message("This model's maximum context length is 10 tokens")],
            outcome: Err(ErrorKind::ContextLength),
            primary_requests: 1,
            failovers: 0,
        },
        Case { name: "a body too large", primary: vec![Step::status(413)], outcome: Err(ErrorKind::Provider), primary_requests: 1, failovers: 0 },
        Case { name: "a bad request", primary: vec![Step::status(400)], outcome: Err(ErrorKind::Provider), primary_requests: 1, failovers: 0 },
        Case {
            name: "images refused by the server",
            primary: vec![Step::status(404).with_message("No endpoints found that support image input")],
            outcome: Ok(1),
            primary_requests: 1,
            failovers: 1,
        },
        Case { name: "cut before anything", primary: vec![Step::say("x").cut_after(1), ok()], outcome: Ok(0), primary_requests: 2, failovers: 0 },
        Case { name: "cut inside a call", primary: vec![Step::call("file_read", json!({"path": "a"})).cut_after(3), ok()], outcome: Ok(0), primary_requests: 2, failovers: 0 },
        Case { name: "cut after a delta", primary: vec![Step::say("one two").cut_after(2)], outcome: Err(ErrorKind::TransportClosed), primary_requests: 1, failovers: 0 },
        Case { name: "ended after a delta", primary: vec![Step::say("one two").end_after(2)], outcome: Err(ErrorKind::TransportClosed), primary_requests: 1, failovers: 0 },
        Case { name: "failed after a delta", primary: vec![Step::say("one two").then_fail("upstream gone")], outcome: Err(ErrorKind::ProviderUnavailable), primary_requests: 1, failovers: 0 },
        Case { name: "not a stream", primary: vec![Step::say("x").with_raw(0, "<html>\n\n")], outcome: Ok(1), primary_requests: 1, failovers: 1 },
    ];
    for case in cases {
        let primary = FakeModel::start(case.primary);
        let fallback = FakeModel::start([Step::say("from the second")]);
        let setup = two(&primary, &fallback);
        let (outcome, seen) = setup.first(&request("hello")).await;
        let got = outcome
            .as_ref()
            .map(|(_, index)| *index)
            .map_err(|error| error.kind);
        assert_eq!(got, case.outcome, "{}: {outcome:?}", case.name);
        assert_eq!(
            primary.request_count(),
            case.primary_requests,
            "{}",
            case.name
        );
        assert_eq!(
            fallback.request_count(),
            usize::from(case.outcome == Ok(1)),
            "{}",
            case.name
        );
        assert_eq!(
            setup.events("failover").len(),
            case.failovers,
            "{}",
            case.name
        );
        match outcome {
            Ok((response, 0)) => assert_eq!(response.message.text, "from the first"),
            Ok(_) => assert_eq!(seen.text(), "from the second", "{}", case.name),
            Err(error) => {
                assert!(!error.user_sentence().contains("sk-or-v1-secret"));
                assert!(
                    error.message.len() <= fermix_providers::MAX_SERVER_WORDS,
                    "{}",
                    case.name
                );
                assert!(
                    seen.text().is_empty() || !error.details.partial_text.is_empty(),
                    "{}",
                    case.name
                );
            }
        }
        let calls = setup
            .trace
            .rows()
            .into_iter()
            .filter(|row| row.kind == fermix_types::TraceKind::LlmCall);
        let served = primary.request_count() + fallback.request_count();
        assert_eq!(
            calls.count(),
            served,
            "one row for each request: {}",
            case.name
        );
        primary.take_violations();
    }
}

#[tokio::test]
async fn when_every_route_fails_all_are_listed() {
    let leak = format!(
        r#"{{"error":{{"message":"bad key sk-or-v1-secret {}"}}}}"#,
        "x".repeat(500)
    );
    let primary = FakeModel::start([Step::status(503).with_body(leak).times(4)]);
    let fallback = FakeModel::start([Step::status(402).with_message("pay first")]);
    let setup = two(&primary, &fallback);
    let error = setup.first(&request("hello")).await.0.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::Quota, Some(402)));
    let sentence = error.user_sentence();
    assert!(
        sentence.contains("pay first")
            && sentence.contains("openrouter (first): provider_unavailable 503"),
        "{sentence}"
    );
    assert!(!sentence.contains("sk-or-v1-secret"), "{sentence}");
    let row = setup.trace.rows().into_iter().next().unwrap();
    assert_eq!(
        (
            row.fields["provider"].clone(),
            row.fields["status"].clone(),
            row.fields["error_status"].clone()
        ),
        (json!("openrouter"), json!("error"), json!(503))
    );
}

#[tokio::test]
async fn a_continuation_is_sent_again_and_stays_on_its_route() {
    let call = || Step::call("file_read", json!({"path": "a"}));
    let cases = [
        (
            "a cut",
            vec![call(), Step::say("x").cut_after(0), Step::say("done")],
            Ok("done"),
            3,
        ),
        (
            "two bad answers",
            vec![call(), Step::status(503).times(2), Step::say("done")],
            Ok("done"),
            4,
        ),
        (
            "three bad answers",
            vec![call(), Step::status(503).times(3)],
            Err(ErrorKind::ProviderUnavailable),
            4,
        ),
        (
            "a cut after a delta",
            vec![call(), Step::say("one two").cut_after(2)],
            Err(ErrorKind::TransportClosed),
            2,
        ),
        (
            "a refused key",
            vec![call(), Step::status(401)],
            Err(ErrorKind::Auth),
            2,
        ),
        (
            "a rate limit",
            vec![call(), Step::status(429)],
            Err(ErrorKind::RateLimit),
            2,
        ),
    ];
    for (name, steps, expected, requests) in cases {
        let primary = FakeModel::start(steps);
        let fallback = FakeModel::start(Vec::new());
        let setup = two(&primary, &fallback);
        let mut request = request("hello");
        let (response, index) = setup.first(&request).await.0.unwrap();
        append(&mut request, &response, &[]);
        let route = setup.providers.routes()[index].clone();
        let outcome = setup.next(&route, &request).await;
        let got = outcome
            .as_ref()
            .map(|response| response.message.text.as_str())
            .map_err(|error| error.kind);
        assert_eq!(got, expected, "{name}");
        assert_eq!(
            (primary.request_count(), fallback.request_count()),
            (requests, 0),
            "{name}"
        );
        assert_eq!(setup.events("failover").len(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_route_that_keeps_failing_is_skipped_for_a_minute() {
    let primary = FakeModel::start([Step::status(503).times(5), Step::say("back")]);
    let fallback = FakeModel::script_loop(|_| Step::say("second"));
    let setup = two(&primary, &fallback);
    let turn = async || setup.first(&request("hello")).await.0.unwrap().1;
    assert_eq!((turn().await, primary.request_count()), (1, 4));
    // The fifth failure opens the circuit, so the rest of the tries is not made.
    assert_eq!((turn().await, primary.request_count()), (1, 5));
    assert_eq!((turn().await, primary.request_count()), (1, 5));
    assert_eq!(setup.events("route_skipped").len(), 1);
    setup.clock.advance(59_999);
    assert_eq!((turn().await, primary.request_count()), (1, 5));
    setup.clock.advance(1);
    assert_eq!((turn().await, primary.request_count()), (0, 6));
}

#[tokio::test]
async fn the_only_route_is_asked_even_when_it_keeps_failing() {
    let model = FakeModel::start([Step::status(503).times(8), Step::say("back")]);
    let setup = setup(&format!(
        "[fermix_core.providers.openai_compatible]\nbase_url = \"{}\"\ndefault_model = \"m\"\n",
        model.base_url()
    ));
    for expected in [
        Err(ErrorKind::ProviderUnavailable),
        Err(ErrorKind::ProviderUnavailable),
        Ok("back".to_owned()),
    ] {
        let outcome = setup.first(&request("hello")).await.0;
        assert_eq!(
            outcome
                .map(|(response, _)| response.message.text)
                .map_err(|error| error.kind),
            expected
        );
    }
}

#[tokio::test]
async fn images_go_to_a_route_that_sees() {
    let primary = FakeModel::start([Step::say("blind")]);
    let fallback = FakeModel::start([Step::say("I see")]);
    let setup = two(&primary, &fallback);
    let mut with_image = request("hello");
    with_image.messages = vec![Message::User(UserMessage {
        text: String::new(),
        images: vec![image()],
    })];
    let (response, index) = setup.first(&with_image).await.0.unwrap();
    assert_eq!(
        (
            response.message.text.as_str(),
            index,
            primary.request_count()
        ),
        ("I see", 1, 0)
    );

    let blind = setup.providers.routes()[0].clone();
    let error = setup.next(&blind, &with_image).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ImageUnsupported);
    assert!(
        error.user_sentence().contains("takes no images"),
        "{}",
        error.user_sentence()
    );
    let only_blind = [blind];
    let outcome = setup
        .providers
        .first_call(
            &only_blind,
            &with_image,
            &mut fermix_providers::Unseen,
            &crate::support::ids(),
            &setup.cancel,
        )
        .await;
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::ImageUnsupported);
    assert_eq!(setup.first(&request("no image")).await.0.unwrap().1, 0);
}

#[tokio::test]
async fn what_nobody_saw_may_be_asked_again() {
    let primary = FakeModel::start([Step::say("one two").cut_after(2), Step::say("whole")]);
    let fallback = FakeModel::start(Vec::new());
    let setup = two(&primary, &fallback);
    let routes = setup.providers.routes();
    let outcome = setup
        .providers
        .first_call(
            &routes,
            &request("hello"),
            &mut fermix_providers::Unseen,
            &crate::support::ids(),
            &setup.cancel,
        )
        .await;
    assert_eq!(outcome.unwrap().0.message.text, "whole");
}

#[tokio::test]
async fn cancelling_drops_the_request_and_tries_nothing_else() {
    let primary = FakeModel::start([Step::say("one two three").stall_after(2)]);
    let fallback = FakeModel::start(Vec::new());
    let setup = two(&primary, &fallback);
    let cancel = setup.cancel.clone();
    struct StopAtFirst(tokio_util::sync::CancellationToken);
    impl fermix_providers::EventSink for StopAtFirst {
        fn emit(&mut self, event: ModelEvent) {
            if matches!(event, ModelEvent::TextDelta(_)) {
                self.0.cancel();
            }
        }
    }
    let routes = setup.providers.routes();
    let mut events = StopAtFirst(cancel);
    let outcome = setup
        .providers
        .first_call(
            &routes,
            &request("hello"),
            &mut events,
            &crate::support::ids(),
            &setup.cancel,
        )
        .await;
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::Cancelled);
    assert!(primary.wait_for_abandoned(1, Duration::from_secs(10)).await);
    assert_eq!(fallback.request_count(), 0);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_passed_over() {
    let fallback = FakeModel::start([Step::say("second")]);
    let closed = FakeModel::start(Vec::new());
    let setup = two(&closed, &fallback);
    drop(closed);
    let (response, index) = setup.first(&request("hello")).await.0.unwrap();
    assert_eq!((response.message.text.as_str(), index), ("second", 1));
    assert_eq!(setup.events("failover")[0]["error_kind"], "network");
}
