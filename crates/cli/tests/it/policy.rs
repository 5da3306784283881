//! `fermix sandbox`, `fermix grant` and `fermix revoke`, as the owner and others use them.

use std::fs;

use fermix_testkit::TestHome;
use serde_json::{Value, json};

use crate::support::{fermix, fermix_with_stdin, traces};

fn config(home: &TestHome) -> String {
    fs::read_to_string(home.config_path()).unwrap_or_default()
}

/// A folder that nothing has opened: outside the home of the pretended user.
fn outside(home: &TestHome) -> std::path::PathBuf {
    let folder = home.os_home().parent().unwrap().join("outside");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.txt"), "outside words").unwrap();
    folder
}

fn read(home: &TestHome, path: &std::path::Path) -> Value {
    let args = json!({ "path": path }).to_string();
    fermix(
        home,
        &["tools", "call", "file_read", "--args", &args, "--json"],
    )
    .json()
}

#[test]
fn a_grant_is_shown_then_given_then_taken_away() {
    let home = TestHome::new();
    let folder = outside(&home);
    let path = folder.to_str().unwrap();
    let file = folder.join("a.txt");
    assert_eq!(read(&home, &file)["success"], json!(false));

    // Nobody is there to say yes, so nothing happens, and the difference is shown.
    let run = fermix(&home, &["grant", "path", path]).code(1);
    for words in [
        &format!("allowed_roots + {path}"),
        "needs confirmation",
        "--yes",
    ] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    let run = fermix_with_stdin(&home, &["grant", "path", path], b"y\n").code(1);
    assert!(run.stderr.contains("--yes"), "{}", run.stderr);
    let asked = fermix(&home, &["grant", "path", path, "--json"])
        .code(1)
        .json();
    assert_eq!(asked["state"], json!("needs_confirmation"));
    assert_eq!(config(&home), "");

    let given = fermix(&home, &["grant", "path", path, "--yes", "--json"])
        .code(0)
        .json();
    assert_eq!(given["state"], json!("applied"));
    assert_eq!(
        given["diff"],
        json!([
            format!("effective_roots + {path}"),
            format!("allowed_roots + {path}")
        ])
    );
    assert!(config(&home).contains(path));
    assert_eq!(read(&home, &file)["success"], json!(true));
    let records: Vec<_> = fs::read_dir(home.fermix_home().join("grants"))
        .unwrap()
        .collect();
    assert_eq!(records.len(), 1);
    let rows = traces(&home, "agent_event");
    let change = rows.iter().find(|row| row["event"] == "policy_change");
    assert!(change.is_some_and(|row| row["operation"] == "grant"));

    let explain = fermix(&home, &["sandbox", "explain"]).code(0).stdout;
    assert!(explain.contains(&format!("{path} (granted)")), "{explain}");
    let grants = fermix(&home, &["sandbox", "grants", "--json"])
        .code(0)
        .json();
    assert_eq!(grants[0]["path"], json!(path));

    let run = fermix(&home, &["revoke", "path", path]).code(0);
    assert!(run.stdout.contains("applied"), "{}", run.stdout);
    assert_eq!(config(&home), "");
    assert_eq!(read(&home, &file)["success"], json!(false));
    let run = fermix(&home, &["revoke", "path", path, "--json"]).code(0);
    assert_eq!(run.json()["state"], json!("unchanged"));
}

#[test]
fn a_grant_for_reading_does_not_let_write() {
    let home = TestHome::new();
    let folder = outside(&home);
    let path = folder.to_str().unwrap();
    fermix(&home, &["grant", "path", path, "--read", "--yes"]).code(0);
    assert_eq!(read(&home, &folder.join("a.txt"))["success"], json!(true));
    let args = json!({ "path": folder.join("b.txt"), "content": "x" }).to_string();
    let run = fermix(&home, &["tools", "call", "file_write", "--args", &args]).code(1);
    assert!(
        run.stdout.contains("open for reading only"),
        "{}",
        run.stdout
    );
    assert!(!folder.join("b.txt").exists());

    let check = |arguments: &[&str], code| {
        let all: Vec<&str> = ["sandbox", "check"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        fermix(&home, &all).code(code).stdout
    };
    let file = folder.join("a.txt");
    let file = file.to_str().unwrap();
    assert!(check(&[file], 0).contains("(granted, read only)"));
    assert!(check(&[file, "--write"], 1).contains("rule: outside_root"));
    assert!(check(&["~/.ssh/id"], 1).contains("rule: protected_path"));
    // Relative paths start in the folder one is in.
    assert!(check(&["x"], 0).contains(home.workspace().to_str().unwrap()));
}

#[test]
fn unsafe_folders_are_refused_with_the_reason() {
    let home = TestHome::new();
    let os_home = home.os_home().to_str().unwrap().to_owned();
    let fermix_home = home.fermix_home().to_str().unwrap().to_owned();
    for path in [
        "/",
        "~",
        &os_home,
        &fermix_home,
        "~/.ssh",
        "/etc",
        "..",
        "/tmp",
    ] {
        let run = fermix(&home, &["grant", "path", path, "--yes"]).code(1);
        assert!(run.stderr.contains("unsafe_root"), "{path}: {}", run.stderr);
    }
    let run = fermix(&home, &["grant", "path", "~/absent", "--yes"]).code(1);
    assert!(
        run.stderr.contains("not an existing directory"),
        "{}",
        run.stderr
    );
    assert_eq!(config(&home), "");
    assert!(!home.fermix_home().join("grants").exists());
}

#[test]
fn modes_variables_and_commands() {
    let home = TestHome::new();
    let changed = |arguments: &[&str]| {
        let all: Vec<&str> = arguments.iter().chain(&["--json"]).copied().collect();
        let run = fermix(&home, &all);
        run.json()["state"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(changed(&["sandbox", "mode", "strict"]), "applied");
    assert_eq!(changed(&["sandbox", "mode", "open"]), "needs_confirmation");
    assert_eq!(changed(&["sandbox", "mode", "open", "--yes"]), "applied");
    fermix(&home, &["sandbox", "mode", "wide"]).code(2);

    let env = ["sandbox", "env", "allow", "SOME_NAME"];
    assert_eq!(changed(&env), "needs_confirmation");
    fermix(&home, &["sandbox", "env", "allow", "SOME_NAME", "--yes"]).code(0);
    fermix(
        &home,
        &[
            "sandbox",
            "env",
            "set",
            "SOME_NAME",
            "--yes",
            "--",
            "echo",
            "-n",
            "from a helper",
        ],
    )
    .code(0);
    let shell = fermix(
        &home,
        &["sandbox", "run", "--", "sh", "-c", "echo \"<$SOME_NAME>\""],
    )
    .code(0);
    assert!(shell.stdout.contains("<from a helper>"), "{}", shell.stdout);
    assert!(shell.stderr.contains("allow"), "{}", shell.stderr);
    let get = fermix(&home, &["sandbox", "env", "get", "SOME_NAME"]).code(0);
    assert!(get.stdout.contains("passed to commands"), "{}", get.stdout);
    assert!(!get.stdout.contains("<from a helper>"));
    assert_eq!(
        changed(&["sandbox", "env", "unset", "SOME_NAME"]),
        "applied"
    );

    let bind = [
        "sandbox", "grant", "command", "hello", "--yes", "--", "echo", "hello",
    ];
    fermix(&home, &bind).code(0);
    let list = fermix(&home, &["sandbox", "command", "list", "--json"])
        .code(0)
        .json();
    assert_eq!(list["commands"][0]["name"], json!("hello"));
    assert_eq!(list["commands"][0]["args"], json!(["hello"]));
    assert_eq!(
        changed(&["sandbox", "commands", "disable", "hello"]),
        "applied"
    );
    let preset = ["sandbox", "commands", "enable", "dev_tools"];
    assert_eq!(changed(&preset), "needs_confirmation");
    let run = fermix(&home, &["sandbox", "commands", "enable", "nothing"]).code(1);
    assert!(run.stderr.contains("dev_tools"), "{}", run.stderr);
    let status = fermix(&home, &["sandbox", "status", "--json"])
        .code(0)
        .json();
    assert_eq!(status["mode"], json!("open"));
}

#[test]
fn a_dry_run_says_what_decides_and_runs_nothing() {
    let home = TestHome::new();
    let canary = home.workspace().join("canary");
    let run = fermix(
        &home,
        &["sandbox", "run", "--dry-run", "--", "touch", "canary"],
    )
    .code(0);
    assert!(
        run.stdout.contains(home.workspace().to_str().unwrap()),
        "{}",
        run.stdout
    );
    assert!(!canary.exists());
    let run = fermix(&home, &["sandbox", "run", "--", "rm", "-rf", "/"]).code(1);
    assert!(run.stderr.contains("hardline"), "{}", run.stderr);
    fermix(&home, &["sandbox", "run", "--", "touch", "canary"]).code(0);
    assert!(canary.exists());
}

/// Settings that keep everything else from starting can be mended here.
#[test]
fn an_unsafe_grant_in_the_file_can_be_revoked() {
    let home = TestHome::new();
    home.write_config("[sandbox]\nallowed_roots = [\"~/.ssh\"]\n");
    fs::create_dir_all(home.os_home().join(".ssh")).unwrap();
    fermix(&home, &["tools", "list"]).code(1);
    fermix(&home, &["revoke", "path", "~/.ssh"]).code(0);
    fermix(&home, &["tools", "list"]).code(0);
}

#[test]
fn the_agents_own_shell_cannot_change_the_sandbox() {
    let home = TestHome::new();
    let folder = outside(&home);
    let binary = env!("CARGO_BIN_EXE_fermix");
    let inner = [
        format!("grant path {} --yes", folder.display()),
        "revoke path ~/x".to_owned(),
        "sandbox mode strict".to_owned(),
        "sandbox env allow A --yes".to_owned(),
        "sandbox env set A --yes -- pass show".to_owned(),
        "sandbox env deny A".to_owned(),
        "sandbox env unset A".to_owned(),
        "sandbox commands profile assistant".to_owned(),
        "sandbox commands enable dev_tools --yes".to_owned(),
        "sandbox grant command x --yes -- /bin/sh".to_owned(),
    ];
    // Plainly, without the runner's mark, and in a session of its own.
    for program in [
        binary.to_owned(),
        format!("setsid -w env -i HOME=\"$HOME\" {binary}"),
    ] {
        for inner in &inner {
            let args = json!({ "command": format!("{program} {inner}") }).to_string();
            let run = fermix(&home, &["tools", "call", "shell", "--args", &args]).code(1);
            assert!(
                run.stdout.contains("Fermix started"),
                "{inner}: {}",
                run.stdout
            );
        }
    }
    assert!(!home.config_path().exists());
    assert!(!home.fermix_home().join("grants").exists());
}

/// The command line takes no slash commands yet, so the tool that needs them is not there.
#[test]
fn the_tool_that_asks_needs_somebody_who_can_answer() {
    let home = TestHome::new();
    let list = fermix(&home, &["tools", "list", "--json"]).code(0).stdout;
    assert!(!list.contains("request_directory_access"));
    let args = json!({ "path": "/srv", "reason": "x" }).to_string();
    let run = fermix(
        &home,
        &["tools", "call", "request_directory_access", "--args", &args],
    )
    .code(1);
    assert!(!run.stdout.contains("/confirm"), "{}", run.stdout);
}
