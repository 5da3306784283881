//! Verbs, exit codes, configuration, traces.

use fermix_testkit::TestHome;
use serde_json::json;

use crate::support::{fermix, fermix_with_stdin, traces};

#[test]
fn usage_errors_exit_with_two_and_name_the_fix() {
    let home = TestHome::new();
    let cases: [(&[&str], &str); 9] = [
        (&[], "Usage"),
        (&["nope"], "fermix: unknown command: nope"),
        (&["ask"], "there is no message"),
        (&["ask", "--timeout", "0", "x"], "--timeout"),
        (&["ask", "--session", "../x", "x"], "session id"),
        (&["tools", "list", "--as", "boss"], "guest"),
        (&["traces", "--since", "yesterday"], "15m"),
        (&["help", "nope"], "unknown command: nope"),
        (&["config", "set", "fermix_core.agent.name"], "VALUE"),
    ];
    for (args, words) in cases {
        let run = fermix(&home, args).code(2);
        assert_eq!(run.stdout, "", "{args:?}");
        assert!(run.stderr.contains(words), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn help_version_and_completions_need_no_home() {
    let home = TestHome::new();
    for args in [
        &["--help"][..],
        &["help"],
        &["-h"],
        &["ask", "--help"],
        &["help", "tools", "call"],
    ] {
        let run = fermix(&home, args).code(0);
        assert!(
            run.stdout.contains("Usage") && run.stderr.is_empty(),
            "{args:?}: {}",
            run.stdout
        );
    }
    let version = env!("CARGO_PKG_VERSION");
    for args in [&["--version"][..], &["version"]] {
        assert_eq!(
            fermix(&home, args).code(0).stdout.trim(),
            format!("fermix {version}")
        );
    }
    assert_eq!(
        fermix(&home, &["version", "--json"]).code(0).json(),
        json!({ "version": version })
    );
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            fermix(&home, &["completions", shell])
                .code(0)
                .stdout
                .contains("capabilities")
        );
    }
    let untouched = std::fs::read_dir(home.fermix_home())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(untouched.collect::<Vec<_>>(), ["workspace"]);
}

#[test]
fn every_json_output_is_one_value() {
    let home = TestHome::new();
    home.file("notes.txt", "hello\n");
    let cases: [(&[&str], i32); 12] = [
        (&["capabilities", "--json"], 0),
        (&["capabilities", "--kind", "mcp", "--json"], 0),
        (&["tools", "list", "--json"], 0),
        (&["tools", "list", "--as", "worker", "--json"], 0),
        (
            &[
                "tools",
                "call",
                "file_read",
                "--args",
                r#"{"path":"notes.txt"}"#,
                "--json",
            ],
            0,
        ),
        (&["tools", "call", "file_read", "--args", "{}", "--json"], 1),
        (&["config", "get", "--json"], 0),
        (&["config", "get", "sandbox.mode", "--json"], 0),
        (&["config", "get", "sandbox.moed", "--json"], 1),
        (&["config", "validate", "--json"], 0),
        (&["ask", "--json", "read notes.txt"], 0),
        (&["traces", "--json"], 0),
    ];
    for (args, code) in cases {
        fermix(&home, args).code(code).json();
    }
}

#[test]
fn configuration_is_edited_in_place_and_checked_first() {
    let home = TestHome::new();
    let original = "# my settings\n[fermix_core.agent]\nname = \"otto\" # after grandpa\n";
    home.write_config(original);
    let path = home.config_path().display().to_string();
    assert_eq!(
        fermix(&home, &["config", "path"]).code(0).stdout.trim(),
        path
    );
    assert_eq!(
        fermix(&home, &["config", "get", "fermix_core.agent.name"])
            .code(0)
            .stdout
            .trim(),
        "\"otto\""
    );

    fermix(&home, &["config", "set", "sandbox.mode", "strict"]).code(0);
    let changed = std::fs::read_to_string(home.config_path()).unwrap();
    assert!(
        changed.starts_with(original) && changed.contains("mode = \"strict\""),
        "{changed}"
    );
    fermix(&home, &["config", "set", "sandbox.mode", "developer"]).code(1);
    let refused = fermix(
        &home,
        &[
            "config",
            "set",
            "fermix_core.providers.openai.api_key",
            "sk-0123456789abcdef0123",
        ],
    );
    assert!(
        refused
            .code(1)
            .stderr
            .contains("run `fermix secrets set openai`")
    );
    assert_eq!(
        std::fs::read_to_string(home.config_path()).unwrap(),
        changed
    );
    fermix(&home, &["config", "unset", "sandbox.mode"]).code(0);
    assert!(
        !std::fs::read_to_string(home.config_path())
            .unwrap()
            .contains("strict")
    );
}

#[test]
fn a_broken_configuration_is_named_and_can_be_mended() {
    let home = TestHome::new();
    home.write_config("[fermix_core.providers.openai]\ndefalt_model = \"gpt-5\"\n");
    for args in [
        &["ask", "hello"][..],
        &["tools", "list"],
        &["config", "validate"],
    ] {
        let run = fermix(&home, args).code(1);
        assert!(
            run.stderr.contains("defalt_model") && run.stderr.contains("default_model"),
            "{args:?}: {}",
            run.stderr
        );
    }
    let report = fermix(&home, &["config", "validate", "--json"])
        .code(1)
        .json();
    assert_eq!(report["valid"], json!(false));
    assert_eq!(report["problems"][0]["key"], json!("defalt_model"));
    fermix(
        &home,
        &[
            "config",
            "unset",
            "fermix_core.providers.openai.defalt_model",
        ],
    )
    .code(0);
    fermix(&home, &["config", "validate"]).code(0);
}

#[test]
fn a_secret_in_the_file_is_never_printed() {
    let home = TestHome::new();
    let key = "sk-0123456789abcdef0123456789";
    home.write_config(&format!(
        "[fermix_core.providers.openai]\napi_key = \"{key}\"\n"
    ));
    for args in [
        &["config", "get"][..],
        &["config", "get", "--json"],
        &["config", "get", "fermix_core.providers.openai.api_key"],
        &["config", "validate"],
        &["capabilities"],
    ] {
        let run = fermix(&home, args).code(0);
        assert!(
            !run.stdout.contains(key) && !run.stderr.contains(key),
            "{args:?}"
        );
    }
}

#[test]
fn the_home_can_be_named_three_ways() {
    let home = TestHome::new();
    let other = home.os_home().join("elsewhere");
    let named = other.display().to_string();
    let path = fermix(&home, &["--home", &named, "config", "path"])
        .code(0)
        .stdout;
    assert_eq!(path.trim(), other.join("config.toml").display().to_string());

    let mut blank = crate::support::command(&home, &["config", "path"]);
    blank.env("FERMIX_HOME", "  ");
    let path = crate::support::finish(blank.output().unwrap())
        .code(0)
        .stdout;
    assert_eq!(
        path.trim(),
        home.os_home()
            .join(".fermix/config.toml")
            .display()
            .to_string()
    );
}

#[test]
fn colours_are_off_without_a_terminal_and_with_no_color() {
    let home = TestHome::new();
    let mut help = crate::support::command(&home, &["help"]);
    help.env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1");
    let run = crate::support::finish(help.output().unwrap()).code(0);
    assert!(!run.stdout.contains('\u{1b}'));
}

#[test]
fn traces_tell_one_conversation_from_another() {
    let home = TestHome::new();
    home.file("notes.txt", "hello\n");
    let first = fermix(
        &home,
        &["ask", "--json", "--session", "work", "read notes.txt"],
    )
    .code(0)
    .json();
    fermix(
        &home,
        &["ask", "--json", "--session", "other", "read notes.txt"],
    )
    .code(0);
    assert_eq!(first["session_id"], json!("work"));
    assert_eq!(traces(&home, "tool_exec").len(), 2);
    let rows = fermix(
        &home,
        &[
            "traces",
            "--session",
            "work",
            "--type",
            "tool_exec",
            "--json",
        ],
    )
    .code(0)
    .json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["session_id"], first["trace_session"]);
    assert_eq!(rows[0]["tool"], json!("file_read"));
    let none = fermix(&home, &["traces", "--session", "nobody"]).code(0);
    assert!(none.stderr.contains("no traces match"));
}

#[test]
fn content_capture_can_be_turned_off() {
    let body = "the-quick-brown-fox";
    for (capture, found) in [("1", true), ("0", false)] {
        let home = TestHome::new();
        let mut ask = crate::support::command(&home, &["ask", &format!("read {body}.txt")]);
        ask.env("FERMIX_TRACE_CONTENT", capture);
        crate::support::finish(ask.output().unwrap()).code(0);
        for kind in ["tool_exec", "channel_msg"] {
            let rows = traces(&home, kind);
            assert!(!rows.is_empty(), "{kind}");
            let holds_it = rows.iter().any(|row| row.to_string().contains(body));
            assert_eq!(holds_it, found, "{kind} with {capture}: {rows:?}");
        }
    }
}

#[test]
fn arguments_come_from_the_line_a_file_or_standard_input() {
    let home = TestHome::new();
    home.file("notes.txt", "hello\n");
    home.file("args.json", r#"{"path": "notes.txt"}"#);
    let text = fermix(
        &home,
        &["tools", "call", "file_read", "--args", "@args.json"],
    )
    .code(0)
    .stdout;
    assert!(text.contains("hello"));
    let text = fermix_with_stdin(
        &home,
        &["tools", "call", "file_read", "--args", "-"],
        br#"{"path": "notes.txt"}"#,
    )
    .code(0);
    assert!(text.stdout.contains("hello"));
    fermix(
        &home,
        &["tools", "call", "file_read", "--args", "@absent.json"],
    )
    .code(2);
    let bad = fermix(&home, &["tools", "call", "file_read", "--args", "{"]).code(1);
    assert!(
        bad.stdout.contains("Invalid JSON arguments"),
        "{}",
        bad.stdout
    );
}

#[test]
fn whoever_asks_for_json_gets_a_value_even_when_the_line_makes_no_sense() {
    let home = TestHome::new();
    for args in [
        &["ask", "--json"][..],
        &["traces", "--json", "--since", "xx"],
        &["traces", "--json", "--type", "nope"],
        &["tools", "call", "--json"],
        &["aks", "--json", "hi"],
        &["tools", "call", "x", "--json", "--args", "@absent"],
    ] {
        let value = fermix(&home, args).code(2).json();
        assert_eq!(value["status"], json!("error"), "{args:?}");
        assert!(!value["error"].as_str().unwrap().is_empty(), "{args:?}");
    }
}

#[test]
fn a_slip_of_the_fingers_gets_one_line_and_the_nearest_verb() {
    let home = TestHome::new();
    let run = fermix(&home, &["confg", "path"]).code(2);
    let mut lines = run.stderr.lines();
    assert_eq!(
        lines.next(),
        Some("fermix: unknown command: confg; did you mean `config`?")
    );
    assert!(
        lines.next().unwrap().starts_with("Usage: fermix"),
        "{}",
        run.stderr
    );
    assert_eq!(lines.next(), None);
}

#[test]
fn chat_is_ask() {
    let home = TestHome::new();
    home.file("notes.txt", "hello\n");
    assert!(
        fermix(&home, &["chat", "read notes.txt"])
            .code(0)
            .stdout
            .contains("hello")
    );
}

#[test]
fn folders_that_no_grant_may_name_are_refused_in_the_configuration_too() {
    let home = TestHome::new();
    for (key, value) in [
        ("sandbox.allowed_roots", "[/]"),
        ("sandbox.allowed_roots", "[~]"),
        ("sandbox.allowed_roots", "[/etc]"),
        ("sandbox.allowed_roots", "[~/.fermix]"),
        ("sandbox.workspace_root", "/"),
        ("sandbox.workspace_root", "~"),
    ] {
        let run = fermix(&home, &["config", "set", key, value]).code(1);
        assert!(
            run.stderr.contains("cannot be opened to tools"),
            "{value}: {}",
            run.stderr
        );
        assert!(!home.config_path().exists());
    }
    fermix(
        &home,
        &["config", "set", "sandbox.allowed_roots", "[~/absent]"],
    )
    .code(0);
    home.write_config("[sandbox]\nallowed_roots = ['/']\n");
    for args in [
        &["config", "validate"][..],
        &["ask", "hello"],
        &["tools", "list"],
    ] {
        let run = fermix(&home, args).code(1);
        assert!(
            run.stderr.contains("[sandbox] allowed_roots `/`"),
            "{args:?}: {}",
            run.stderr
        );
    }
    let report = fermix(&home, &["config", "validate", "--json"])
        .code(1)
        .json();
    assert_eq!(report["valid"], json!(false));
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let home = TestHome::new();
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = crate::support::command(&home, &["version"]);
    let run = crate::support::finish(command.stdout(full).output().unwrap()).code(1);
    assert!(
        run.stderr.contains("cannot write to standard output"),
        "{}",
        run.stderr
    );
}

#[test]
fn many_changes_at_once_all_arrive() {
    let home = TestHome::new();
    let children: Vec<_> = (0..8)
        .map(|number| {
            let key = format!("fermix_core.models.m{number}.context_window");
            crate::support::start(&home, &["config", "set", &key, "1000"])
        })
        .collect();
    for child in children {
        crate::support::finish(child.wait_with_output().unwrap()).code(0);
    }
    let text = fermix(&home, &["config", "get", "fermix_core.models"])
        .code(0)
        .stdout;
    for number in 0..8 {
        assert!(text.contains(&format!("m{number}")), "{text}");
    }
}

#[test]
fn settings_that_do_not_go_together_are_refused_through_every_door() {
    let home = TestHome::new();
    let provider = [
        "config",
        "set",
        "fermix_core.routing.subagent_provider",
        "openrouter",
    ];
    fermix(&home, &provider).code(0);
    let model = [
        "config",
        "set",
        "fermix_core.routing.subagent_model",
        "claude-sonnet-4-6",
    ];
    let run = fermix(&home, &model).code(1);
    assert!(
        run.stderr.contains("[fermix_core.routing]"),
        "{}",
        run.stderr
    );
    home.write_config(
        "[fermix_core.routing]\nsubagent_provider = \"openrouter\"\nsubagent_model = \"claude-sonnet-4-6\"\n",
    );
    fermix(&home, &["config", "validate"]).code(1);
}

#[test]
fn a_blocked_folder_stays_closed_to_a_question_that_names_it() {
    let home = TestHome::new();
    let project = home.os_home().join("proj");
    std::fs::create_dir(&project).unwrap();
    home.write_config(&format!(
        "[sandbox]\nblocked_roots = ['{}']\n",
        project.display()
    ));
    let ask = |args: &[&str]| {
        let mut command = crate::support::command(&home, args);
        crate::support::finish(command.current_dir(&project).output().unwrap())
    };
    let run = ask(&["ask", "--root", ".", "list files"]).code(1);
    assert!(
        run.stderr.contains("blocked_roots closes"),
        "{}",
        run.stderr
    );
    let run = ask(&["ask", "list files"]).code(0);
    assert!(
        run.stderr.contains("[sandbox] blocked_roots closes it"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_pipe_is_no_image_and_is_not_waited_for() {
    let home = TestHome::new();
    let pipe = home.workspace().join("f.png");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let run = fermix(&home, &["ask", "--attach", "f.png", "what is this?"]).code(1);
    assert!(run.stderr.contains("it is not a file"), "{}", run.stderr);
}

#[test]
fn one_bad_byte_hides_no_other_row() {
    let home = TestHome::new();
    fermix(&home, &["tools", "call", "tool_help", "--args", "{}"]).code(1);
    let rows = home.fermix_home().join("traces");
    let day = std::fs::read_dir(rows)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut file = std::fs::File::options()
        .append(true)
        .open(day.join("tool_exec.jsonl"))
        .unwrap();
    std::io::Write::write_all(&mut file, b"\xFF\n{\"torn\n").unwrap();
    fermix(&home, &["tools", "call", "tool_help", "--args", "{}"]).code(1);
    assert_eq!(traces(&home, "tool_exec").len(), 2);
}
