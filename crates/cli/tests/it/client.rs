//! `ask` with a daemon, and without one.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc;
use std::time::Duration;

use fermix_api::{Done, Event, ImagePart, Reply, Request, ToolPhase};
use fermix_testkit::{FakeModel, Script, Step, TestHome};
use serde_json::json;

use crate::fake_daemon::FakeDaemon;
use crate::support::{command, fermix, fermix_with_stdin, finish, start, traces};

/// The message of the only request, and its session.
#[track_caller]
fn message(daemon: &FakeDaemon) -> (String, String) {
    match daemon.requests().as_slice() {
        [
            Request::AgentMessage {
                content,
                session_id: Some(session),
                ..
            },
        ] => (content.clone(), session.clone()),
        other => panic!("not one message: {other:?}"),
    }
}

#[test]
fn a_running_daemon_answers() {
    let home = TestHome::new();
    let daemon = FakeDaemon::start(&home, |_, connection| {
        connection.say("look");
        connection.event(&Event::TextDone {});
        for phase in [ToolPhase::Started, ToolPhase::Succeeded] {
            connection.event(&Event::Tool {
                call_id: "1".into(),
                name: "file_read".into(),
                phase,
            });
        }
        connection.bytes(br#"{"event":"of_a_later_version","text":"x"}"#);
        connection.event(&Event::Notice {
            text: "read it twice".into(),
        });
        connection.say("the ans");
        connection.done("the answer");
    });
    let run = fermix(&home, &["ask", "-s", "work", "what", "is it?"]).code(0);
    // Nothing of a preview without a terminal.
    assert_eq!(run.stdout, "the answer\n");
    assert_eq!(run.stderr, "fermix: read it twice\n");
    let [
        Request::AgentMessage {
            content,
            session_id,
            cwd,
            stream,
            images,
            ..
        },
    ] = &daemon.requests()[..]
    else {
        panic!("not one message");
    };
    assert_eq!(content, "what is it?");
    assert_eq!(session_id.as_deref(), Some("work"));
    assert_eq!(cwd.as_deref(), Some(home.workspace().as_path()));
    assert!(*stream && images.is_empty());
    // Nothing was built here.
    assert!(!home.fermix_home().join("memory.db").exists());
}

#[test]
fn the_json_is_the_same_whoever_answers() {
    let home = TestHome::new();
    let model = FakeModel::start([Step::say("hi")]);
    home.use_model(&model, "");
    let here = fermix(&home, &["ask", "--json", "-s", "s", "hello"]).code(0);
    assert_eq!(
        here.stderr,
        "fermix: no daemon is running; answering in this process\n"
    );
    let daemon = FakeDaemon::start(&home, |_, connection| connection.done("hi"));
    let there = fermix(&home, &["ask", "--json", "-s", "s", "hello"]).code(0);
    assert_eq!(there.stderr, "");
    let (here, there) = (here.json(), there.json());
    let names = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names(&here), names(&there));
    for name in ["status", "session_id", "response"] {
        assert_eq!(here[name], there[name], "{name}");
    }
    drop(daemon);
}

#[test]
fn without_a_daemon_the_flag_insists_in_vain() {
    let home = TestHome::new();
    let check = || {
        let run = fermix(&home, &["ask", "--daemon", "hello"]).code(3);
        assert_eq!(
            run.stderr,
            "fermix: no daemon is running; start one with `fermix run`\n"
        );
        let run = fermix(&home, &["ask", "--daemon", "--json", "hello"]).code(3);
        assert_eq!(
            run.json(),
            json!({ "status": "error", "error": "not_running" })
        );
    };
    check();
    // Nor does a socket whose daemon was killed answer.
    let socket = home.fermix_home().join("daemon.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    check();
    let run = fermix(&home, &["ask", "what can you do"]).code(0);
    assert!(
        run.stderr.contains("no daemon is running"),
        "{}",
        run.stderr
    );
}

#[test]
fn each_question_is_a_conversation_and_commands_are_about_the_terminals() {
    let home = TestHome::new();
    for (text, flags, expected) in [
        ("hello", &[][..], None),
        ("/etc/passwd is odd", &[][..], None),
        ("/new", &[][..], Some("cli")),
        ("/confirm ABCDEFGH once", &[][..], Some("cli")),
        ("/new", &["-s", "work"][..], Some("work")),
    ] {
        let daemon = FakeDaemon::start(&home, |_, connection| connection.done("ok"));
        let mut args = vec!["ask", text];
        args.extend(flags);
        fermix(&home, &args).code(0);
        let (content, session) = message(&daemon);
        assert_eq!(content, text);
        match expected {
            Some(expected) => assert_eq!(session, expected, "{text}"),
            None => assert!(session.starts_with("s-"), "{text}: {session}"),
        }
    }
}

#[test]
fn a_folder_for_one_question_is_given_here_and_to_no_daemon() {
    let home = TestHome::new();
    let daemon = FakeDaemon::start(&home, |_, connection| connection.done("from the daemon"));
    let folder = home.os_home().join("project");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), "alpha\n").unwrap();
    let root = folder.to_str().unwrap();
    let question = format!("read {root}/a.txt");
    let run = fermix(&home, &["ask", "--root", root, &question]).code(0);
    assert!(run.stdout.contains("alpha"), "{}", run.stdout);
    assert!(
        run.stderr.contains("--root is for this command alone"),
        "{}",
        run.stderr
    );
    assert_eq!(daemon.requests(), []);
    let run = fermix(&home, &["ask", "--daemon", "--root", root, "x"]).code(2);
    assert!(run.stderr.contains("--daemon"), "{}", run.stderr);
}

#[test]
fn small_images_ride_along_and_large_ones_are_named() {
    let home = TestHome::new();
    let mut png = vec![0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A];
    home.file("small.png", &png);
    png.resize(2 << 20, 7);
    let large = home.file("large.png", &png);
    let images = |file: &str| {
        let daemon = FakeDaemon::start(&home, |_, connection| connection.done("seen"));
        fermix(&home, &["ask", "--attach", file, "what is it?"]).code(0);
        match &daemon.requests()[..] {
            [Request::AgentMessage { images, .. }] => images.clone(),
            other => panic!("{other:?}"),
        }
    };
    let part = |data: Option<&str>, path: Option<&std::path::Path>| ImagePart {
        mime_type: "image/png".into(),
        data_base64: data.map(str::to_owned),
        path: path.map(std::path::Path::to_owned),
    };
    assert_eq!(images("small.png"), [part(Some("iVBORw0KGgo="), None)]);
    assert_eq!(images("large.png"), [part(None, Some(&large))]);
}

#[test]
fn standard_input_reaches_the_daemon() {
    let home = TestHome::new();
    let daemon = FakeDaemon::start(&home, |_, connection| connection.done("ok"));
    fermix_with_stdin(&home, &["ask", "--stdin", "odd?"], b"some text").code(0);
    assert_eq!(message(&daemon).0, "odd?\n\nsome text");
}

#[test]
fn a_silent_daemon_is_given_up_and_notices() {
    let home = TestHome::new();
    let (closed, notice) = mpsc::channel();
    let daemon = FakeDaemon::start(&home, move |_, connection| {
        connection.wait_for_close();
        closed.send(()).unwrap();
    });
    let run = fermix(&home, &["ask", "-t", "100", "--json", "hello"]).code(1);
    assert_eq!(run.json()["error"], json!("timeout"));
    notice.recv_timeout(Duration::from_secs(20)).unwrap();
    let [Request::AgentMessage { timeout_ms, .. }] = &daemon.requests()[..] else {
        panic!("not one message");
    };
    assert_eq!(*timeout_ms, Some(100));
}

#[test]
fn an_interrupted_client_takes_its_turn_with_it() {
    for (signal, code) in [
        (rustix::process::Signal::INT, 130),
        (rustix::process::Signal::TERM, 143),
    ] {
        let home = TestHome::new();
        let (closed, notice) = mpsc::channel();
        let daemon = FakeDaemon::start(&home, move |_, connection| {
            connection.say("thinking");
            connection.wait_for_close();
            closed.send(()).unwrap();
        });
        let child = start(&home, &["ask", "hello"]);
        daemon.wait_for(1);
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        let run = finish(child.wait_with_output().unwrap()).code(code);
        assert_eq!(run.stderr, "fermix: stopped\n");
        notice.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}

#[test]
fn what_a_daemon_gets_wrong_is_said_and_not_believed() {
    type Answer = fn(&Request, &mut crate::fake_daemon::Connection);
    let cases: [(Answer, &str); 6] = [
        (
            |_, connection| connection.reply(&Reply::error("invalid request: no")),
            "invalid request: no",
        ),
        (|_, _| {}, "the daemon went away before it had answered"),
        (
            |_, connection| connection.say("half"),
            "the daemon went away before it had answered",
        ),
        (|_, connection| connection.bytes(b"{"), "not understood"),
        (
            |_, connection| connection.unframed(&[0xFF, 0xFF, 0xFF, 0xFF]),
            "longer than the limit",
        ),
        (
            |_, connection| {
                let done = Done {
                    status: "error".into(),
                    error: Some("no model answers".into()),
                    ..Done::default()
                };
                connection.event(&Event::Done(Box::new(done)));
            },
            "no model answers",
        ),
    ];
    for (answer, expected) in cases {
        let home = TestHome::new();
        let _daemon = FakeDaemon::start(&home, answer);
        let run = fermix(&home, &["ask", "hello"]).code(1);
        assert!(run.stderr.contains(expected), "{expected}: {}", run.stderr);
        assert_eq!(run.stdout, "");
        let run = fermix(&home, &["ask", "--json", "hello"]).code(1).json();
        assert_eq!(run["status"], json!("error"));
        assert!(run["error"].as_str().unwrap().contains(expected), "{run}");
    }
}

#[test]
fn a_home_with_a_long_path_has_a_daemon_too() {
    let home = TestHome::new();
    let deep = home.os_home().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    std::fs::set_permissions(&deep, std::fs::Permissions::from_mode(0o700)).unwrap();
    let folder = std::fs::File::open(&deep).unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&folder);
    let socket = format!("/proc/self/fd/{descriptor}/daemon.sock");
    let daemon = FakeDaemon::at(socket.into(), |_, connection| connection.done("from afar"));
    let run = fermix(&home, &["--home", deep.to_str().unwrap(), "ask", "hello"]).code(0);
    assert_eq!(run.stdout, "from afar\n");
    assert_eq!(daemon.requests().len(), 1);
}

#[test]
fn commands_work_without_a_daemon() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|seen| {
        Step::say(format!("message {}", seen.messages.len()))
    }));
    home.use_model(&model, "");
    let ask = |text: &str| {
        let run = fermix(&home, &["ask", "-s", "work", text]).code(0);
        run.stdout.trim().to_owned()
    };
    assert_eq!(ask("one"), "message 1");
    assert_eq!(ask("two"), "message 3");
    assert!(ask("  /NEW@fermixbot ").starts_with("New session."));
    assert_eq!(ask("three"), "message 1");
    assert_eq!(ask("/stop"), "Nothing was running or waiting.");
    assert_eq!(ask("/tasks"), "Nothing is running or waiting.");
    assert!(ask("/whoami").starts_with("owner on cli, in conversation work"));
    let help = ask("/help");
    for name in [
        "/help",
        "/whoami",
        "/new (or /clear)",
        "/tasks",
        "/stop [here]",
    ] {
        assert!(help.contains(name), "{help}");
    }
    // What is no command is words for the model.
    assert_eq!(ask("/etc/passwd is odd"), "message 3");
    assert_eq!(ask("/frobnicate"), "message 5");
    assert_eq!(model.requests().len(), 5);

    let run = fermix(&home, &["ask", "--json", "/new"]).code(0).json();
    assert_eq!(
        run,
        json!({
            "status": "ok",
            "session_id": "cli",
            "response": "New session. Nothing had been said before.",
        })
    );
    let run = fermix(&home, &["ask", "/new plan for today"]).code(1);
    assert!(
        run.stderr.contains("nothing was done; usage: /new"),
        "{}",
        run.stderr
    );
    let given: Vec<_> = traces(&home, "channel_msg")
        .into_iter()
        .filter_map(|row| row["command"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(
        given,
        ["new", "stop", "tasks", "whoami", "help", "new", "new"]
    );
}

#[test]
fn a_conversation_needs_a_message_or_a_terminal() {
    let home = TestHome::new();
    let run = finish(command(&home, &["chat"]).output().unwrap()).code(2);
    assert!(run.stderr.contains("--stdin"), "{}", run.stderr);
}
