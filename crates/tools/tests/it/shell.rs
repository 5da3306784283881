//! `shell` (spec/02 §4.1, §2.5, §2.8, §3).

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use fermix_capability::{Caller, Ports};
use fermix_sandbox::EnvSource;
use fermix_types::TraceKind;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, ok, owner, refused};

#[tokio::test]
async fn runs_and_reports() {
    let world = World::new();
    let cases = [
        ("echo out; echo err >&2", "out\nerr\n"),
        ("printf 'caf\\351'", "caf\u{fffd}"),
        ("true", "[note: the command succeeded and printed nothing]"),
        ("cat", "[note: the command succeeded and printed nothing]"),
        (
            "echo a > new.txt 2>/dev/null && cat < new.txt | tr a b",
            "b\n",
        ),
    ];
    for (command, expected) in cases {
        assert_eq!(
            ok(world.call("shell", json!({"command": command})).await),
            expected,
            "{command}"
        );
    }
    let failing = [
        (
            "echo partly; exit 3",
            "Error: Command failed (exit code 3):\npartly\n",
        ),
        ("exit 1", "Error: Command failed (exit code 1):"),
    ];
    for (command, expected) in failing {
        let outcome = world.call("shell", json!({"command": command})).await;
        assert_eq!(outcome.text, expected, "{command}");
        assert!(outcome.is_error && outcome.ran);
    }
    refused(
        &world.call("shell", json!({"command": "kill -9 $$"})).await,
        &["exit code 137", "signal 9"],
    );
    refused(
        &world
            .call("shell", json!({"command": "no-such-program-here"}))
            .await,
        &["exit code 127", "not found"],
    );
    let guest = world
        .call_as(
            Caller::guest(Ports::default()),
            "shell",
            json!({"command": "true"}),
        )
        .await;
    assert_eq!(guest.text, "Error: Tool 'shell' not found");
}

#[tokio::test]
async fn refuses_before_anything_runs() {
    let world = World::new();
    let outside = world.home.os_home().join("elsewhere");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(world.home.os_home().join(".ssh")).unwrap();
    world.home.file("plain", "");
    let touch = "touch ran";
    let grant = format!("fermix ask --root {}", outside.display());
    let cases: Vec<(Value, Vec<&str>)> = vec![
        (
            json!({"command": ""}),
            vec!["Command must be a non-empty string"],
        ),
        (
            json!({"command": " \n"}),
            vec!["Command must be a non-empty string"],
        ),
        (json!({}), vec!["Missing required parameter: command"]),
        (
            json!({"command": format!("{touch} #{}", "x".repeat(64 * 1024))}),
            vec!["limit is 65536"],
        ),
        (json!({"command": format!("{touch}\0")}), vec!["null bytes"]),
        (
            json!({"command": touch, "timeout_ms": "soon"}),
            vec!["timeout_ms", "integer"],
        ),
        (
            json!({"command": touch, "timeout_ms": 1.5}),
            vec!["timeout_ms", "integer"],
        ),
        (
            json!({"command": touch, "working_dir": "absent"}),
            vec!["Working directory does not exist"],
        ),
        (
            json!({"command": touch, "working_dir": "plain"}),
            vec!["Working directory does not exist"],
        ),
        (
            json!({"command": touch, "working_dir": outside}),
            vec![
                "Path is outside the sandbox roots",
                &grant,
                "fermix grant path",
            ],
        ),
        (
            json!({"command": touch, "working_dir": "~/.ssh"}),
            vec!["Path is protected by the sandbox", "holds credentials"],
        ),
        (
            json!({"command": touch, "cwd": "."}),
            vec!["unknown parameter `cwd`"],
        ),
        (
            json!({"command": "touch ran; rm -rf ~"}),
            vec!["Sandbox hardline blocked command: "],
        ),
        (
            json!({"command": "touch ran && $(rm -r --force \"$HOME\"/)"}),
            vec!["Sandbox hardline blocked command: "],
        ),
        (
            json!({"command": "touch ran; mkfs.ext4 /dev/no-such-disk"}),
            vec!["Sandbox hardline blocked command: "],
        ),
    ];
    for (arguments, words) in cases {
        refused(&world.call("shell", arguments).await, &words);
    }
    assert_eq!(world.home.read("ran"), None);
    let decisions: BTreeSet<String> = world
        .rows(TraceKind::ToolExec)
        .iter()
        .filter_map(|row| {
            Some(
                row.fields.get("enforcement")?["decision"]
                    .as_str()?
                    .to_owned(),
            )
        })
        .collect();
    assert_eq!(
        decisions,
        BTreeSet::from(["deny".to_owned(), "hardline".to_owned()])
    );
    ok(world
        .call(
            "shell",
            json!({"command": "echo 'rm -rf /'; git commit -m 'rm -rf /' || true"}),
        )
        .await);
}

#[tokio::test]
async fn time_is_bounded_and_says_so() {
    let world = World::new();
    let sleeper = "echo before; echo $$ > pid; sleep 300 & setsid sleep 300 & sleep 300";
    let started = Instant::now();
    let outcome = world
        .call("shell", json!({"command": sleeper, "timeout_ms": 300}))
        .await;
    assert_eq!(
        outcome.text,
        "Error: Command timed out after 300ms\nbefore\n"
    );
    assert!(started.elapsed() < Duration::from_secs(20));
    let pid = String::from_utf8(world.home.read("pid").unwrap()).unwrap();
    assert!(
        !fs::exists(format!("/proc/{}", pid.trim())).unwrap(),
        "the shell is gone"
    );

    let said = ok(world
        .call(
            "shell",
            json!({"command": "echo x", "timeout_ms": 9_999_999}),
        )
        .await);
    assert_eq!(
        said,
        "x\n[note: timeout_ms 9999999 is outside 1 to 600000; 600000 was used]"
    );
    let outcome = world
        .call("shell", json!({"command": "sleep 60", "timeout_ms": -5}))
        .await;
    refused(
        &outcome,
        &[
            "Command timed out after 1ms",
            "[note: timeout_ms -5 is outside 1 to 600000; 1 was used]",
        ],
    );
    assert_eq!(
        ok(world
            .call("shell", json!({"command": "echo x", "timeout_ms": "5000"}))
            .await),
        "x\n"
    );

    // Stopping the turn ends the command.
    let turn = world.turn(owner());
    let cancel = turn.cancel.clone();
    let stopper = async {
        while world.home.read("started").is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let command = json!({"command": "echo $$ > pid; touch started; sleep 300"});
    let started = Instant::now();
    let (outcome, ()) = tokio::join!(world.call_in(&turn, "shell", command), stopper);
    assert!(outcome.is_error);
    assert!(started.elapsed() < Duration::from_secs(20));
    let pid = String::from_utf8(world.home.read("pid").unwrap()).unwrap();
    assert!(
        !fs::exists(format!("/proc/{}", pid.trim())).unwrap(),
        "the shell is gone"
    );
}

#[tokio::test]
async fn much_output_keeps_its_start_and_its_end() {
    let world = World::new();
    let command = "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last";
    let said = ok(world.call("shell", json!({"command": command})).await);
    assert!(said.len() <= 257 * 1024, "{} bytes", said.len());
    assert!(said.starts_with("first\nxxx"));
    let (output, note) = said
        .rsplit_once("\n[note: ")
        .expect("a note says what is missing");
    assert!(
        output.ends_with("xxx\nlast"),
        "{}",
        &output[output.len() - 40..]
    );
    assert!(
        note.contains("bytes from the middle of the output are left out"),
        "{note}"
    );
}

#[tokio::test]
async fn runs_where_the_turn_is() {
    let mut world = World::new();
    let pwd = json!({"command": "pwd"});
    let workspace = format!("{}\n", world.home.workspace().display());
    assert_eq!(ok(world.call("shell", pwd.clone()).await), workspace);
    world.home.file("sub/file", "");
    let said = ok(world
        .call("shell", json!({"command": "pwd", "working_dir": "sub"}))
        .await);
    assert_eq!(
        said,
        format!("{}\n", world.home.workspace().join("sub").display())
    );

    // The request's folder is the owner's; a run that nobody attends does not get it.
    let project = world.home.os_home().join("project");
    fs::create_dir(&project).unwrap();
    world.cwd = Some(project.clone());
    assert_eq!(
        ok(world.call("shell", pwd.clone()).await),
        format!("{}\n", project.display())
    );
    assert_eq!(
        ok(world
            .call_as(Caller::detached(), "shell", pwd.clone())
            .await),
        workspace
    );
    assert_eq!(
        ok(world.call_as(owner().worker(), "shell", pwd).await),
        workspace
    );
}

#[tokio::test]
async fn the_environment_is_only_what_is_meant_for_commands() {
    let names = "env | cut -d= -f1 | sort";
    let said = ok(World::new().call("shell", json!({"command": names})).await);
    let allowed = [
        "HOME", "LANG", "PATH", "PWD", "OLDPWD", "SHLVL", "TERM", "_",
    ];
    for name in said.lines() {
        assert!(
            allowed.contains(&name) || name.starts_with("FERMIX_"),
            "{name} reached a command"
        );
    }
    assert!(!said.contains("SECRET_TOKEN"));

    let world = World::with(|settings, _| {
        settings.env.allow = ["SECRET_TOKEN", "STALE", "HELPED"]
            .map(str::to_owned)
            .into();
        let helper = EnvSource::Command {
            command: "sh".into(),
            args: vec!["-c".into(), "echo leaked-by-helper; exit 1".into()],
            timeout: EnvSource::HELPER_TIMEOUT,
        };
        settings.env.sources.insert("HELPED".into(), helper);
    });
    let said = ok(world
        .call("shell", json!({"command": "echo $SECRET_TOKEN"}))
        .await);
    let (notes, output) = said.split_at(said.find("must stay here").unwrap());
    assert_eq!(output, "must stay here\n");
    for words in ["HELPED", "STALE", "fermix sandbox env set "] {
        assert!(notes.contains(words), "{notes}");
    }
    let failed = world.call("shell", json!({"command": "exit 4"})).await;
    refused(
        &failed,
        &["STALE", "HELPED", "Command failed (exit code 4)"],
    );
    assert!(failed.text.find("STALE") < failed.text.find("Command failed"));
    assert!(!said.contains("leaked") && !failed.text.contains("leaked"));
    let unresolved: Vec<Value> = world
        .rows(TraceKind::AgentEvent)
        .into_iter()
        .filter_map(|row| row.fields.get("env_unresolved").cloned())
        .collect();
    assert_eq!(unresolved, vec![json!(["HELPED", "STALE"]); 2]);
}

#[tokio::test]
async fn output_that_is_no_text_keeps_its_end() {
    let world = World::new();
    let command = "printf BEGIN; head -c 200000 /dev/zero | tr '\\0' '\\377'; printf END";
    let text = ok(world.call("shell", json!({ "command": command })).await);
    assert!(text.len() < 256 * 1024, "{}", text.len());
    let (output, notes) = text.split_once("\n[note: ").expect("a note");
    assert!(output.starts_with("BEGIN\u{FFFD}") && output.ends_with("\u{FFFD}END"));
    assert!(output.contains(" bytes omitted …]") && !text.contains("[cut: "));
    assert!(notes.starts_with("the output is not text"), "{notes}");
}
