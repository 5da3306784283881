//! What a turn leaves in the conversation, in the traces, and on the bill.

use std::sync::Arc;

use fermix_agent::{TurnRequest, TurnStatus};
use fermix_store::{ConversationLog as _, NewUserMessage, Role};
use fermix_testkit::{FakeModel, Step, TokenCounts};
use fermix_types::{TraceKind, UnixMillis};
use serde_json::json;

use crate::tools::{self, Seen};
use crate::world::{Inbox, Plan, ended, guest, here, owner, provider_block};

#[tokio::test]
async fn a_request_that_a_crash_orphaned_is_closed_and_not_taken_up() {
    let model = FakeModel::start(Step::say("hello"));
    let world = Plan::new(&model, vec![]).build();
    let orphan = NewUserMessage {
        text: "delete everything".into(),
        guest: false,
        at: UnixMillis(1_796_083_200_000),
        platform_message_id: Some("7".into()),
    };
    world.log.append_user(&here(), orphan).await.unwrap();
    assert_eq!(world.ask("hi").await.response, "hello");
    let roles: Vec<Role> = world
        .history()
        .await
        .iter()
        .map(|message| message.role)
        .collect();
    assert_eq!(
        roles,
        [Role::User, Role::Marker, Role::User, Role::Assistant]
    );
    assert_eq!(model.last_request().last_user(), "hi");

    // The platform sends the orphan again: it was accepted, so it runs no second time.
    let mut again = TurnRequest::text(here(), owner(), "delete everything");
    again.platform_message_id = Some("7".into());
    assert_eq!(ended(world.send(again)).await.status, TurnStatus::Duplicate);
    assert_eq!((model.request_count(), world.history().await.len()), (1, 4));
}

#[tokio::test]
async fn blank_answers_and_failed_deliveries_are_not_stored() {
    let model = FakeModel::start([Step::say(" \n"), Step::say("lost"), Step::say("kept")]);
    let world = Plan::new(&model, vec![]).build();
    let blank = world.ask("one").await;
    assert_eq!(blank.response, "No response came back. Please try again.");
    let deaf = Arc::new(Inbox {
        fails: true,
        ..Inbox::default()
    });
    let lost = world
        .agent
        .submit(TurnRequest::text(here(), owner(), "two"), deaf, None);
    assert_eq!(ended(lost).await.status, TurnStatus::Failed);
    assert_eq!(world.ask("three").await.response, "kept");
    let stored: Vec<(Role, bool)> = world
        .history()
        .await
        .iter()
        .map(|message| (message.role, message.text == "kept"))
        .collect();
    assert_eq!(
        stored,
        [
            (Role::User, false),
            (Role::Marker, false),
            (Role::User, false),
            (Role::Marker, false),
            (Role::User, false),
            (Role::Assistant, true)
        ]
    );
}

#[tokio::test]
async fn one_row_a_turn_names_the_model_and_the_tokens() {
    let model = FakeModel::start([
        Step::call("file_read", json!({"path": "a"})).with_usage(TokenCounts::new(100, 10)),
        Step::say("done").with_usage(TokenCounts::new(130, 5)),
        Step::status(400).with_message("no such model"),
    ]);
    let seen = Seen::new();
    let world = Plan::new(&model, vec![tools::file_read(&seen)]).build();
    world.ask("go").await;
    let failed = world.ask("again").await;
    assert_eq!(
        (failed.status, failed.session_id.as_str()),
        (TurnStatus::Failed, "main-2")
    );
    let events = world.rows(TraceKind::AgentEvent);
    let names: Vec<&str> = events
        .iter()
        .map(|row| row["event"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "turn_start",
            "capability_selection",
            "turn_complete",
            "turn_start",
            "capability_selection",
            "turn_error"
        ]
    );
    assert_eq!(events[1]["count"], 1);
    let row = &events[2];
    for (field, value) in [
        ("model", json!("fake-model")),
        ("provider", json!("openai_compatible")),
        ("prompt_tokens", json!(230)),
        ("completion_tokens", json!(15)),
        ("context_tokens", json!(130)),
        ("iterations", json!(2)),
        ("tool_calls", json!(1)),
        ("status", json!("completed")),
    ] {
        assert_eq!(row[field], value, "{field}");
    }
    assert!(
        world
            .trace
            .rows()
            .iter()
            .all(|row| row.ids.session_id.starts_with("main-"))
    );
}

#[tokio::test]
async fn the_daily_budget_is_checked_before_every_call() {
    let model = FakeModel::start([
        Step::call("file_read", json!({"path": "a"})).with_usage(TokenCounts::new(90, 20)),
        Step::say("unreached"),
    ]);
    let seen = Seen::new();
    let world = Plan::new(&model, vec![tools::file_read(&seen)])
        .with_config("[fermix_core.agent]\ndaily_token_budget = 100\n")
        .build();
    for asked in 1..=2 {
        let report = world.ask("go").await;
        assert_eq!(report.status, TurnStatus::Failed);
        assert!(
            report.response.contains("110 of 100 tokens"),
            "{asked}: {report:?}"
        );
        assert!(
            report
                .response
                .contains("[fermix_core.agent] daily_token_budget")
        );
        assert_eq!(model.request_count(), 1);
    }
    let strangers = ended(world.send(TurnRequest::text(here(), guest(), "go"))).await;
    assert!(!strangers.response.contains("budget"), "{strangers:?}");
}

#[tokio::test]
async fn a_fallback_model_says_that_it_answered_and_tells_guests_no_names() {
    for is_owner in [true, false] {
        let broken = FakeModel::start(Step::status(503).times(4));
        let model = FakeModel::start([
            Step::call("file_read", json!({"path": "a"})),
            Step::say("from the second"),
        ]);
        let seen = Seen::new();
        let mut plan = Plan::new(&model, vec![tools::file_read(&seen)]);
        plan.config = format!(
            "{}[fermix_core.providers.mistral]\napi_key = \"k\"\nbase_url = \"{}\"\ndefault_model = \"other\"\n",
            provider_block("openai_compatible", &broken),
            model.base_url()
        );
        let world = plan.build();
        let caller = if is_owner { owner() } else { guest() };
        let report = ended(world.send(TurnRequest::text(here(), caller, "go"))).await;
        assert_eq!(report.response, "from the second");
        let note = report.note.unwrap();
        for name in ["other", "mistral", "fake-model", "openai"] {
            let is_named = note.replace("another", "").contains(name);
            assert_eq!(is_named, is_owner, "{name} in {note}");
        }
        assert_eq!(world.inbox.delivered.lock().unwrap()[0].1, Some(note));
        assert_eq!((broken.request_count(), model.request_count()), (4, 2));
        let row = world.rows(TraceKind::AgentEvent).pop().unwrap();
        assert_eq!(row["fallback"], true);
    }
}
