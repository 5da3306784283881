//! Programs the owner made into tools.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use fermix_capability::Choice;
use fermix_config::ApproveMode;
use fermix_config::commands::{CommandEntry, CommandProfile, CommandsConfig};
use fermix_tools::{RegisteredCommands, register_commands};
use fermix_types::{Category, PolicyClass};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::approval::{Answer, asking, turn};
use crate::world::{World, ok, owner, refused};

/// A program of the test's own.
fn program(world: &World, name: &str, script: &str) -> PathBuf {
    let path = world.home.os_home().join("opt").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn entry(program: &std::path::Path) -> CommandEntry {
    CommandEntry {
        command: Some(program.display().to_string()),
        ..CommandEntry::default()
    }
}

fn config(entries: impl IntoIterator<Item = (&'static str, CommandEntry)>) -> CommandsConfig {
    let explicit = entries
        .into_iter()
        .map(|(name, entry)| (name.to_owned(), entry))
        .collect();
    CommandsConfig {
        explicit,
        ..CommandsConfig::default()
    }
}

fn register(world: &World, config: &CommandsConfig) -> RegisteredCommands {
    register_commands(&world.registry, &world.sandbox, config).unwrap()
}

fn names(list: &[fermix_types::ToolName]) -> Vec<&str> {
    list.iter().map(|name| name.as_str()).collect()
}

fn prompt(text: &str) -> Value {
    json!({ "prompt": text })
}

#[tokio::test]
async fn a_command_gets_its_arguments_as_they_are_in_a_clean_environment() {
    let world = World::new();
    let shown = program(
        &world,
        "show",
        "for a in \"$@\"; do echo \"<$a>\"; done; pwd; env | cut -d= -f1 | sort",
    );
    let setup = CommandEntry {
        args: vec!["--fixed".into()],
        ..entry(&shown)
    };
    let registered = register(&world, &config([("show", setup)]));
    assert_eq!(names(&registered.change.added), ["show"]);
    assert_eq!(registered.warnings, Vec::<String>::new());
    let tool = world.registry.find("show").unwrap();
    assert_eq!(
        (tool.class(), tool.category(), tool.is_owner_only()),
        (PolicyClass::Exec, Category::System, false)
    );
    assert_eq!(tool.metadata().tags["sandbox_command?"], true);

    let call = json!({"args": ["a b", "$(id)"], "prompt": "; echo 'x'"});
    let output = ok(world.call("show", call).await);
    let expected = format!(
        "<--fixed>\n<a b>\n<$(id)>\n<; echo 'x'>\n{}\n",
        world.home.workspace().display()
    );
    assert!(output.starts_with(&expected), "{output}");
    assert!(!output.contains("SECRET_TOKEN"), "{output}");
    refused(&world.call("show", prompt(" ")).await, &["prompt"]);
    refused(&world.call("show", json!({})).await, &["prompt"]);
    refused(
        &world
            .call("show", json!({"prompt": "x", "args": [1]}))
            .await,
        &["args"],
    );
}

#[tokio::test]
async fn a_variable_it_needs_must_be_allowed_and_set() {
    let mut world = World::with(|settings, _| {
        settings.env.allow = ["SECRET_TOKEN".to_owned(), "UNSET".to_owned()].into();
    });
    let show = program(&world, "show", "echo \"$SECRET_TOKEN\"");
    let needing = |name: &str| CommandEntry {
        pass_env: vec![name.to_owned()],
        ..entry(&show)
    };
    let all = config([
        ("gets", needing("SECRET_TOKEN")),
        ("misses", needing("UNSET")),
        ("forbidden", needing("OTHER")),
    ]);
    register(&world, &all);
    assert!(ok(world.call("gets", prompt("x")).await).contains("must stay here"));
    refused(
        &world.call("misses", prompt("x")).await,
        &["UNSET", "not set"],
    );
    refused(
        &world.call("forbidden", prompt("x")).await,
        &["OTHER", "allow"],
    );
    world.cwd = None;
}

#[tokio::test]
async fn a_change_is_one_swap_and_a_turn_keeps_what_it_began_with() {
    let world = World::new();
    let one = program(&world, "one", "echo one");
    let two = program(&world, "two", "echo two");
    register(
        &world,
        &config([("tool", entry(&one)), ("old", entry(&one))]),
    );
    let held = world.turn(owner());
    let change = register(
        &world,
        &config([("tool", entry(&two)), ("new", entry(&two))]),
    )
    .change;
    assert_eq!(
        (
            names(&change.added),
            names(&change.removed),
            names(&change.changed)
        ),
        (vec!["new"], vec!["old"], vec!["tool"])
    );
    assert!(ok(world.call_in(&held, "tool", prompt("x")).await).contains("one"));
    ok(world.call_in(&held, "old", prompt("x")).await);
    refused(
        &world.call_in(&held, "new", prompt("x")).await,
        &["not found"],
    );
    assert!(ok(world.call("tool", prompt("x")).await).contains("two"));
    refused(&world.call("old", prompt("x")).await, &["not found"]);
    // The rest of the registry is another family.
    register(&world, &CommandsConfig::default());
    assert!(world.registry.find("new").is_none());
    ok(world.call("shell", json!({"command": "true"})).await);
}

#[tokio::test]
async fn what_cannot_be_a_tool_is_left_out_and_told() {
    let world = World::new();
    let one = program(&world, "one", "echo one");
    let not_executable = world.home.file("plain", "x");
    let mut all = config([
        ("shell", entry(&one)),
        ("gone", entry(&world.home.os_home().join("opt/gone"))),
        ("plain", entry(&not_executable)),
        ("fine", entry(&one)),
    ]);
    all.profile = CommandProfile::Assistant;
    all.presets = vec!["ai_tools".into()];
    let registered = register(&world, &all);
    assert_eq!(names(&registered.change.added), ["fine"]);
    assert_eq!(registered.warnings.len(), 3, "{:?}", registered.warnings);
    for name in ["shell", "gone", "plain"] {
        assert!(
            registered
                .warnings
                .iter()
                .any(|warning| warning.contains(name)),
            "{name}"
        );
    }
    assert!(ok(world.call("shell", json!({"command": "echo mine"})).await).contains("mine"));
}

#[tokio::test]
async fn it_ends_with_its_time_and_says_how_it_failed() {
    let world = World::new();
    let fails = program(&world, "fails", "echo told; exit 3");
    let slow = program(&world, "slow", "echo begun; sleep 300 & sleep 300");
    let short = CommandEntry {
        timeout_ms: 300,
        ..entry(&slow)
    };
    register(&world, &config([("fails", entry(&fails)), ("slow", short)]));
    refused(
        &world.call("fails", prompt("x")).await,
        &["Command failed (exit code 3)", "told"],
    );
    refused(
        &world.call("slow", prompt("x")).await,
        &["Command timed out after 300ms"],
    );
    let waited = async {
        while world.sandbox.runner().live() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_accident_guard_looks_into_a_command_that_is_a_shell() {
    let world = World::new();
    let shell = CommandEntry {
        args: vec!["-c".into()],
        ..entry(std::path::Path::new("/bin/sh"))
    };
    register(&world, &config([("sh", shell)]));
    refused(&world.call("sh", prompt("rm -rf ~")).await, &["hardline"]);
    assert!(ok(world.call("sh", prompt("echo 'it''s fine'")).await).contains("its fine"));
}

#[tokio::test]
async fn git_does_not_push_unless_the_owner_said_so() {
    let world = World::new();
    let git = program(
        &world,
        "git",
        "echo \"ran $*\"; echo \"$GIT_ALLOW_PROTOCOL\"",
    );
    let pushing = CommandEntry {
        allow_push: true,
        ..entry(&git)
    };
    register(&world, &config([("git", entry(&git)), ("pusher", pushing)]));
    for call in [
        prompt("push"),
        json!({"args": ["push", "origin"], "prompt": "main"}),
        json!({"args": ["-c", "alias.x=push"], "prompt": "x"}),
    ] {
        let outcome = world.call("git", call).await;
        refused(&outcome, &["not allowed"]);
        assert!(!outcome.ran || !outcome.text.contains("ran push"));
    }
    let output = ok(world.call("git", prompt("status")).await);
    assert!(output.contains("ran status\nhttps:ssh:git"), "{output}");
    let output = ok(world
        .call("pusher", json!({"args": ["push"], "prompt": "origin"}))
        .await);
    assert!(output.contains("ran push origin"), "{output}");
}

#[tokio::test]
async fn the_owner_is_asked_about_it_with_every_argument_apart() {
    let (world, chat) = asking(ApproveMode::Risky, false, Answer::Says(Choice::Always));
    let one = program(&world, "one", "echo one");
    let setup = CommandEntry {
        pass_env: vec!["SECRET_TOKEN".into()],
        ..entry(&one)
    };
    register(&world, &config([("one", setup)]));
    let call = json!({"args": ["a b"], "prompt": "c\nd"});
    ok(world
        .call_in(&turn(&world, &chat), "one", call.clone())
        .await);
    let body = chat.last().body;
    let expected = format!(
        "Program and arguments, one a line, without a shell:\n  │ {}\n  │ a b\n  │ c⟨U+000A⟩d\nFolder: {}\n",
        one.display(),
        world.home.workspace().display()
    );
    assert!(body.starts_with(&expected), "{body}");
    assert!(body.contains("SECRET_TOKEN") && !body.contains("must stay here"));
    ok(world.call_in(&turn(&world, &chat), "one", call).await);
    assert_eq!(chat.prompts(), 1);
    let other = json!({"args": ["a", "b"], "prompt": "c\nd"});
    ok(world.call_in(&turn(&world, &chat), "one", other).await);
    assert_eq!(chat.prompts(), 2);
}
