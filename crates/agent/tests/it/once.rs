//! Work that is counted once and done once, however it is asked for.

use fermix_agent::TurnStatus;
use fermix_testkit::{FakeModel, Script, Step};
use serde_json::json;

use crate::tools::{self, Seen};
use crate::world::Plan;

#[tokio::test]
async fn direct_and_bridged_calls_are_one_call_to_the_loop_guard() {
    let mut number = 0;
    let model = FakeModel::start(Script::each(move |seen| {
        number += 1;
        if seen.tools.is_empty() || seen.last_user().contains("remains undone") {
            return Step::say("This is what I know.");
        }
        match number % 3 {
            0 => Step::call("file_read", json!({"path": "a"})),
            1 => Step::call(
                "tool_call",
                json!({"name": "file_read", "arguments": {"path": "a"}}),
            ),
            _ => Step::call(
                "tool_call",
                json!({"name": "file_read", "arguments": "{\"path\": \"a\"}"}),
            ),
        }
    }));
    let seen = Seen::new();
    let world = Plan::new(&model, vec![tools::bridge(), tools::file_read(&seen)]).build();
    let report = world.ask("read it").await;
    assert_eq!(report.response, "This is what I know.");
    assert_eq!((report.tool_calls, seen.count()), (5, 3));
    let expected = ["ok", "ok", "ok", "loop_guard", "loop_guard"]
        .map(|outcome| ("file_read".to_owned(), outcome.to_owned()));
    assert_eq!(world.tool_rows(), expected);
}

#[tokio::test]
async fn a_continuation_that_is_cut_is_asked_again_and_its_tools_are_not_run_again() {
    for provider in ["openai_compatible", "anthropic", "xai"] {
        let model = FakeModel::start([
            Step::call("file_write", json!({"path": "a"})),
            Step::say("lost").cut_after(0),
            Step::say("written"),
        ]);
        let seen = Seen::new();
        let world = Plan::new(&model, vec![tools::file_write(&seen)])
            .through(provider)
            .build();
        let report = world.ask("write").await;
        assert_eq!(
            (report.status, report.response.as_str()),
            (TurnStatus::Completed, "written"),
            "{provider}: {report:?}"
        );
        assert_eq!((model.request_count(), seen.count()), (3, 1), "{provider}");
        let requests = model.requests();
        assert_eq!(requests[1].raw, requests[2].raw, "{provider}");
        assert_eq!(world.tool_rows().len(), 1);
    }
}
