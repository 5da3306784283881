//! A conversation that sends again sends the same bytes first.

use fermix_testkit::{Checks, FakeModel, Rule, Script, Step, Wire};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::client::{assistant, path, post, request, results, step, tool, user};

async fn broken_with(checks: Checks, wire: Wire, bodies: &[Value]) -> Vec<Rule> {
    let model = FakeModel::start_with(Script::each(|_| Step::say("ok")), checks);
    for body in bodies {
        post(&model, &path(wire), body).await;
    }
    model
        .take_violations()
        .into_iter()
        .map(|violation| violation.rule)
        .collect()
}

async fn broken(wire: Wire, bodies: &[Value]) -> Vec<Rule> {
    broken_with(Checks::all(), wire, bodies).await
}

fn set_system(wire: Wire, body: &mut Value, text: &str) {
    match wire {
        Wire::Responses => body["instructions"] = text.into(),
        Wire::Chat => body["messages"][0]["content"] = text.into(),
        Wire::Messages => body["system"][0]["text"] = text.into(),
    }
}

/// The two requests of a turn with one call.
fn turn(wire: Wire) -> [Value; 2] {
    let ask = vec![user(wire, "read a")];
    let answered = [ask.clone(), step(wire, &["c1"]), results(wire, &["c1"])].concat();
    [request(wire, &ask), request(wire, &answered)]
}

#[tokio::test]
async fn inside_a_turn_nothing_before_the_new_messages_changes() {
    for wire in Wire::ALL {
        let [first, second] = turn(wire);
        assert_eq!(
            broken(wire, &[first.clone(), second.clone()]).await,
            [],
            "{wire:?}"
        );
        // A re-issued request is its own prefix.
        assert_eq!(
            broken(wire, &[first.clone(), second.clone(), second.clone()]).await,
            []
        );

        let mut other_tools = second.clone();
        other_tools["tools"] = json!([tool(wire, "other", &json!({"type": "object"}))]);
        assert_eq!(
            broken(wire, &[first.clone(), other_tools.clone()]).await,
            [Rule::StableTools]
        );
        let tolerant = Checks::all().without_stable_prefix();
        assert_eq!(
            broken_with(tolerant, wire, &[first.clone(), other_tools]).await,
            []
        );

        let mut closing = second.clone();
        closing.as_object_mut().unwrap().shift_remove("tools");
        assert_eq!(
            broken(wire, &[first.clone(), closing]).await,
            [],
            "the closing request"
        );

        let rewritten = [
            vec![user(wire, "read b")],
            step(wire, &["c1"]),
            results(wire, &["c1"]),
        ];
        let mut rewritten = request(wire, &rewritten.concat());
        rewritten["prompt_cache_key"] = "c1".into();
        // Without a cache key a different first message is a different conversation.
        let expected = if wire == Wire::Messages {
            vec![]
        } else {
            vec![Rule::StableMessages, Rule::StableItems]
        };
        let mut keyed = first.clone();
        keyed["prompt_cache_key"] = "c1".into();
        if wire == Wire::Messages {
            rewritten
                .as_object_mut()
                .unwrap()
                .shift_remove("prompt_cache_key");
            keyed = first.clone();
        }
        assert_eq!(
            broken(wire, &[keyed, rewritten]).await,
            expected,
            "{wire:?}"
        );
    }
}

#[tokio::test]
async fn a_shortened_result_keeps_its_place() {
    for wire in Wire::ALL {
        let ask = vec![user(wire, "read a")];
        let steps = |result: Value| {
            let items = [ask.clone(), step(wire, &["c1"]), vec![result]].concat();
            let more = [step(wire, &["c2"]), results(wire, &["c2"])].concat();
            request(wire, &[items, more].concat())
        };
        let result = results(wire, &["c1"]).remove(0);
        let mut shortened = result.clone();
        match wire {
            Wire::Responses => shortened["output"] = "short".into(),
            Wire::Chat => shortened["content"] = "short".into(),
            Wire::Messages => shortened["content"][0]["content"] = "short".into(),
        }
        let before = [ask.clone(), step(wire, &["c1"]), vec![result]].concat();
        let before = request(wire, &before);
        assert_eq!(
            broken(wire, &[before.clone(), steps(shortened.clone())]).await,
            [Rule::StableMessages],
            "{wire:?}"
        );
        let tolerant = Checks::all().for_shortened_results();
        let bodies = [before.clone(), steps(shortened)];
        assert_eq!(broken_with(tolerant.clone(), wire, &bodies).await, []);
        let gone = [ask.clone(), step(wire, &["c2"]), results(wire, &["c2"])].concat();
        assert_eq!(
            broken_with(tolerant, wire, &[before, request(wire, &gone)]).await,
            [Rule::StableItems],
            "{wire:?}"
        );
    }
}

#[tokio::test]
async fn between_turns_tools_and_system_text_stay_and_history_may_become_text() {
    for wire in [Wire::Responses, Wire::Chat] {
        let [first, second] = turn(wire);
        let later = [
            user(wire, "read a"),
            assistant(wire, "It says hello."),
            user(wire, "and b?"),
        ];
        let later = request(wire, &later);
        assert_eq!(
            broken(wire, &[first.clone(), second.clone(), later.clone()]).await,
            []
        );

        let reworded = [
            user(wire, "read a, please"),
            assistant(wire, "It says hello."),
            user(wire, "and b?"),
        ];
        assert_eq!(
            broken(wire, &[first.clone(), request(wire, &reworded)]).await,
            [Rule::StableHistory]
        );
        let start_over = request(wire, &[user(wire, "hi")]);
        assert_eq!(broken(wire, &[first.clone(), start_over]).await, []);
        let mut edited = later.clone();
        edited[if wire == Wire::Chat {
            "messages"
        } else {
            "input"
        }]
        .as_array_mut()
        .unwrap()
        .push(user(wire, "and c?"));
        assert_eq!(
            broken(wire, &[first.clone(), later.clone(), edited.clone()]).await,
            []
        );
        assert_eq!(
            broken(wire, &[first.clone(), edited, later.clone()]).await,
            [Rule::StableHistory],
            "a message that was replayed is gone"
        );

        let mut renamed = later.clone();
        set_system(wire, &mut renamed, "Be long.");
        assert_eq!(
            broken(wire, &[first.clone(), renamed]).await,
            [Rule::StableSystem]
        );

        let (mut monday, mut tuesday) = (first.clone(), later.clone());
        set_system(wire, &mut monday, "Today is 2026-01-05 (UTC).");
        set_system(wire, &mut tuesday, "Today is 2026-01-06 (UTC).");
        assert_eq!(broken(wire, &[monday, tuesday]).await, []);

        let mut other_tools = later.clone();
        other_tools["tools"] = json!([tool(wire, "other", &json!({"type": "object"}))]);
        assert_eq!(
            broken(wire, &[first.clone(), other_tools.clone()]).await,
            [Rule::StableTools]
        );
        let mut elsewhere = other_tools;
        elsewhere["prompt_cache_key"] = "c2".into();
        assert_eq!(
            broken(wire, &[first, elsewhere]).await,
            [],
            "another conversation"
        );
    }
}

#[tokio::test]
async fn cache_marks_may_move_along() {
    let wire = Wire::Messages;
    let [mut first, mut second] = turn(wire);
    let mark = json!({"type": "ephemeral"});
    first["messages"][0]["content"][0]["cache_control"] = mark.clone();
    second["messages"][2]["content"][0]["cache_control"] = mark;
    second["messages"][0]["content"] = "read a".into();
    assert_eq!(broken(wire, &[first, second]).await, []);
}
