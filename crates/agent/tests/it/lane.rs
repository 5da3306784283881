//! Queues: order within a conversation, none between them, bounds, merging, and crashes that stay
//! where they happen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fermix_agent::{TurnRequest, TurnStatus};
use fermix_capability::{Audience, Capability};
use fermix_testkit::{FakeModel, Role, Step};
use fermix_types::{Category, ConversationKey, PolicyClass, ToolOutput};
use serde_json::json;
use tokio::sync::Notify;

use crate::tools::{self, Seen};
use crate::world::{Inbox, PATIENCE, Plan, ended, guest, here, owner};

/// Calls `gate` in the turn that answers `held`, and then answers like every other turn.
fn gated(
    held: &'static str,
    answer: impl Fn(&fermix_testkit::Seen) -> Step + Send + 'static,
) -> FakeModel {
    FakeModel::script_loop(move |seen| {
        if seen.last_user() == held && seen.last_results().is_empty() {
            Step::call("gate", json!({}))
        } else {
            answer(seen)
        }
    })
}

#[tokio::test]
async fn waiting_messages_are_merged_into_one_turn_or_answered_in_order() {
    for coalesce in [true, false] {
        let model = gated("first", |seen| {
            Step::say(format!("re: {}", seen.last_user()))
        });
        let (seen, open) = (Seen::new(), Arc::new(Notify::new()));
        let world = Plan::new(&model, vec![tools::gate(&seen, &open)])
            .with(move |settings| settings.coalesce = coalesce)
            .build();
        let first = world.submit("first");
        seen.asleep.notified().await;
        let elsewhere = world.send(TurnRequest::text(
            ConversationKey::root("cli", "2"),
            owner(),
            "elsewhere",
        ));
        let second = world.submit("second");
        let third = world.submit("third");
        let foreign = world.send(TurnRequest::text(here(), guest(), "foreign"));
        assert_eq!(second.turn_id == third.turn_id, coalesce);
        assert_eq!(ended(elsewhere).await.response, "re: elsewhere");
        assert!(
            world.inbox.texts() == ["re: elsewhere"],
            "the slow one is still running"
        );
        assert_eq!(world.agent.status().pending_requests, 3);
        open.notify_one();
        for turn in [first, second, third, foreign] {
            assert_eq!(ended(turn).await.status, TurnStatus::Completed);
        }
        let expected: &[&str] = if coalesce {
            &[
                "re: elsewhere",
                "re: first",
                "re: second\n\nthird",
                "re: foreign",
            ]
        } else {
            &[
                "re: elsewhere",
                "re: first",
                "re: second",
                "re: third",
                "re: foreign",
            ]
        };
        assert_eq!(world.inbox.texts(), expected);
        world.agent.shutdown(PATIENCE).await;
        assert!(world.agent.status().is_idle());
    }
}

#[tokio::test]
async fn only_messages_of_one_sender_are_merged() {
    let model = gated("first", |seen| {
        Step::say(format!("re: {}", seen.last_user()))
    });
    let (seen, open) = (Seen::new(), Arc::new(Notify::new()));
    let world = Plan::new(&model, vec![tools::gate(&seen, &open)]).build();
    let first = world.submit("first");
    seen.asleep.notified().await;
    let said = |caller: &Arc<fermix_capability::Caller>, sender: Option<&str>, text: &str| {
        let mut request = TurnRequest::text(here(), Arc::clone(caller), text);
        request.sender = sender.map(str::to_owned);
        world.send(request)
    };
    let (owner, guest) = (owner(), guest());
    let turns = [
        said(&guest, Some("7"), "a"),
        said(&guest, Some("7"), "b"),
        said(&guest, Some("8"), "c"),
        said(&guest, None, "d"),
        said(&guest, None, "e"),
        said(&owner, Some("1"), "f"),
        said(&owner, None, "g"),
        said(&owner, None, "h"),
    ];
    open.notify_one();
    ended(first).await;
    for turn in turns {
        assert_eq!(ended(turn).await.status, TurnStatus::Completed);
    }
    // The last user message of an owner's turn follows what the guests said.
    let texts: Vec<String> = world
        .inbox
        .texts()
        .iter()
        .map(|text| {
            let own = text.rsplit("</untrusted_tool_result>").next().unwrap();
            own.trim_start_matches("re: ").trim().to_owned()
        })
        .collect();
    assert_eq!(
        texts,
        ["first", "a\n\nb", "c", "d", "e", "f", "g\n\nh"],
        "{texts:?}"
    );
}

#[tokio::test]
async fn a_full_queue_says_so_and_loses_nothing() {
    let model = gated("0", |_| Step::say("ok"));
    let (seen, open) = (Seen::new(), Arc::new(Notify::new()));
    let world = Plan::new(&model, vec![tools::gate(&seen, &open)]).build();
    let mut turns = vec![world.submit("0")];
    seen.asleep.notified().await;
    turns.extend((1..=20).map(|number| world.submit(&number.to_string())));
    let refused = ended(world.submit("one too many")).await;
    assert_eq!(refused.status, TurnStatus::Refused);
    assert_eq!(
        refused.response,
        "Still busy with 21 requests. Please send that again later."
    );
    open.notify_one();
    for turn in turns {
        assert_eq!(ended(turn).await.status, TurnStatus::Completed);
    }
    assert_eq!(
        model.request_count(),
        3,
        "twenty waiting messages are one turn"
    );
    let users = world
        .history()
        .await
        .iter()
        .filter(|m| m.role == fermix_store::Role::User)
        .count();
    assert_eq!(users, 21);
}

#[tokio::test]
async fn a_crash_ends_one_turn_with_an_apology() {
    let model = FakeModel::start([
        Step::say("fine"),
        Step::say("unheard"),
        Step::say("fine again"),
    ]);
    let world = Plan::new(&model, vec![]).build();
    let broken = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&broken);
    let trap = Capability::builtin(
        "trap",
        PolicyClass::ReadOnly,
        Category::System,
        Audience::Anyone,
    )
    .advertise_when(move |_| {
        assert!(!switch.load(Ordering::SeqCst), "our own defect");
        false
    })
    .raw_handler(json!({"type": "object", "properties": {}}), |_, _| async {
        Ok(ToolOutput::from(""))
    })
    .unwrap();
    world.registry.register(trap).unwrap();
    let crashed = ended(world.submit("one")).await;
    assert_eq!(crashed.status, TurnStatus::Crashed);
    assert!(crashed.response.starts_with("Sorry") && !crashed.response.contains("defect"));
    broken.store(false, Ordering::SeqCst);
    assert_eq!(world.ask("two").await.response, "fine");

    let panicking = Arc::new(Inbox {
        panics: true,
        ..Inbox::default()
    });
    let lost = world
        .agent
        .submit(TurnRequest::text(here(), owner(), "three"), panicking, None);
    assert_eq!(ended(lost).await.status, TurnStatus::Failed);
    assert_eq!(world.ask("four").await.response, "fine again");
    assert_eq!(
        world.inbox.texts(),
        [&crashed.response, "fine", "fine again"]
    );
}

#[tokio::test]
async fn messages_that_cannot_start_a_turn_are_refused() {
    let model = FakeModel::start(Vec::<Step>::new());
    let world = Plan::new(&model, vec![]).build();
    assert_eq!(world.ask(" \n").await.status, TurnStatus::Refused);
    assert_eq!(
        world
            .ask(&"x".repeat(fermix_agent::MAX_MESSAGE + 1))
            .await
            .status,
        TurnStatus::Refused
    );
    let mut request = TurnRequest::text(here(), owner(), "look");
    request.images = vec![tools::png(); 11];
    assert_eq!(ended(world.send(request)).await.status, TurnStatus::Refused);
    assert!(world.history().await.is_empty());
}

#[tokio::test]
async fn hundreds_of_conversations_leave_nothing_behind() {
    let model = FakeModel::script_loop(|seen| {
        if seen
            .messages
            .last()
            .is_some_and(|message| message.role == Role::Tool)
        {
            Step::say("done")
        } else {
            Step::call("file_read", json!({"path": "a"}))
        }
    });
    let seen = Seen::new();
    let world = Plan::new(&model, vec![tools::file_read(&seen)]).build();
    let turns: Vec<_> = (0..200)
        .map(|chat| {
            let key = ConversationKey::root("cli", chat.to_string());
            world.send(TurnRequest::text(key, owner(), format!("go {chat}")))
        })
        .collect();
    for turn in turns {
        assert_eq!(ended(turn).await.response, "done");
    }
    world.agent.shutdown(PATIENCE).await;
    assert!(world.agent.status().is_idle());
    assert_eq!(seen.count(), 200);
}

#[tokio::test]
async fn a_message_of_its_own_is_not_merged_and_is_stopped_alone() {
    let model = gated("first", |seen| {
        Step::say(format!("re: {}", seen.last_user()))
    });
    let (seen, open) = (Seen::new(), Arc::new(Notify::new()));
    let world = Plan::new(&model, vec![tools::gate(&seen, &open)])
        .with(|settings| settings.coalesce = true)
        .build();
    let alone = |text: &str| {
        world.send(TurnRequest {
            is_alone: true,
            ..TurnRequest::text(here(), owner(), text)
        })
    };
    let first = alone("first");
    seen.asleep.notified().await;
    let (second, third) = (alone("second"), alone("third"));
    let merged = [world.submit("fourth"), world.submit("fifth")];
    assert_ne!(second.turn_id, third.turn_id);
    assert_eq!(merged[0].turn_id, merged[1].turn_id);
    assert!(world.agent.is_busy(&here()));

    let stopped = world.agent.stop_turn(&here(), &second.turn_id);
    assert_eq!((stopped.turns, stopped.queued), (0, 1));
    assert_eq!(ended(second).await.status, TurnStatus::Stopped);
    let stopped = world.agent.stop_turn(&here(), &first.turn_id);
    assert_eq!((stopped.turns, stopped.queued), (1, 0));
    assert_eq!(ended(first).await.status, TurnStatus::Stopped);
    assert_eq!(ended(third).await.response, "re: third");
    for turn in merged {
        assert_eq!(ended(turn).await.response, "re: fourth\n\nfifth");
    }
    world.agent.shutdown(PATIENCE).await;
    assert!(!world.agent.is_busy(&here()));
}
