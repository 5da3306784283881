//! `request_directory_access` (spec/02 §4.10).

use std::fs;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fermix_approvals::policy::Who;
use fermix_capability::{
    ApprovalPort, ApprovalPrompt, Caller, Depth, JobGrant, Ports, Presence, PromptOrigin, TurnScope,
};
use fermix_types::{ConversationKey, TraceKind, Trust};
use serde_json::{Value, json};

use crate::world::{World, ok, owner, refused};

const TOOL: &str = "request_directory_access";

#[derive(Debug, Default)]
struct Port(Mutex<Vec<ApprovalPrompt>>);

#[async_trait]
impl ApprovalPort for Port {
    async fn show(&self, prompt: &ApprovalPrompt) -> Result<(), String> {
        self.0.lock().unwrap().push(prompt.clone());
        Ok(())
    }
}

fn origin() -> PromptOrigin {
    PromptOrigin {
        conversation: ConversationKey::root("cli", "test"),
        user: "owner".into(),
    }
}

/// A turn with somebody there to ask.
fn asking(world: &World, caller: Caller, port: &Arc<Port>) -> TurnScope {
    TurnScope {
        origin: Some(origin()),
        approval: Some(port.clone()),
        ..world.turn(caller)
    }
}

fn args(path: &std::path::Path) -> Value {
    json!({ "path": path, "reason": "You asked for the report." })
}

#[tokio::test]
async fn asks_waits_and_works_after_the_owners_yes() {
    let world = World::new();
    let outside = world.home.os_home().join("reports");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("a.txt"), "the report").unwrap();
    let file = json!({ "path": outside.join("a.txt") });
    refused(
        &world.call("file_read", file.clone()).await,
        &[TOOL, "fermix grant path"],
    );
    let port = Arc::new(Port::default());
    let turn = asking(&world, owner(), &port);
    let text = ok(world.call_in(&turn, TOOL, args(&outside)).await);
    assert!(text.contains("Stop now and wait"), "{text}");
    let again = ok(world.call_in(&turn, TOOL, args(&outside)).await);
    assert!(again.contains("already pending"), "{again}");
    let prompts = port.0.lock().unwrap().clone();
    assert_eq!(prompts.len(), 1);
    let token = &prompts[0].token;
    assert!(!text.contains(token) && !again.contains(token));
    let traced = format!("{:?}", world.rows(TraceKind::ToolExec));
    assert!(!traced.contains(token));

    let answer = world
        .policy
        .chat_command(&["/confirm", token], &origin(), Who::Owner)
        .await;
    assert!(
        answer.text.contains("Re-run your request"),
        "{}",
        answer.text
    );
    assert!(ok(world.call("file_read", file).await).contains("the report"));
    let text = ok(world.call_in(&turn, TOOL, args(&outside)).await);
    assert!(text.contains("already allowed"), "{text}");
    let config = fs::read_to_string(world.home.config_path()).unwrap();
    assert!(config.contains(outside.to_str().unwrap()), "{config}");
}

#[tokio::test]
async fn every_refusal_is_documented_and_asks_nobody() {
    let world = World::new();
    let port = Arc::new(Port::default());
    let turn = asking(&world, owner(), &port);
    let home = world.home.os_home();
    for (path, words) in [
        ("~", "refuses to grant"),
        ("~/.ssh", "pick a specific project directory"),
        ("/", "refuses to grant"),
        ("~/absent", "Cannot request access to"),
        (" ", "Missing required parameter: path"),
    ] {
        let call = json!({ "path": path, "reason": "because" });
        refused(&world.call_in(&turn, TOOL, call).await, &[words]);
    }
    let no_reason = json!({ "path": home, "reason": "" });
    refused(
        &world.call_in(&turn, TOOL, no_reason).await,
        &["Missing required parameter: reason"],
    );
    assert!(port.0.lock().unwrap().is_empty());

    for name in ["a", "b", "c", "d"] {
        fs::create_dir_all(home.join(name)).unwrap();
    }
    ok(world.call_in(&turn, TOOL, args(&home.join("a"))).await);
    let token = port.0.lock().unwrap()[0].token.clone();
    world
        .policy
        .chat_command(&["/deny", &token], &origin(), Who::Owner)
        .await;
    refused(
        &world.call_in(&turn, TOOL, args(&home.join("a"))).await,
        &["denied access", "do not ask again"],
    );
    for name in ["b", "c"] {
        ok(world.call_in(&turn, TOOL, args(&home.join(name))).await);
    }
    refused(
        &world.call_in(&turn, TOOL, args(&home.join("d"))).await,
        &["asked 3 times"],
    );
    assert_eq!(port.0.lock().unwrap().len(), 3);
}

/// Nobody but the owner in a conversation that can be answered in sees the tool, and a call of it
/// by name learns nothing about a way to ask.
#[tokio::test]
async fn nobody_else_sees_it_or_runs_it() {
    let world = World::new();
    let folder = world.home.os_home().join("reports");
    fs::create_dir_all(&folder).unwrap();
    let all = Ports {
        reply: true,
        approval: true,
        late_outcome: true,
        reactions: None,
    };
    let presence = Presence::vouched_by_ingress;
    let callers = [
        ("a guest", Caller::guest(all.clone())),
        ("a job", Caller::job(Trust::Operator, JobGrant::default())),
        ("a worker", owner().worker()),
        ("a skill", owner().skill(Trust::Operator, None, None)),
        ("a call", Caller::voice(presence(), true)),
        ("a detached run", Caller::detached()),
        (
            "a continuation",
            Caller::continuation(Depth::TOP, all.clone()),
        ),
        (
            "a stored depth",
            owner().as_deep_as(&json!({ "skill_depth": 1 })),
        ),
        (
            "no way to answer",
            Caller::owner(
                presence(),
                Ports {
                    approval: false,
                    ..all.clone()
                },
            ),
        ),
        (
            "no way back",
            Caller::owner(
                presence(),
                Ports {
                    reply: false,
                    ..all
                },
            ),
        ),
    ];
    for (who, caller) in callers {
        let port = Arc::new(Port::default());
        let turn = asking(&world, caller, &port);
        let is_shown = turn
            .view
            .advertised()
            .iter()
            .any(|tool| tool.name().as_str() == TOOL);
        assert!(!is_shown, "{who}");
        let outcome = world.call_in(&turn, TOOL, args(&folder)).await;
        assert!(outcome.is_error, "{who}: {}", outcome.text);
        for word in ["/confirm", "approval", "reports"] {
            assert!(!outcome.text.contains(word), "{who}: {}", outcome.text);
        }
        assert!(port.0.lock().unwrap().is_empty(), "{who}");
    }
    // A turn that lost its way to the owner's eyes.
    let outcome = world.call(TOOL, args(&folder)).await;
    refused(
        &outcome,
        &["directory access requests need an attended owner conversation"],
    );
}
