//! `tool_search`, `tool_describe`, `tool_call` and `tool_help` (spec/01 §10).

use std::collections::BTreeSet;

use fermix_capability::untrusted::framed_content;
use fermix_capability::{
    Audience, Caller, Capability, Deferral, JobGrant, OutsideSources, Ports, TurnScope,
};
use fermix_types::{Category, PolicyClass, TraceKind, Trust};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, ok, owner, refused};

/// A plugin's tool that answers with its own arguments.
fn plugin_tool(name: &str, description: &str, schema: Value) -> Capability {
    Capability::builtin(
        name,
        PolicyClass::ExternalApi,
        Category::Plugin,
        Audience::OwnerOnly,
    )
    .description(description)
    .tag("plugin_owned?", true)
    .tag("plugin", "calendar")
    .raw_handler(schema, |arguments, _| async move {
        Ok(Value::Object(arguments).to_string().into())
    })
    .expect("a legal tool")
}

fn mcp_tool(name: &str, description: &str) -> Capability {
    Capability::mcp(name, "github", PolicyClass::ExternalApi)
        .description(description)
        .raw_handler(
            json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}),
            |_, _| async { Ok("done".into()) },
        )
        .expect("a legal tool")
}

fn event_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "start": {"type": "string", "description": "When it starts."},
            "place": {"type": "string", "enum": ["office", "home"]},
        },
        "required": ["start"],
    })
}

fn world() -> World {
    let world = World::new();
    let tools = [
        plugin_tool(
            "calendar_create_event",
            "Create an event in the owner's calendar.",
            event_schema(),
        ),
        plugin_tool(
            "calendar_list_events",
            "List the coming events.",
            json!({"type": "object"}),
        ),
        mcp_tool(
            "mcp_github_create_issue",
            &format!("Open an issue. {}", "Very long. ".repeat(60)),
        ),
        mcp_tool("mcp_github_list_issues", "List issues of a repository."),
    ];
    world
        .registry
        .register_all(tools)
        .expect("the names are new");
    world
}

async fn search(world: &World, caller: Caller, arguments: Value) -> Value {
    let text = ok(world.call_as(caller, "tool_search", arguments).await);
    serde_json::from_str(&text).expect("one JSON object")
}

/// What stands in the frame around a third party's text.
fn unframed(text: &Value) -> &str {
    framed_content(text.as_str().expect("text")).expect("a frame")
}

fn names(found: &Value) -> Vec<&str> {
    let matches = found["matches"].as_array().expect("a list");
    matches
        .iter()
        .map(|found| found["name"].as_str().expect("a name"))
        .collect()
}

#[tokio::test]
async fn search_finds_by_what_a_tool_does() {
    let world = world();
    let found = search(
        &world,
        owner(),
        json!({"query": "create an event in my calendar"}),
    )
    .await;
    assert_eq!(found["query"], "create an event in my calendar");
    assert_eq!(found["total_available"], 4);
    assert_eq!(names(&found)[0], "calendar_create_event");
    // What third parties say about their tools is something the turn has read.
    let turn = TurnScope {
        outside_sources: OutsideSources::clean(),
        origin: None,
        approval: None,
        ..world.turn(owner())
    };
    for (tool, arguments, expected) in [
        ("tool_help", json!({"name": "shell"}), ""),
        (
            "tool_search",
            json!({"query": "calendar_list_events", "limit": 1}),
            "plugin:calendar",
        ),
        (
            "tool_describe",
            json!({"name": "mcp_github_list_issues"}),
            "mcp:github plugin:calendar",
        ),
    ] {
        ok(world.call_in(&turn, tool, arguments).await);
        let read: Vec<String> = turn
            .outside_sources
            .snapshot()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(read.join(" "), expected, "{tool}");
    }
    let first = &found["matches"][0];
    assert_eq!(first["plugin"], "calendar");
    assert_eq!(first["required"], json!(["start"]));

    // The only tool named outright brings its schema along; several weak ones bring none.
    let found = search(&world, owner(), json!({"query": "calendar_create_event"})).await;
    let schema: Value = serde_json::from_str(unframed(&found["matches"][0]["schema"])).unwrap();
    assert_eq!(
        schema["properties"]["place"]["enum"],
        json!(["office", "home"])
    );
    let found = search(
        &world,
        owner(),
        json!({"query": "mcp_github_create_issue", "limit": 1}),
    )
    .await;
    assert_eq!(found["matches"][0]["plugin"], "mcp:github");
    let description = unframed(&found["matches"][0]["description"]);
    assert!(description.chars().count() <= 401, "{description}");

    let exact = "mcp_github_list_issues calendar_list_events calendar_create_event";
    let found = search(&world, owner(), json!({"query": exact})).await;
    let first: BTreeSet<_> = names(&found)[..3].iter().copied().collect();
    assert_eq!(first, exact.split(' ').collect());

    let found = search(&world, owner(), json!({"query": "zzz qqq"})).await;
    assert_eq!(found["matches"], json!([]));
    refused(
        &world.call("tool_search", json!({})).await,
        &["Missing required parameter: query"],
    );
    for query in [json!(""), json!("  "), json!(5)] {
        refused(
            &world.call("tool_search", json!({"query": query})).await,
            &["query"],
        );
    }
    for (limit, expected) in [
        (json!(0), 1),
        (json!(999), 4),
        (json!("2"), 2),
        (json!(null), 4),
    ] {
        let found = search(
            &world,
            owner(),
            json!({"query": "calendar github events issue", "limit": limit}),
        )
        .await;
        assert_eq!(names(&found).len(), expected, "{limit}");
    }
}

#[tokio::test]
async fn search_among_many_is_stable_and_up_to_date() {
    let world = World::new();
    let tools = (0..40).map(|number| {
        mcp_tool(
            &format!("mcp_github_thing_{number:02}"),
            "Does something on github.",
        )
    });
    world
        .registry
        .register_all(tools)
        .expect("the names are new");
    // A word that every tool has still finds some.
    let found = search(&world, owner(), json!({"query": "github", "limit": 7})).await;
    assert_eq!(
        (names(&found).len(), &found["total_available"]),
        (7, &json!(40))
    );
    for _ in 0..100 {
        assert_eq!(
            search(&world, owner(), json!({"query": "github", "limit": 7})).await,
            found
        );
    }
    let named = [33, 2, 17, 39, 20, 8, 11].map(|number| format!("mcp_github_thing_{number:02}"));
    let found = search(
        &world,
        owner(),
        json!({"query": named.join(", "), "limit": 20}),
    )
    .await;
    assert_eq!(names(&found)[..7], named);

    let fresh = plugin_tool("calendar_create_event", "Create an event.", event_schema());
    world.registry.register(fresh).expect("the name is new");
    let found = search(&world, owner(), json!({"query": "create an event"})).await;
    assert_eq!(
        (names(&found)[0], &found["total_available"]),
        ("calendar_create_event", &json!(41))
    );
}

#[tokio::test]
async fn the_ceiling_is_the_callers() {
    let world = world();
    let guest = || Caller::guest(Ports::default());
    let found = search(&world, guest(), json!({"query": "calendar"})).await;
    assert_eq!(
        (&found["total_available"], &found["matches"]),
        (&json!(0), &json!([]))
    );
    let only_search = JobGrant {
        job_id: "digest".into(),
        allowed_tools: Some(["tool_search".to_owned()].into()),
        policy: None,
    };
    let found = search(
        &world,
        Caller::job(Trust::Operator, only_search),
        json!({"query": "calendar"}),
    )
    .await;
    assert_eq!(found["total_available"], 0);

    for tool in ["tool_describe", "tool_help"] {
        for name in [
            "shell",
            "file_write",
            "calendar_create_event",
            "nothing_like_it",
        ] {
            let outcome = world.call_as(guest(), tool, json!({"name": name})).await;
            assert_eq!(
                outcome.text,
                format!("Error: Unknown capability: {name}"),
                "{tool}"
            );
        }
        refused(
            &world.call(tool, json!({})).await,
            &["Missing required parameter: name"],
        );
        refused(&world.call(tool, json!({"name": ""})).await, &["name"]);
        let outcome = world.call(tool, json!({"name": "file_wriet"})).await;
        refused(
            &outcome,
            &["Unknown capability: file_wriet; did you mean `file_write`?"],
        );
    }
}

#[tokio::test]
async fn describe_and_help_tell_everything() {
    let world = world();
    let text = ok(world
        .call("tool_describe", json!({"name": "calendar_create_event"}))
        .await);
    for words in [
        "# calendar_create_event",
        "external_api",
        "<untrusted_tool_result",
        "```json",
        r#""enum":["office","home"]"#,
        "Create an event",
    ] {
        assert!(text.contains(words), "no {words} in {text}");
    }
    let text = ok(world.call("tool_describe", json!({"name": "shell"})).await);
    assert!(!text.contains("<untrusted_tool_result"), "{text}");
    let help = ok(world.call("tool_help", json!({"name": "file_edit"})).await);
    for words in [
        "# file_edit",
        "old_string",
        "not_unique",
        "When to use",
        "built in",
        "Skills are configured separately",
        "Replace one exact piece",
    ] {
        assert!(help.contains(words), "no {words} in {help}");
    }
    let help = ok(world
        .call("tool_help", json!({"name": "mcp_github_create_issue"}))
        .await);
    assert!(!help.contains("built in"), "{help}");
}

#[tokio::test]
async fn the_bridge_grants_nothing_and_leaves_no_trace_of_itself() {
    let world = world();
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let outcome = world
        .call(
            "tool_call",
            call("calendar_create_event", json!({"start": "noon"})),
        )
        .await;
    assert_eq!(
        (outcome.name.as_str(), outcome.call_id.as_str()),
        ("calendar_create_event", "call-1")
    );
    assert!(
        outcome.text.contains(r#"{"start":"noon"}"#),
        "{}",
        outcome.text
    );
    ok(world
        .call(
            "tool_call",
            call("calendar_create_event", json!("{\"start\": \"noon\"}")),
        )
        .await);
    // Directly by name it is the same call, and either way bad arguments are answered with the schema.
    let direct = world
        .call("calendar_create_event", json!({"start": "noon"}))
        .await;
    assert!(
        direct.text.contains(r#"{"start":"noon"}"#),
        "{}",
        direct.text
    );
    for outcome in [
        world
            .call(
                "tool_call",
                call("calendar_create_event", json!({"place": "sea"})),
            )
            .await,
        world
            .call("calendar_create_event", json!({"place": "sea"}))
            .await,
    ] {
        refused(&outcome, &["Missing required parameter: start", "office"]);
    }
    let guest = Caller::guest(Ports::default());
    let outcome = world
        .call_as(guest, "tool_call", call("shell", json!({"command": "id"})))
        .await;
    assert_eq!(outcome.text, "Error: Tool 'shell' not found");
    for row in world.rows(TraceKind::ToolExec) {
        assert_ne!(row.fields["tool"], "tool_call");
    }
    for arguments in [
        json!({}),
        json!({"name": 5, "arguments": {}}),
        call("tool_call", json!({})),
        call("shell", json!([])),
    ] {
        refused(
            &world.call("tool_call", arguments).await,
            &["or call the tool directly by name"],
        );
    }
}

#[tokio::test]
async fn without_deferral_there_are_no_bridges_but_help() {
    let world = World::built(Deferral::Off, |_, _| {});
    for bridge in ["tool_search", "tool_describe", "tool_call"] {
        let outcome = world
            .call(bridge, json!({"name": "x", "query": "x", "arguments": 5}))
            .await;
        assert_eq!(outcome.text, format!("Error: Tool '{bridge}' not found"));
    }
    ok(world.call("tool_help", json!({"name": "shell"})).await);
}
