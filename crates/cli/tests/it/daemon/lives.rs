//! How a daemon begins, ends, and begins again.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use fermix_testkit::{FakeModel, Script, Step, TestHome};
use rustix::process::Signal;
use serde_json::json;

use super::running::{Connection, Running, eventually, processes, request};
use crate::support::{command, fermix, finish, start};

/// A command that leaves a child in a session of its own, both recognisable.
fn stubborn(mark: &str) -> serde_json::Value {
    json!({ "command": format!("setsid sh -c 'trap \"\" TERM; sleep 300; : {mark}' & sh -c 'sleep 300; : {mark}'") })
}

#[test]
fn a_second_daemon_is_refused_and_the_first_stays() {
    let home = TestHome::new();
    let daemon = Running::start(&home);
    let socket = home.fermix_home().join("daemon.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = fermix(&home, &["run"]).code(1);
    assert!(
        second.stderr.contains("another_daemon_running")
            && second.stderr.contains(socket.to_str().unwrap())
            && second.stderr.contains(&daemon.pid().to_string()),
        "{}",
        second.stderr
    );
    let status = request(&home, &json!({ "method": "status" }));
    assert_eq!(status["pid"], json!(daemon.pid()));
    assert_eq!(status["status"], json!("ok"));
}

#[test]
fn after_a_kill_the_next_start_replaces_the_socket_and_closes_what_was_open() {
    let home = TestHome::new();
    let mark = format!("killed-{}", std::process::id());
    let model = FakeModel::start([Step::call("shell", stubborn(&mark)), Step::say("and now?")]);
    home.use_model(&model, "");
    let mut daemon = Running::start(&home);
    let client = start(&home, &["ask", "--session", "s", "start the long command"]);
    eventually("the command", || processes(&mark) >= 2);
    daemon.signal(Signal::KILL);
    daemon.wait();
    finish(client.wait_with_output().unwrap()).code(1);
    eventually("the end of everything it started", || processes(&mark) == 0);
    assert!(home.fermix_home().join("daemon.sock").exists());
    fermix(&home, &["status"]).code(3);

    let _daemon = Running::start(&home);
    let log = fermix(&home, &["logs"]).code(0).stdout;
    assert!(log.contains("left open were marked marked=1"), "{log}");
    let next = fermix(&home, &["ask", "--daemon", "--session", "s", "go on"]).code(0);
    assert_eq!(next.stdout.trim(), "and now?");
    let shown = &model.last_request().messages;
    assert!(
        shown[1].text.contains("was not finished"),
        "{:?}",
        shown[1].text
    );
    model.assert_clean();
}

#[test]
fn a_turn_that_can_end_does_before_the_daemon() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|_| {
        Step::say("just in time").after(Duration::from_secs(2))
    }));
    home.use_model(&model, "");
    let mut daemon = Running::start(&home);
    let client = start(&home, &["ask", "--daemon", "are you there?"]);
    eventually("the question", || model.request_count() == 1);
    daemon.signal(Signal::TERM);
    let run = finish(client.wait_with_output().unwrap()).code(0);
    assert_eq!(run.stdout.trim(), "just in time");
    assert_eq!(daemon.wait().code(), Some(0));
    assert!(!home.fermix_home().join("daemon.sock").exists());
    // The log was folded into the file.
    assert!(!home.fermix_home().join("memory.db-wal").exists());
}

#[test]
fn a_turn_that_does_not_end_is_stopped_with_all_it_started() {
    let home = TestHome::new();
    let mark = format!("drained-{}", std::process::id());
    let model = FakeModel::start([Step::call("shell", stubborn(&mark))]);
    home.use_model(&model, "");
    let mut daemon = Running::start(&home);
    let client = start(&home, &["ask", "--daemon", "start the long command"]);
    eventually("the command", || processes(&mark) >= 2);
    daemon.signal(Signal::TERM);
    let status = daemon.wait();
    assert_eq!(status.code(), Some(0), "{}", daemon.stderr());
    assert_eq!(processes(&mark), 0);
    let run = finish(client.wait_with_output().unwrap()).code(1);
    assert!(run.stderr.contains("stopped"), "{}", run.stderr);
    assert!(!home.fermix_home().join("daemon.sock").exists());
}

#[test]
fn told_twice_it_ends_at_once() {
    let home = TestHome::new();
    let mark = format!("twice-{}", std::process::id());
    let model = FakeModel::start([Step::call("shell", stubborn(&mark))]);
    home.use_model(&model, "");
    let mut daemon = Running::start(&home);
    let client = start(&home, &["ask", "--daemon", "start the long command"]);
    eventually("the command", || processes(&mark) >= 2);
    daemon.signal(Signal::TERM);
    eventually("the end of listening", || {
        fermix(&home, &["status"]).code == 3
    });
    daemon.signal(Signal::INT);
    assert_eq!(daemon.wait().code(), Some(130));
    eventually("the end of everything it started", || processes(&mark) == 0);
    finish(client.wait_with_output().unwrap()).code(1);
    Running::start(&home);
}

#[test]
fn frames_that_are_none_are_answered_at_once() {
    let home = TestHome::new();
    let _daemon = Running::start(&home);
    let five_mebibytes = 5_u32 << 20;
    // The length alone is enough to say no.
    let mut connection = Connection::open(&home);
    connection.send(&five_mebibytes.to_be_bytes());
    let reply = connection.receive().unwrap();
    assert_eq!(reply["reason"], json!("invalid request"));
    // And whoever sends all of it comes to read the answer.
    let mut connection = Connection::open(&home);
    connection.send(&five_mebibytes.to_be_bytes());
    connection.send(&vec![b' '; five_mebibytes as usize]);
    assert_eq!(connection.receive().unwrap(), reply);

    let replies = [
        (json!([]), "invalid request"),
        (json!({ "method": 7 }), "invalid request"),
        (json!({ "method": "answer" }), "invalid request"),
        (json!({ "method": "dance" }), "unknown method"),
    ];
    for (asked, reason) in replies {
        assert_eq!(request(&home, &asked)["reason"], json!(reason), "{asked}");
    }
    let other = request(&home, &json!({ "method": "status", "v": 99 }));
    assert!(other["reason"].as_str().unwrap().contains("version 99"));
    // A connection that says nothing is given up on and keeps nobody waiting.
    let mut silent = Connection::open(&home);
    request(&home, &json!({ "method": "status", "v": 1 }));
    assert_eq!(
        silent.receive().unwrap()["detail"],
        json!("no request came within 5 seconds")
    );
}

#[test]
fn a_long_home_and_a_service_manager_are_served() {
    let home = TestHome::new();
    let long = home.os_home().join("x".repeat(150));
    let flag = ["--home", long.to_str().unwrap()];
    let manager = std::os::unix::net::UnixDatagram::bind(home.os_home().join("notify")).unwrap();
    let mut run = command(&home, &[flag[0], flag[1], "run"]);
    run.env("NOTIFY_SOCKET", home.os_home().join("notify"));
    let mut daemon = Running::start_with(run);
    let mut told = [0; 64];
    let length = manager.recv(&mut told).unwrap();
    assert_eq!(&told[..length], b"READY=1");
    fermix(&home, &[flag[0], flag[1], "status"]).code(0);
    let stopped = fermix(&home, &[flag[0], flag[1], "stop"]).code(0);
    assert!(stopped.stdout.contains(&daemon.pid().to_string()));
    assert_eq!(daemon.wait().code(), Some(0));
    let length = manager.recv(&mut told).unwrap();
    assert_eq!(&told[..length], b"STOPPING=1");
}
