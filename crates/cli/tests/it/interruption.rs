//! Ctrl-C, `kill -9`, and the next start.

use std::time::{Duration, Instant};

use fermix_testkit::{FakeModel, Script, Step, TestHome};
use serde_json::json;

use crate::support::{fermix, finish, start};

/// Waits until `holds`, for at most ten seconds.
#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The processes whose command line contains `words`.
fn running(words: &str) -> usize {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.unwrap().path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(words))
        .count()
}

fn signal(child: &std::process::Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// A command that leaves a child in a session of its own, both recognisable.
fn stubborn(mark: &str) -> serde_json::Value {
    json!({ "command": format!("setsid sh -c 'trap \"\" TERM; sleep 300; : {mark}' & sh -c 'sleep 300; : {mark}'") })
}

#[test]
fn an_interrupted_turn_leaves_no_process_and_no_half_answer() {
    for how in [
        rustix::process::Signal::INT,
        rustix::process::Signal::TERM,
        rustix::process::Signal::KILL,
    ] {
        let home = TestHome::new();
        let mark = format!("mark-{}-{how:?}", std::process::id()).replace(['(', ')', ' '], "");
        let command = stubborn(&mark);
        let model = FakeModel::start([Step::call("shell", command), Step::say("after the break")]);
        home.use_model(&model, "");
        let child = start(&home, &["ask", "--session", "s", "start the long command"]);
        eventually("the command", || running(&mark) >= 2);
        signal(&child, how);
        eventually("the end of everything it started", || running(&mark) == 0);
        let run = finish(child.wait_with_output().unwrap());
        assert_ne!(run.code, 0);

        let next = fermix(&home, &["ask", "--session", "s", "go on"]).code(0);
        assert_eq!(next.stdout.trim(), "after the break");
        model.assert_clean();
    }
}

#[test]
fn whenever_it_is_killed_the_next_start_finds_everything_in_order() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|seen| {
        if seen.last_results().is_empty() {
            Step::call(
                "file_write",
                json!({ "path": "out.txt", "content": "x".repeat(200_000) }),
            )
        } else {
            Step::say("written")
        }
    }));
    home.use_model(&model, "");
    for round in 0..24_u64 {
        let mut child = start(&home, &["ask", "--session", "s", "write it"]);
        std::thread::sleep(Duration::from_millis(round * 3));
        let _ = child.kill();
        let _ = child.wait();
        let whole = home
            .read("out.txt")
            .is_none_or(|bytes| bytes.len() == 200_000);
        assert!(whole, "half a file after {round} rounds");
    }
    let last = fermix(&home, &["ask", "--session", "s", "write it"]).code(0);
    assert_eq!(last.stdout.trim(), "written");
    // Pairing, order and blanks were checked by the server on every request.
    model.assert_clean();
    let leftovers: Vec<_> = std::fs::read_dir(home.workspace())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "out.txt")
        .collect();
    assert!(leftovers.len() <= 24, "{leftovers:?}");
}

#[test]
fn two_questions_in_one_conversation_wait_for_each_other() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|_| {
        Step::say("ok").after(Duration::from_millis(400))
    }));
    home.use_model(&model, "");
    let children: Vec<_> = (0..3)
        .map(|_| start(&home, &["ask", "--session", "s", "hello"]))
        .collect();
    for child in children {
        finish(child.wait_with_output().unwrap()).code(0);
    }
    let lengths: Vec<_> = model
        .requests()
        .iter()
        .map(|seen| seen.messages.len())
        .collect();
    assert_eq!(lengths, [1, 3, 5], "the turns did not see each other");
    model.assert_clean();
}
