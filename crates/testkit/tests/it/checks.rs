//! A request that breaks a rule is flagged for that rule, and a faultless one for none.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fermix_testkit::{Checks, FakeModel, Role, Rule, Script, Step, Wire};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::client::{
    assistant, path, path_schema, post, post_text, request, results, step, tool, user,
};

fn speaking() -> Script {
    Script::each(|_| Step::say("ok"))
}

/// Posts one body to a fresh server and returns the rules it broke.
async fn broken(path: &str, body: &Value) -> Vec<Rule> {
    let model = FakeModel::start(speaking());
    post(&model, path, body).await;
    let mut rules: Vec<Rule> = model
        .take_violations()
        .into_iter()
        .map(|violation| violation.rule)
        .collect();
    rules.dedup();
    rules
}

fn joined(parts: &[Vec<Value>]) -> Vec<Value> {
    parts.concat()
}

#[tokio::test]
async fn a_faultless_conversation_breaks_nothing_and_reads_the_same_on_every_wire() {
    for wire in Wire::ALL {
        let messages = joined(&[
            vec![
                user(wire, "hi"),
                assistant(wire, "hello"),
                user(wire, "read a and b"),
            ],
            step(wire, &["c1", "c2"]),
            results(wire, &["c1", "c2"]),
        ]);
        let model = FakeModel::start(speaking());
        let answer = post(&model, &path(wire), &request(wire, &messages)).await;
        assert_eq!(answer.status, 200);
        model.assert_clean();

        let seen = model.last_request();
        assert_eq!(
            (seen.wire, seen.model.as_str(), seen.system.as_str()),
            (wire, "m", "Be brief.")
        );
        let roles: Vec<Role> = seen.messages.iter().map(|message| message.role).collect();
        assert_eq!(
            roles,
            [
                Role::User,
                Role::Assistant,
                Role::User,
                Role::Assistant,
                Role::Tool,
                Role::Tool
            ]
        );
        assert_eq!(seen.last_user(), "read a and b");
        assert_eq!(seen.messages[3].calls.len(), 2);
        assert_eq!(seen.messages[3].calls[0].arguments, r#"{"path":"a"}"#);
        assert_eq!(seen.result_of("c2"), Some("hello"));
        assert_eq!(seen.last_results().len(), 2);
        assert_eq!(seen.tool_names(), ["file_read"]);
        assert_eq!(seen.tools[0].schema, path_schema());
        assert!(seen.authorized);
        assert_eq!(seen.key.as_deref(), Some(FakeModel::KEY));
        assert_eq!(seen.headers["x-trace"], "7");
        assert!(!seen.headers.contains_key("authorization"));
    }
}

#[tokio::test]
async fn results_and_calls_belong_together() {
    for wire in Wire::ALL {
        let hi = || vec![user(wire, "hi")];
        let calls = |ids: &[&str]| step(wire, ids);
        let answers = |ids: &[&str]| results(wire, ids);
        let cases = [
            (
                "a call without result",
                Rule::Pairing,
                joined(&[hi(), calls(&["a"]), hi()]),
            ),
            (
                "one of two results",
                Rule::Pairing,
                joined(&[hi(), calls(&["a", "b"]), answers(&["a"])]),
            ),
            (
                "a result without call",
                Rule::Pairing,
                joined(&[hi(), answers(&["a"])]),
            ),
            (
                "a foreign result",
                Rule::Pairing,
                joined(&[hi(), calls(&["a"]), answers(&["a", "b"])]),
            ),
            (
                "a result twice",
                Rule::Pairing,
                joined(&[hi(), calls(&["a"]), answers(&["a", "a"])]),
            ),
            (
                "a message in between",
                Rule::Pairing,
                joined(&[hi(), calls(&["a"]), hi(), answers(&["a"])]),
            ),
            (
                "an id used in two steps",
                Rule::CallIds,
                joined(&[
                    hi(),
                    calls(&["a"]),
                    answers(&["a"]),
                    calls(&["a"]),
                    answers(&["a"]),
                ]),
            ),
            (
                "an id used twice in a step",
                Rule::CallIds,
                joined(&[hi(), calls(&["a", "a"]), answers(&["a"])]),
            ),
            (
                "an empty id",
                Rule::CallIds,
                joined(&[hi(), calls(&[""]), hi()]),
            ),
        ];
        for (what, rule, messages) in cases {
            let rules = broken(&path(wire), &request(wire, &messages)).await;
            assert!(rules.contains(&rule), "{what} on {wire:?}: {rules:?}");
        }
    }
}

#[tokio::test]
async fn tools_are_legal() {
    let object = |more: Value| {
        let mut schema = path_schema();
        for (name, value) in more.as_object().expect("an object literal") {
            schema[name] = value.clone();
        }
        schema
    };
    let long = "x".repeat(65);
    let bad_schemas = [
        json!({}),
        json!({"oneOf": [{"type": "object"}]}),
        object(json!({"anyOf": [{"required": ["path"]}]})),
        object(json!({"required": "path"})),
        object(json!({"properties": {"a": {"type": "text"}}})),
        object(json!({"properties": {"a": {"$ref": "#/$defs/absent"}}})),
        object(json!({"properties": {"a": {"$ref": "#absent"}}})),
        object(json!({"properties": {"a": {"$ref": "https://example.com/schema"}}})),
    ];
    let good_schemas = [
        json!({"type": "object"}),
        object(json!({"$defs": {"path": {"type": ["string", "null"]}, "a/b %": {"$anchor": "n"}}})),
        object(
            json!({"properties": {"a": {"$ref": "#/$defs/a~1b%20%25", "default": {"$ref": "#/no"}}},
            "$defs": {"a/b %": {"type": "string"}}}),
        ),
        object(
            json!({"properties": {"$ref": {"type": "string"}, "b": {"$ref": "#n"}, "c": {"$ref": "#"}},
            "$defs": {"n": {"$anchor": "n"}}}),
        ),
    ];
    for wire in Wire::ALL {
        let with_tools = |tools: Value| {
            let mut body = request(wire, &[user(wire, "hi")]);
            body["tools"] = tools;
            body
        };
        let mut cases: Vec<(Value, Vec<Rule>)> = vec![
            (
                json!([tool(wire, "a.b", &path_schema())]),
                vec![Rule::ToolNames],
            ),
            (
                json!([tool(wire, &long, &path_schema())]),
                vec![Rule::ToolNames],
            ),
            (
                json!([tool(wire, "", &path_schema())]),
                vec![Rule::ToolNames],
            ),
            (
                json!([
                    tool(wire, "a", &path_schema()),
                    tool(wire, "a", &path_schema())
                ]),
                vec![Rule::ToolNames],
            ),
            (json!([]), vec![Rule::Body]),
        ];
        cases.extend(
            bad_schemas
                .iter()
                .map(|s| (json!([tool(wire, "a", s)]), vec![Rule::Schemas])),
        );
        cases.extend(
            good_schemas
                .iter()
                .map(|s| (json!([tool(wire, "a", s)]), vec![])),
        );
        let other = if wire == Wire::Chat {
            Wire::Messages
        } else {
            Wire::Chat
        };
        for (tools, expected) in cases {
            let rules = broken(&path(wire), &with_tools(tools.clone())).await;
            assert_eq!(rules, expected, "{wire:?} {tools}");
        }
        let foreign = with_tools(json!([tool(other, "a", &path_schema())]));
        assert!(
            broken(&path(wire), &foreign)
                .await
                .contains(&Rule::ToolNames),
            "{wire:?}"
        );
    }
}

#[tokio::test]
async fn each_wire_has_its_own_prohibitions() {
    let changed = |wire: Wire, change: &dyn Fn(&mut Value)| {
        let mut body = request(
            wire,
            &[user(wire, "hi"), assistant(wire, "yes"), user(wire, "go")],
        );
        change(&mut body);
        (path(wire), body)
    };
    let mark = json!({"type": "ephemeral"});
    let cases = [
        (
            Rule::Body,
            changed(Wire::Chat, &|b| b["stream"] = false.into()),
        ),
        (
            Rule::Body,
            changed(Wire::Chat, &|b| b["model"] = " ".into()),
        ),
        (
            Rule::Body,
            changed(Wire::Responses, &|b| b["input"] = json!([])),
        ),
        (
            Rule::Parameters,
            changed(Wire::Responses, &|b| b["temperature"] = 0.7.into()),
        ),
        (
            Rule::Parameters,
            changed(Wire::Responses, &|b| b["previous_response_id"] = "r".into()),
        ),
        (
            Rule::Parameters,
            changed(Wire::Messages, &|b| b["max_tokens"] = 0.into()),
        ),
        (
            Rule::BlankAssistant,
            changed(Wire::Responses, &|b| b["input"][1]["content"] = json!([])),
        ),
        (
            Rule::BlankAssistant,
            changed(Wire::Chat, &|b| b["messages"][2]["content"] = " ".into()),
        ),
        (
            Rule::BlankAssistant,
            changed(Wire::Messages, &|b| b["messages"][1]["content"] = "".into()),
        ),
        (
            Rule::EmptyText,
            changed(Wire::Messages, &|b| {
                b["messages"][2]["content"][0]["text"] = "\n".into();
            }),
        ),
        (
            Rule::EmptyText,
            changed(Wire::Messages, &|b| b["system"][0]["text"] = "".into()),
        ),
        (
            Rule::Pairing,
            changed(Wire::Messages, &|b| {
                b["messages"].as_array_mut().expect("a list").pop();
            }),
        ),
        (
            Rule::CacheControl,
            changed(Wire::Messages, &|b| {
                b["system"][0]["cache_control"] = mark.clone();
                b["tools"][0]["cache_control"] = mark.clone();
                for index in 0..3 {
                    b["messages"][index]["content"][0]["cache_control"] = mark.clone();
                }
            }),
        ),
        (
            Rule::EmptyText,
            changed(Wire::Chat, &|b| {
                let mut with_content = step(Wire::Chat, &["a"]).remove(0);
                with_content["content"] = "".into();
                let list = b["messages"].as_array_mut().unwrap();
                list.push(with_content);
                list.extend(results(Wire::Chat, &["a"]));
            }),
        ),
    ];
    for (rule, (path, body)) in cases {
        let rules = broken(&path, &body).await;
        assert!(
            rules.contains(&rule),
            "{rule:?} is missing in {rules:?} for {body}"
        );
    }

    let codex = "/backend-api/codex/responses";
    let (_, mut body) = changed(Wire::Responses, &|b| b["store"] = false.into());
    assert_eq!(broken(codex, &body).await, []);
    body["store"] = true.into();
    body["input"][0]["id"] = "msg_1".into();
    assert_eq!(broken(codex, &body).await, [Rule::Parameters]);
}

#[tokio::test]
async fn signed_thinking_comes_back_with_its_call() {
    let wire = Wire::Messages;
    let ask = user(wire, "read a");
    let script = || {
        [
            Step::call("file_read", json!({"path": "a"})).with_reasoning(["Let me ", "look."]),
            Step::say("done"),
        ]
    };
    for keep in [true, false] {
        let model = FakeModel::start(script());
        let answer = post(
            &model,
            &path(wire),
            &request(wire, std::slice::from_ref(&ask)),
        )
        .await;
        let events = answer.events();
        let id = events
            .iter()
            .find_map(|event| event["content_block"]["id"].as_str())
            .expect("a tool_use block");
        let signature = events
            .iter()
            .find_map(|event| event["delta"]["signature"].as_str())
            .expect("a signature");
        let mut turn = step(wire, &[id]).remove(0);
        if keep {
            let thinking =
                json!({"type": "thinking", "thinking": "Let me look.", "signature": signature});
            turn["content"].as_array_mut().unwrap().insert(0, thinking);
        }
        let messages = joined(&[vec![ask.clone(), turn], results(wire, &[id])]);
        post(&model, &path(wire), &request(wire, &messages)).await;
        let rules: Vec<Rule> = model
            .take_violations()
            .iter()
            .map(|found| found.rule)
            .collect();
        assert_eq!(rules, if keep { vec![] } else { vec![Rule::Replay] });
    }
}

#[tokio::test]
async fn a_broken_rule_fails_the_test_that_owns_the_server() {
    let bad = json!({"model": "m"});
    let model = FakeModel::start(speaking());
    post(&model, "/v1/chat/completions", &bad).await;
    let panic = catch_unwind(AssertUnwindSafe(|| drop(model))).expect_err("the drop panics");
    let text = panic.downcast_ref::<String>().expect("a readable panic");
    assert!(
        text.contains("request 0: Body: `stream` is not true"),
        "{text}"
    );

    // Left out on purpose, taken, or clean: no panic.
    let off = FakeModel::start_with(speaking(), Checks::all().without(Rule::Body));
    post(&off, "/v1/chat/completions", &bad).await;
    drop(off);
    let none = FakeModel::start_with(speaking(), Checks::none());
    post_text(&none, "/chat/completions", "no json").await;
    drop(none);
}

#[tokio::test]
async fn what_the_script_cannot_answer_is_a_broken_rule() {
    let wire = Wire::Chat;
    let body = request(wire, &[user(wire, "hi")]);
    let model = FakeModel::start(Step::say("only one"));
    assert_eq!(post(&model, &path(wire), &body).await.status, 200);
    assert_eq!(post(&model, &path(wire), &body).await.status, 400);
    let found = model.take_violations();
    assert_eq!(
        (found.len(), found[0].rule, found[0].request),
        (1, Rule::Script, 1)
    );

    let model = FakeModel::script_loop(|_| panic!("no answer to this"));
    assert_eq!(post(&model, &path(wire), &body).await.status, 400);
    assert!(
        model.take_violations()[0]
            .detail
            .contains("no answer to this")
    );

    assert_eq!(post(&model, "/v1/embeddings", &body).await.status, 404);
    assert_eq!(model.take_violations()[0].rule, Rule::Body);
}

#[tokio::test]
async fn a_required_key_is_required() {
    let wire = Wire::Messages;
    let body = request(wire, &[user(wire, "hi")]);
    let model = FakeModel::start(Step::say("hello"));
    model.require_key("another");
    let answer = post(&model, &path(wire), &body).await;
    assert_eq!((answer.status, model.remaining_steps()), (401, 1));
    assert!(!model.last_request().authorized);
    assert!(answer.body.contains("authentication_error"));
    model.require_key(FakeModel::KEY);
    assert_eq!(post(&model, &path(wire), &body).await.status, 200);
}
