//! `model_routing_config` (spec/01 §18).

use std::fs;

use fermix_capability::{Caller, JobGrant, Ports};
use fermix_types::{TraceKind, Trust};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, ok, owner, refused};

const TOOL: &str = "model_routing_config";

const FILE: &str = "# mine\n[fermix_core.routing] # workers\nsubagent_reasoning_effort = \"high\" # slow is fine\n\
                    cron_model = \"night-model\"\n\n[fermix_core.agent]\nname = \"tea\"\n";

fn set(key: &str, value: impl Into<Value>) -> Value {
    json!({"action": "set", "key": key, "value": value.into()})
}

#[tokio::test]
async fn reads_sets_and_deletes_keeping_the_rest_of_the_file() {
    let world = World::new();
    world.home.write_config(FILE);
    let read: Value =
        serde_json::from_str(&ok(world.call(TOOL, json!({"action": "read"})).await)).unwrap();
    assert_eq!(
        read,
        json!({
            "subagent_provider": null, "subagent_model": null, "subagent_reasoning_effort": "high",
            "cron_provider": null, "cron_model": "night-model", "cron_reasoning_effort": null,
            "primary": {"provider": "openai", "model": "gpt-test", "reasoning_effort": null},
        })
    );
    let said = ok(world
        .call(TOOL, set("subagent_reasoning_effort", " low\n"))
        .await);
    assert_eq!(
        said,
        r#"{"updated":"subagent_reasoning_effort","value":"low"}"#
    );
    assert_eq!(
        fs::read_to_string(world.home.config_path()).unwrap(),
        FILE.replace("\"high\"", "\"low\"")
    );
    ok(world
        .call(TOOL, set("subagent_model", "\"quoted\" #1"))
        .await);
    let read: Value =
        serde_json::from_str(&ok(world.call(TOOL, json!({"action": "read"})).await)).unwrap();
    assert_eq!(read["subagent_model"], "\"quoted\" #1");
    let said = ok(world
        .call(TOOL, json!({"action": "delete", "key": "subagent_model"}))
        .await);
    assert_eq!(said, r#"{"deleted":"subagent_model"}"#);
    assert_eq!(
        fs::read_to_string(world.home.config_path()).unwrap(),
        FILE.replace("\"high\"", "\"low\"")
    );
    let said = ok(world
        .call(TOOL, json!({"action": "delete", "key": "subagent_model"}))
        .await);
    assert!(
        said.starts_with(r#"{"deleted":"subagent_model"}"#) && said.contains("was not set"),
        "{said}"
    );

    // Each change holds at once and leaves its row.
    let applied = world
        .applied
        .lock()
        .unwrap()
        .last()
        .cloned()
        .expect("it was applied");
    assert_eq!(
        applied.subagent.reasoning_effort,
        Some(fermix_types::Effort::Low)
    );
    let rows: Vec<Value> = world
        .rows(TraceKind::AgentEvent)
        .iter()
        .map(|row| json!([row.fields["key"], row.fields["old"], row.fields["new"]]))
        .collect();
    assert_eq!(
        rows,
        vec![
            json!([
                "fermix_core.routing.subagent_reasoning_effort",
                "high",
                "low"
            ]),
            json!(["fermix_core.routing.subagent_model", null, "\"quoted\" #1"]),
            json!(["fermix_core.routing.subagent_model", "\"quoted\" #1", null]),
        ]
    );
}

#[tokio::test]
async fn refuses_what_would_not_work_and_leaves_the_file() {
    let world = World::new();
    let long = "x".repeat(5000);
    let cases: Vec<(Value, Vec<&str>)> = vec![
        (json!({}), vec!["Missing required parameter: action"]),
        (json!({"action": "write"}), vec!["invalid_action: write"]),
        (
            json!({"action": "set"}),
            vec!["Missing required parameter: key"],
        ),
        (
            json!({"action": "delete"}),
            vec!["Missing required parameter: key"],
        ),
        (
            json!({"action": "set", "key": "subagent_model"}),
            vec!["Missing required parameter: value"],
        ),
        (
            set("cron_model", "x"),
            vec!["invalid_key: cron_model", "subagent_model"],
        ),
        (set("fermix_core.agent.name", "x"), vec!["invalid_key"]),
        (set("subagent_model", " \t "), vec!["blank", "delete"]),
        (
            set("subagent_model", "a\n[sandbox]\nmode = \"open\""),
            vec!["control character"],
        ),
        (set("subagent_model", "a\u{7f}b"), vec!["control character"]),
        (set("subagent_model", long), vec!["subagent_model"]),
        (
            set("subagent_provider", "opnai"),
            vec!["openai", "anthropic"],
        ),
        (
            set("subagent_reasoning_effort", "enormous"),
            vec!["low", "medium", "max"],
        ),
        // Without a provider the model would run on the primary, which is openai here.
        (
            set("subagent_model", "qwen3:32b"),
            vec!["qwen3:32b", "ollama"],
        ),
    ];
    for (arguments, words) in cases {
        refused(&world.call(TOOL, arguments).await, &words);
    }
    assert!(!world.home.config_path().exists());

    // A conflict built over two calls is refused at the second.
    ok(world
        .call(TOOL, set("subagent_provider", "openrouter"))
        .await);
    let before = fs::read(world.home.config_path()).unwrap();
    refused(
        &world.call(TOOL, set("subagent_model", "qwen3:32b")).await,
        &["openrouter", "ollama", "Nothing was changed"],
    );
    assert_eq!(fs::read(world.home.config_path()).unwrap(), before);
    // And so is one built by taking away.
    ok(world.call(TOOL, set("subagent_provider", "ollama")).await);
    ok(world.call(TOOL, set("subagent_model", "qwen3:32b")).await);
    refused(
        &world
            .call(
                TOOL,
                json!({"action": "delete", "key": "subagent_provider"}),
            )
            .await,
        &["ollama"],
    );

    world
        .home
        .write_config("[fermix_core.routing]\nsubagent_modle = \"x\"\n");
    for arguments in [json!({"action": "read"}), set("subagent_model", "y")] {
        refused(
            &world.call(TOOL, arguments).await,
            &["config.toml:2", "subagent_modle"],
        );
    }
}

#[tokio::test]
async fn only_a_present_owner_changes_it() {
    let world = World::new();
    let job = || Caller::job(Trust::Operator, JobGrant::default());
    for caller in [job(), Caller::detached()] {
        ok(world
            .call_as(caller.clone(), TOOL, json!({"action": "read"}))
            .await);
        for arguments in [
            set("subagent_model", "x"),
            json!({"action": "delete", "key": "subagent_model"}),
        ] {
            refused(
                &world.call_as(caller.clone(), TOOL, arguments).await,
                &["attended owner turn"],
            );
        }
    }
    for caller in [Caller::guest(Ports::default()), owner().worker()] {
        let outcome = world.call_as(caller, TOOL, json!({"action": "read"})).await;
        assert_eq!(outcome.text, format!("Error: Tool '{TOOL}' not found"));
    }
    assert!(!world.home.config_path().exists());
    assert!(world.applied.lock().unwrap().is_empty());
}
