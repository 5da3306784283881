//! What a stranger sees, and what a process of the agent's own may not do.

use fermix_testkit::TestHome;
use serde_json::{Value, json};

use crate::support::fermix;

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect()
}

#[test]
fn a_guest_has_nothing_of_the_owners_and_nothing_that_acts() {
    let home = TestHome::new();
    let list = fermix(&home, &["tools", "list", "--as", "guest", "--json"])
        .code(0)
        .json();
    for entry in list.as_array().unwrap() {
        assert_eq!(entry["owner_only"], json!(false), "{entry}");
        assert_eq!(entry["policy_class"], json!("read_only"), "{entry}");
    }
    assert_eq!(
        names(&list),
        ["tool_call", "tool_describe", "tool_help", "tool_search"]
    );
    let owner = fermix(&home, &["tools", "list", "--json"]).code(0).json();
    let owner = names(&owner);
    for tool in [
        "shell",
        "file_read",
        "file_write",
        "file_edit",
        "glob_search",
        "content_search",
    ] {
        assert!(owner.contains(&tool), "{owner:?}");
    }
    let worker = fermix(&home, &["tools", "list", "--as", "worker", "--json"])
        .code(0)
        .json();
    assert!(names(&worker).contains(&"file_read"));
    assert!(!names(&worker).contains(&"file_write"));
}

#[test]
fn a_guest_cannot_tell_hidden_from_missing() {
    let home = TestHome::new();
    home.file("Cargo.toml", "[package]\n");
    let call = |tool: &str, verb: &str, args: &str| {
        let run = fermix(
            &home,
            &["tools", "call", verb, "--as", "guest", "--args", args],
        )
        .code(1);
        assert_eq!(run.stderr, "");
        run.stdout.replace(tool, "X")
    };
    let args = r#"{"path":"Cargo.toml"}"#;
    let hidden = call("file_read", "file_read", args);
    assert_eq!(hidden, call("no_such_tool", "no_such_tool", args));
    assert_eq!(hidden.trim(), "Error: Tool 'X' not found");
    for verb in ["tool_help", "tool_describe"] {
        let ask = |tool: &str| call(tool, verb, &json!({ "name": tool }).to_string());
        assert_eq!(ask("file_read"), ask("no_such_tool"));
        assert_eq!(ask("shell"), ask("no_such_tool"));
    }
    let through = |tool: &str| {
        call(
            tool,
            "tool_call",
            &json!({ "name": tool, "arguments": {} }).to_string(),
        )
    };
    assert_eq!(through("shell"), through("no_such_tool"));
}

#[test]
fn deferral_can_be_turned_off() {
    let home = TestHome::new();
    home.write_config("[fermix_core.tools.tool_search]\nenabled = false\n");
    let list = fermix(&home, &["tools", "list", "--json"]).code(0).json();
    let list = names(&list);
    assert!(list.contains(&"tool_help"));
    assert!(
        !list
            .iter()
            .any(|name| ["tool_search", "tool_describe", "tool_call"].contains(name)),
        "{list:?}"
    );
}

/// Ways a command may dress up the program it calls: plainly, without the runner's mark, in a
/// session of its own, as a copy, and as an orphan.
fn disguises(binary: &str) -> Vec<String> {
    let copy = format!("cp {binary} ./copy; env -i HOME=\"$HOME\" PATH=\"$PATH\" ./copy");
    vec![
        binary.to_owned(),
        format!("env -u FERMIX_RUN {binary}"),
        format!("setsid -w env -i HOME=\"$HOME\" {binary}"),
        copy,
    ]
}

#[test]
fn the_agents_own_shell_is_not_the_owner() {
    let home = TestHome::new();
    let shell = |command: &str| {
        let args = json!({ "command": command }).to_string();
        fermix(&home, &["tools", "call", "shell", "--args", &args])
    };
    for program in disguises(env!("CARGO_BIN_EXE_fermix")) {
        for inner in [
            "config set sandbox.mode open",
            "config unset sandbox.mode",
            "ask --root /opt hello",
        ] {
            let run = shell(&format!("{program} {inner}")).code(1);
            assert!(
                run.stdout.contains("started by Fermix") || run.stdout.contains("Fermix started"),
                "{program} {inner}: {}",
                run.stdout
            );
        }
        let list = shell(&format!("{program} tools list --json"))
            .code(0)
            .stdout;
        assert!(
            list.contains("file_read") && !list.contains("\"file_write\""),
            "{program}: {list}"
        );
    }
    let orphan = "(setsid sh -c 'sleep 0.3; env -i HOME=\"$HOME\" ./copy config set sandbox.mode open > out.txt 2>&1' &) ; sleep 2; cat out.txt";
    let run = shell(orphan);
    assert!(
        run.stdout.contains("Fermix started") || run.stdout.contains("started by Fermix"),
        "{}",
        run.stdout
    );
    assert!(!home.config_path().exists());
}

#[test]
fn a_command_that_needs_a_yes_is_refused_where_nobody_can_be_asked() {
    let home = TestHome::new();
    fermix(&home, &["config", "set", "sandbox.approve", "risky"]).code(0);
    let call = |command: &str| {
        let args = json!({ "command": command }).to_string();
        fermix(&home, &["tools", "call", "shell", "--args", &args])
    };
    assert!(call("echo fine").code(0).stdout.contains("fine"));
    let canary = home.file("canary", "x");
    let run = call("rm canary").code(1);
    assert!(
        run.stdout.contains("approval_unavailable"),
        "{}",
        run.stdout
    );
    assert!(canary.exists());
}

#[test]
fn a_configured_command_is_a_tool() {
    let home = TestHome::new();
    home.write_config("[sandbox.commands.say]\ncommand = \"/bin/echo\"\nargs = [\"said:\"]\n");
    let call = ["tools", "call", "say", "--args", "{\"prompt\": \"hello\"}"];
    assert!(fermix(&home, &call).code(0).stdout.contains("said: hello"));
    home.write_config("[sandbox.commands.say]\nargs = [\"said:\"]\n");
    let run = fermix(&home, &call).code(1);
    assert!(run.stderr.contains("command"), "{}", run.stderr);
}
