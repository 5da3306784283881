//! The guard of calls: asked last, waited for outside the tool's time, and never passed by.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fermix_capability::guard::Refusal;
use fermix_capability::{
    CallGuard, CallOutcome, Deferral, GuardedCall, Registry, Ruling, TurnScope,
};
use fermix_types::ToolOutput;
use serde_json::json;

use crate::support::{Turn, owner, read_only, registry, tool_call, turn};

#[derive(Clone, Copy, Debug)]
enum Does {
    Waits(Duration),
    WaitsForEver,
    Refuses,
    Panics,
}

#[derive(Debug)]
struct Guard {
    does: Does,
    asked: AtomicUsize,
}

#[async_trait]
impl CallGuard for Guard {
    async fn rule(&self, call: GuardedCall<'_>) -> Ruling {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(
            call.arguments.contains_key("word"),
            "asked about what was checked"
        );
        match self.does {
            Does::Waits(long) => {
                tokio::time::sleep(long).await;
                Ruling::Run(Some("confirmed"))
            }
            Does::WaitsForEver => std::future::pending().await,
            Does::Refuses => Ruling::Refuse(
                Refusal::new("test", "held_back", "held_back: not today").labelled("held_denied"),
            ),
            Does::Panics => panic!("a guard of the test"),
        }
    }
}

/// A tool that takes half a second of its second, and counts.
fn counting() -> (Registry, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let schema = json!({
        "type": "object",
        "properties": {"word": {"type": "string"}},
        "required": ["word"],
    });
    let tool = read_only("count")
        .deadline(Duration::from_secs(1))
        .raw_handler(schema, move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                Ok(ToolOutput::from("done"))
            }
        })
        .expect("the stand-in is valid");
    (registry(Deferral::On, [tool]), runs)
}

fn guarded(registry: &Registry, does: Does) -> (Turn, Arc<Guard>) {
    let guard = Arc::new(Guard {
        does,
        asked: AtomicUsize::new(0),
    });
    let turn = turn(registry, owner());
    let dispatcher = turn.dispatcher.clone().with_guard(guard.clone());
    (Turn { dispatcher, ..turn }, guard)
}

async fn call(turn: &Turn) -> CallOutcome {
    turn.call("count", r#"{"word": "x"}"#).await
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_person_is_not_part_of_the_tools_time() {
    let (registry, runs) = counting();
    let (turn, _) = guarded(&registry, Does::Waits(Duration::from_secs(50)));
    let outcome = call(&turn).await;
    assert_eq!((outcome.outcome, outcome.text.as_str()), ("ok", "done"));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(turn.row()["access"], "confirmed");
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_a_row() {
    let (registry, runs) = counting();
    let (turn, _) = guarded(&registry, Does::Refuses);
    let outcome = call(&turn).await;
    assert_eq!(outcome.text, "Error: held_back: not today");
    assert!(outcome.is_error && !outcome.ran);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let row = turn.row();
    assert_eq!(
        (&row["outcome"], &row["access"]),
        (&json!("held_back"), &json!("held_denied"))
    );
    assert_eq!(
        row["enforcement"],
        json!({"source": "test", "decision": "deny", "phase": "pre_execution"})
    );
}

#[tokio::test]
async fn a_guard_that_fails_has_said_no() {
    let (registry, runs) = counting();
    let (turn, _) = guarded(&registry, Does::Panics);
    let outcome = call(&turn).await;
    assert_eq!(outcome.outcome, "guard_failed");
    assert!(!outcome.ran);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_stop_ends_the_wait() {
    let (registry, runs) = counting();
    let (turn, guard) = guarded(&registry, Does::WaitsForEver);
    let scope: TurnScope = turn.scope.clone();
    let stopping = async {
        while guard.asked.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        scope.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(call(&turn), stopping);
    assert_eq!(outcome.outcome, "cancelled");
    assert!(!outcome.ran);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_is_refused_without_a_person_is_not_asked_about() {
    let (registry, _) = counting();
    let (turn, guard) = guarded(&registry, Does::Refuses);
    for (name, arguments) in [("count", "{}"), ("count", "not json"), ("nothing", "{}")] {
        let outcome = turn
            .dispatcher
            .call(&turn.scope, tool_call(name, arguments))
            .await;
        assert!(outcome.is_error);
    }
    assert_eq!(guard.asked.load(Ordering::SeqCst), 0);
}
