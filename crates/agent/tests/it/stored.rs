//! What a turn leaves in the conversation, in the traces, and on the bill.

use std::sync::Arc;

use fermix_agent::{TurnRequest, TurnStatus};
use fermix_store::{
    Appended, ConversationLog as _, NewUserMessage, ReplyContent, Role, TurnRecord,
};
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
    assert_eq!(blank.status, TurnStatus::Failed);
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
async fn what_the_embedded_assistant_estimates_is_nobodys_bill() {
    let budget = "[fermix_core.agent]\ndaily_token_budget = 100\n";
    let model = FakeModel::start([]);
    let mut plan = Plan::new(&model, vec![]);
    plan.config = budget.to_owned();
    let world = plan.build();
    for asked in 1..=2 {
        let report = world.ask("what can you do?").await;
        assert_eq!(
            report.status,
            TurnStatus::Completed,
            "{asked}: {}",
            report.response
        );
        assert_eq!(report.provider.as_deref(), Some("offline"));
        assert!(report.tokens.total > 100, "an estimate is still shown");
    }

    // On a day that also knows a paid model, only that one counts.
    let model = FakeModel::start([Step::say("paid").with_usage(TokenCounts::new(90, 20))]);
    let world = Plan::new(&model, vec![]).with_config(budget).build();
    let earlier = NewUserMessage {
        text: "hello".into(),
        guest: false,
        at: UnixMillis(1_796_083_200_000),
        platform_message_id: None,
    };
    let Ok(Appended::Stored(request)) = world.log.append_user(&here(), earlier).await else {
        panic!("the first message is stored");
    };
    let record = TurnRecord {
        at: UnixMillis(1_796_083_200_000),
        provider: Some("offline".into()),
        tokens: fermix_store::TokenCounts {
            prompt: Some(5_000),
            ..Default::default()
        },
        ..TurnRecord::default()
    };
    let words = ReplyContent::Text("hello to you".into());
    world
        .log
        .append_assistant(&here(), request, words, record)
        .await
        .unwrap();
    assert_eq!(world.ask("go").await.response, "paid");
    let refused = world.ask("go").await.response;
    assert!(refused.contains("110 of 100 tokens"), "{refused}");
}

#[tokio::test]
async fn one_absurd_usage_report_does_not_use_up_the_day() {
    // Ten windows of a model that the catalog does not know.
    const MOST: u64 = 1_000_000;
    let absurd = TokenCounts::new(9_000_000, 9_000_000).with_cache(9_000_000, 0);
    // What no window of any model holds counts as not reported.
    let impossible = TokenCounts::new(1 << 50, 1 << 50).with_cache(1 << 50, 0);
    let model = FakeModel::start([
        Step::call("file_read", json!({"path": "a"})).with_usage(absurd),
        Step::call("file_read", json!({"path": "b"})).with_usage(impossible),
        Step::say("done").with_usage(TokenCounts::new(50, 5)),
        Step::say("still here"),
    ]);
    let seen = Seen::new();
    let world = Plan::new(&model, vec![tools::file_read(&seen)])
        .with_config("[fermix_core.agent]\ndaily_token_budget = 3_000_000\n")
        .build();
    let report = world.ask("go").await;
    assert_eq!(report.response, "done");
    let tokens = report.tokens;
    assert_eq!(
        (tokens.prompt, tokens.completion, tokens.context),
        (MOST + 50, MOST + 5, MOST)
    );
    assert_eq!(tokens.cached, Some(MOST));
    let totals = world
        .log
        .token_totals(UnixMillis(1_796_083_200_000))
        .await
        .unwrap();
    assert_eq!(totals.len(), 1);
    assert_eq!(totals[0].tokens.prompt, Some(MOST + 50));
    assert_eq!(totals[0].tokens.completion, Some(MOST + 5));
    assert_eq!(world.ask("and now?").await.response, "still here");
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
