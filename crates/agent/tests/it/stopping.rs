//! Stopping: what runs is gone within seconds, nothing is delivered, the conversation goes on.

use std::time::{Duration, Instant};

use fermix_agent::{ReportOnly, TurnRequest, TurnStatus};
use fermix_store::Role;
use fermix_testkit::{FakeModel, Step};
use fermix_types::ConversationKey;
use serde_json::json;
use std::sync::Arc;

use crate::tools::{self, Seen};
use crate::world::{Plan, ended, here, owner};

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_turn_with_a_sleeping_tool_is_gone_within_six_seconds() {
    for deaf in [false, true] {
        let model = FakeModel::start([Step::call("sleeper", json!({})), Step::say("hello again")]);
        let seen = Seen::new();
        let world = Plan::new(&model, vec![tools::sleeper(&seen, deaf, LONG)]).build();
        let submitted = world.submit("sleep");
        seen.asleep.notified().await;
        let began = Instant::now();
        let counts = world.agent.stop(&here());
        assert_eq!((counts.turns, counts.queued), (1, 0));
        assert_eq!(world.agent.stop(&here()).turns, 0, "it is stopped once");
        let report = ended(submitted).await;
        assert!(
            began.elapsed() < Duration::from_secs(6),
            "{:?}",
            began.elapsed()
        );
        assert_eq!((report.status, report.iterations), (TurnStatus::Stopped, 1));
        assert!(world.inbox.texts().is_empty());
        let history = world.history().await;
        assert_eq!(history.len(), 2);
        assert_eq!(history[1].role, Role::Marker);
        // A tool that hears the stop may still give its own answer; it is traced either way.
        let rows = world.tool_rows();
        assert!(rows.len() == 1 && rows[0].1 != "ok", "{rows:?}");
        assert_eq!(world.ask("hi").await.response, "hello again");
    }
}

#[tokio::test]
async fn stopping_drops_the_request_to_the_provider() {
    let model = FakeModel::start(vec![Step::say("never heard").stall_after(1); 3]);
    let world = Plan::new(&model, vec![]).build();
    let turns: Vec<_> = (0..3)
        .map(|chat| {
            let key = ConversationKey::root("cli", chat.to_string());
            world.send(TurnRequest::text(key, owner(), "talk"))
        })
        .collect();
    assert!(model.wait_for_requests(3, LONG).await);
    let waiting = world.send(TurnRequest::text(
        ConversationKey::root("cli", "0"),
        owner(),
        "more",
    ));
    assert_eq!(world.agent.status().active_conversations, 3);
    let began = Instant::now();
    let counts = world.agent.stop_all();
    assert_eq!((counts.turns, counts.queued), (3, 1));
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(model.wait_for_abandoned(3, LONG).await);
    for turn in turns.into_iter().chain([waiting]) {
        assert_eq!(ended(turn).await.status, TurnStatus::Stopped);
    }
    assert!(world.inbox.texts().is_empty());
    world.agent.shutdown(LONG).await;
    assert!(world.agent.status().is_idle());
}

#[tokio::test]
async fn a_turn_with_a_time_limit_ends_and_says_so() {
    let model = FakeModel::start(Step::call("sleeper", json!({})));
    let seen = Seen::new();
    let world = Plan::new(&model, vec![tools::sleeper(&seen, false, LONG)]).build();
    let mut request = TurnRequest::text(here(), owner(), "sleep");
    request.timeout = Some(Duration::from_secs(1));
    let report = ended(world.send(request)).await;
    assert_eq!(report.status, TurnStatus::TimedOut);
    assert_eq!(world.inbox.texts(), [report.response]);
    assert_eq!(world.history().await[1].role, Role::Marker);
}

#[tokio::test]
async fn a_shutdown_lets_turns_end_and_stops_those_that_do_not() {
    let model = FakeModel::start([Step::say("one"), Step::call("sleeper", json!({}))]);
    let seen = Seen::new();
    let world = Plan::new(&model, vec![tools::sleeper(&seen, false, LONG)])
        .with(|settings| settings.coalesce = false)
        .build();
    let (first, second) = (world.submit("one"), world.submit("sleep"));
    seen.asleep.notified().await;
    let report = world.agent.shutdown(Duration::from_millis(50)).await;
    assert_eq!((report.stopped.turns, report.abandoned), (1, 0));
    assert_eq!(ended(first).await.status, TurnStatus::Completed);
    assert_eq!(ended(second).await.status, TurnStatus::Stopped);
    let late = world.agent.submit(
        TurnRequest::text(here(), owner(), "late"),
        Arc::new(ReportOnly),
        None,
    );
    assert_eq!(ended(late).await.status, TurnStatus::Refused);
}
