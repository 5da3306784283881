//! The end of a turn: what reaches the person, and what a stop still prevents.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fermix_agent::{Agent, DeliveryError, ReplyPort, TurnRequest, TurnStatus};
use fermix_capability::{Audience, Capability};
use fermix_store::conversations::UNFINISHED_MARKER;
use fermix_store::{Delivered, Role};
use fermix_testkit::{FakeModel, Step};
use fermix_types::{Category, PolicyClass, ToolOutput, TraceKind};
use serde_json::json;
use tokio::sync::Notify;

use crate::tools::{self, Seen};
use crate::world::{Plan, World, ended, here, owner};

/// A channel on which something happens while it delivers.
#[derive(Default)]
struct Busy {
    deliveries: AtomicUsize,
    begun: Notify,
    hangs: bool,
    /// Stopped in the middle of a delivery that works.
    stops: OnceLock<Agent>,
}

#[async_trait]
impl ReplyPort for Busy {
    async fn deliver(&self, _text: &str, _note: Option<&str>) -> Result<(), DeliveryError> {
        self.deliveries.fetch_add(1, Ordering::SeqCst);
        self.begun.notify_one();
        if self.hangs {
            std::future::pending::<()>().await;
        }
        if let Some(agent) = self.stops.get() {
            assert_eq!(agent.stop(&here()).turns, 1);
        }
        Ok(())
    }
}

impl Busy {
    fn hanging() -> Arc<Self> {
        Arc::new(Self {
            hangs: true,
            ..Self::default()
        })
    }

    fn count(&self) -> usize {
        self.deliveries.load(Ordering::SeqCst)
    }
}

async fn roles(world: &World) -> Vec<Role> {
    let history = world.history().await;
    history.iter().map(|message| message.role).collect()
}

#[tokio::test]
async fn a_stop_between_delivery_and_commit_leaves_the_marker() {
    let model = FakeModel::start([Step::say("delivered"), Step::say("next")]);
    let world = Plan::new(&model, vec![]).build();
    let port = Arc::new(Busy::default());
    assert!(port.stops.set(world.agent.clone()).is_ok());
    let request = TurnRequest::text(here(), owner(), "go");
    let report = ended(world.agent.submit(request, port.clone(), None)).await;
    assert_eq!(report.status, TurnStatus::Stopped);
    assert_eq!(port.count(), 1, "nothing is said after a stop");
    assert_eq!(roles(&world).await, [Role::User, Role::Marker]);
    assert_eq!(world.ask("and now?").await.response, "next");
    let replayed = model.last_request();
    assert!(!String::from_utf8_lossy(&replayed.raw).contains("delivered"));
}

#[tokio::test]
async fn a_stop_reaches_a_delivery_that_hangs() {
    // The second turn's answer is the sentence about its failure.
    for step in [Step::say("never seen"), Step::status(400)] {
        let model = FakeModel::start([step, Step::say("next")]);
        let world = Plan::new(&model, vec![]).build();
        let port = Busy::hanging();
        let request = TurnRequest::text(here(), owner(), "go");
        let turn = world.agent.submit(request, port.clone(), None);
        port.begun.notified().await;
        let began = Instant::now();
        assert_eq!(world.agent.stop(&here()).turns, 1);
        let report = ended(turn).await;
        assert!(
            began.elapsed() < Duration::from_secs(6),
            "{:?}",
            began.elapsed()
        );
        assert_ne!(report.status, TurnStatus::Completed);
        assert_eq!(port.count(), 1);
        assert_eq!(roles(&world).await, [Role::User, Role::Marker]);
        assert_eq!(world.ask("and now?").await.response, "next");
    }
}

#[tokio::test]
async fn a_time_limit_reaches_a_delivery_that_hangs_and_sends_nothing_after_it() {
    let model = FakeModel::start(Step::say("never seen"));
    let world = Plan::new(&model, vec![]).build();
    let port = Busy::hanging();
    let mut request = TurnRequest::text(here(), owner(), "go");
    request.timeout = Some(Duration::from_secs(1));
    let report = ended(world.agent.submit(request, port.clone(), None)).await;
    assert_eq!((report.status, port.count()), (TurnStatus::Failed, 1));
    assert_eq!(roles(&world).await, [Role::User, Role::Marker]);
}

#[tokio::test]
async fn a_stopped_turn_that_fails_says_nothing() {
    let model = FakeModel::start(Vec::<Step>::new());
    let world = Plan::new(&model, vec![]).build();
    let (agent, armed) = (world.agent.clone(), Arc::new(AtomicBool::new(true)));
    let trap = Capability::builtin(
        "trap",
        PolicyClass::ReadOnly,
        Category::System,
        Audience::Anyone,
    )
    .advertise_when(move |_| {
        assert!(!armed.swap(false, Ordering::SeqCst) || agent.stop(&here()).turns == 0);
        true
    })
    .raw_handler(json!({"type": "object", "properties": {}}), |_, _| async {
        Ok(ToolOutput::from(""))
    })
    .unwrap();
    world.registry.register(trap).unwrap();
    let report = world.ask("go").await;
    assert_eq!(report.status, TurnStatus::Crashed);
    assert!(world.inbox.texts().is_empty() && report.response.is_empty());
}

#[tokio::test]
async fn replies_without_words_store_what_they_were() {
    let attach = || Step::call("send_attachment", json!({"path": "a.png"}));
    let quiet = || Step::say(" \n");
    for (steps, expected) in [
        (vec![attach(), quiet()], Some(Delivered::Attachment)),
        (
            vec![attach(), Step::call("react", json!({}))],
            Some(Delivered::ReactionAndAttachment),
        ),
        (
            vec![Step::call("react", json!({}))],
            Some(Delivered::Reaction),
        ),
        (
            // Only what succeeded counts.
            vec![
                Step::call("send_attachment", json!({"pth": "a.png"})),
                quiet(),
            ],
            None,
        ),
    ] {
        let model = FakeModel::start(steps);
        let seen = Seen::new();
        let world = Plan::new(&model, vec![tools::attachment(&seen), tools::react(&seen)]).build();
        let report = world.ask("send it").await;
        let last = world.history().await.pop().unwrap();
        assert_eq!(last.role, Role::Marker);
        match expected {
            Some(delivered) => {
                assert_eq!(report.status, TurnStatus::Completed);
                assert_eq!(last.text, delivered.marker());
                assert!(world.inbox.texts().is_empty());
            }
            None => {
                assert_eq!(report.status, TurnStatus::Failed);
                assert!(last.text.contains("was not finished"), "{}", last.text);
                assert!(world.inbox.texts()[0].starts_with("No response came back"));
            }
        }
    }
}

#[tokio::test]
async fn silence_is_a_failure_on_every_wire_unless_something_was_delivered() {
    let attach = || Step::call("send_attachment", json!({"path": "a.png"}));
    for provider in ["openai_compatible", "anthropic", "xai"] {
        for silence in [Step::empty, Step::nothing, || Step::say(" \n")] {
            let model = FakeModel::start([silence(), attach(), silence(), Step::say("hello")]);
            let seen = Seen::new();
            let world = Plan::new(&model, vec![tools::attachment(&seen)])
                .through(provider)
                .build();
            let silent = world.ask("one").await;
            assert_eq!(silent.status, TurnStatus::Failed, "{provider}");
            assert_eq!(silent.response, "No response came back. Please try again.");
            assert_eq!(world.inbox.texts(), [silent.response], "{provider}");
            let row = world.rows(TraceKind::AgentEvent).pop().unwrap();
            assert_eq!(row["error_kind"], "empty_response");

            let acted = world.ask("two").await;
            assert_eq!(acted.status, TurnStatus::Completed, "{provider}: {acted:?}");
            assert_eq!(acted.response, "");
            assert_eq!(world.ask("three").await.response, "hello");
            let ends: Vec<String> = world
                .history()
                .await
                .into_iter()
                .filter(|message| message.role == Role::Marker)
                .map(|message| message.text)
                .collect();
            assert_eq!(
                ends,
                [UNFINISHED_MARKER, Delivered::Attachment.marker()],
                "{provider}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_cut_by_the_length_limit_says_so_and_its_last_call_does_not_run() {
    for provider in ["openai_compatible", "anthropic", "xai"] {
        let model = FakeModel::start([
            Step::calls([
                ("file_write", json!({"path": "whole"})),
                ("file_write", json!({"path": "cut"})),
            ])
            .truncated(),
            Step::call("file_write", json!({"path": "again"})),
            Step::say("It goes on and").truncated(),
            Step::say("whole"),
        ]);
        let seen = Seen::new();
        let world = Plan::new(&model, vec![tools::file_write(&seen)])
            .through(provider)
            .build();
        let report = world.ask("write").await;
        assert_eq!(report.response, "It goes on and", "{provider}: {report:?}");
        let note = report.note.unwrap();
        assert!(
            note.contains("length limit") && !note.contains('\n'),
            "{note}"
        );
        assert_eq!(seen.paths(), ["whole", "again"], "{provider}");
        assert_eq!(report.tool_failures, 1);
        let last = model.last_request();
        let results: Vec<&str> = last.results().map(|result| result.text.as_str()).collect();
        assert!(
            results[1].contains("was cut off; send the call again"),
            "{results:?}"
        );
        assert_eq!(world.inbox.delivered.lock().unwrap()[0].1, Some(note));
        assert_eq!(world.ask("go on").await.note, None);
    }
}
