//! A long conversation, as a provider with a prefix cache sees it.

use fermix_testkit::{Checks, FakeModel, Rule, Script, Step};
use serde_json::json;

use crate::tools::{self, Seen};
use crate::world::Plan;

#[tokio::test]
async fn the_beginning_of_a_long_conversation_changes_once_in_many_turns() {
    let model = FakeModel::start_with(
        Script::each(|seen| {
            if seen.last_results().is_empty() && seen.last_user().ends_with('0') {
                Step::call("file_read", json!({"path": seen.last_user()}))
            } else {
                Step::say(format!("{}!", seen.last_user()))
            }
        }),
        Checks::all(),
    );
    let seen = Seen::new();
    let world = Plan::new(&model, vec![tools::file_read(&seen)])
        .through("xai")
        .build();
    for turn in 0..125 {
        let report = world.ask(&format!("question {turn}")).await;
        assert!(report.response.ends_with(&format!("question {turn}!")));
    }
    // The 202nd message is one too many, and the oldest hundred go at once.
    let broken: Vec<Rule> = model
        .take_violations()
        .into_iter()
        .map(|violation| violation.rule)
        .collect();
    assert_eq!(broken, [Rule::StableHistory]);
    let last = model.last_request();
    assert_eq!(last.messages[0].text, "question 50");
    assert_eq!(last.messages.len(), 2 * 74 + 1);
}
