//! The conversation at a terminal: keys, history, prompts.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fermix_api::{Reply, Request};
use fermix_testkit::{FakeModel, Script, Seen, Step, TestHome};

use crate::fake_daemon::{Connection, FakeDaemon};
use crate::terminal::Terminal;

const ENTER: &str = "\r";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const UP: &str = "\x1b[A";

/// What the person last said, as the model read it.
fn said(seen: &Seen) -> String {
    seen.messages
        .last()
        .map(|message| message.text.clone())
        .unwrap_or_default()
}

#[test]
fn a_conversation_goes_on_from_line_to_line_and_from_day_to_day() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|seen| {
        Step::say(format!("answer-{}", seen.messages.len()))
    }));
    home.use_model(&model, "");
    let mut terminal = Terminal::start(&home, &["chat"]);
    terminal.sees("conversation `cli`");
    terminal.edits();
    terminal.press("hello");
    terminal.press(ENTER);
    terminal.sees("no daemon is running");
    terminal.sees("answer-1");
    terminal.edits();
    terminal.press("and then?\r");
    terminal.sees("answer-3");
    terminal.edits();
    // A name is completed, the command is not the model's to see.
    terminal.press("/who\t\r");
    terminal.sees("owner on cli, in conversation cli: the owner.");
    terminal.edits();
    terminal.press(CTRL_D);
    terminal.ends(0);
    assert!(terminal.gives_lines());

    let mut terminal = Terminal::start(&home, &["chat"]);
    terminal.edits();
    terminal.press(UP);
    terminal.press(UP);
    terminal.press(ENTER);
    terminal.sees("answer-5");
    assert_eq!(said(&model.last_request()), "and then?");
    terminal.edits();
    terminal.press("/clear\r");
    terminal.sees("New session.");
    terminal.edits();
    terminal.press("again\r");
    terminal.sees("answer-1");
    terminal.edits();
    terminal.press("/quit\r");
    terminal.ends(0);

    let history = home.fermix_home().join("chat_history");
    let mode = history.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(history).unwrap();
    let lines: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            "hello",
            "and then?",
            "/whoami",
            "and then?",
            "/clear",
            "again",
            "/quit"
        ]
    );
}

#[test]
fn what_is_pasted_is_one_message_and_a_space_keeps_it_out_of_the_history() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|_| Step::say("fine")));
    home.use_model(&model, "");
    let mut terminal = Terminal::start(&home, &["chat"]);
    terminal.edits();
    terminal.press("\x1b[200~first\nsecond\n/new\x1b[201~");
    terminal.sees("/new");
    terminal.press(ENTER);
    terminal.sees("fine");
    assert_eq!(said(&model.last_request()), "first\nsecond\n/new");
    terminal.edits();
    terminal.press("one\\\rtwo\r");
    terminal.sees("fine");
    assert_eq!(said(&model.last_request()), "one\ntwo");
    terminal.edits();
    terminal.press(" between us\r");
    terminal.sees("fine");
    terminal.edits();
    terminal.press(CTRL_D);
    terminal.ends(0);
    let text = std::fs::read_to_string(home.fermix_home().join("chat_history")).unwrap();
    assert!(text.contains(r"first\nsecond\n/new"), "{text}");
    assert!(!text.contains("between us"), "{text}");
}

#[test]
fn ctrl_c_stops_the_answer_first_and_leaves_last() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|seen| match said(seen).as_str() {
        "slow" => Step::say("never").after(Duration::from_secs(600)),
        _ => Step::say("quick answer"),
    }));
    home.use_model(&model, "");
    let mut terminal = Terminal::start(&home, &["chat"]);
    terminal.edits();
    terminal.press("slow\r");
    terminal.sees("no daemon is running");
    while model.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    terminal.press(CTRL_C);
    terminal.sees("stopped");
    terminal.edits();
    terminal.press("quick\r");
    terminal.sees("quick answer");
    terminal.edits();
    // A line is taken away; that is no wish to leave.
    terminal.press("half a li");
    terminal.sees("half a li");
    terminal.press(CTRL_C);
    terminal.edits();
    terminal.press(CTRL_C);
    terminal.sees("(Ctrl-C again or Ctrl-D leaves)");
    terminal.edits();
    terminal.press("quick\r");
    terminal.sees("quick answer");
    terminal.edits();
    terminal.press(CTRL_C);
    terminal.sees("(Ctrl-C again or Ctrl-D leaves)");
    terminal.edits();
    terminal.press(CTRL_C);
    terminal.ends(0);
    assert!(terminal.gives_lines());
    assert_eq!(model.requests().len(), 3);
}

#[test]
fn a_polite_kill_leaves_the_terminal_as_it_was() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["chat"]);
    terminal.edits();
    terminal.press("half a li");
    terminal.sees("half a li");
    terminal.signal(rustix::process::Signal::TERM);
    // What is pasted is no longer marked.
    terminal.sees("\x1b[?2004l");
    terminal.ends(143);
    assert!(terminal.gives_lines());
}

/// A daemon that asks before it answers.
fn asking(
    home: &TestHome,
    ask: impl Fn(&mut Connection) + Send + Sync + 'static,
) -> (FakeDaemon, Arc<AtomicBool>) {
    let is_answered = Arc::new(AtomicBool::new(false));
    let daemon = FakeDaemon::start(home, {
        let is_answered = Arc::clone(&is_answered);
        move |request, connection| match request {
            Request::AgentMessage { can_approve, .. } => {
                assert!(*can_approve);
                ask(connection);
                while !is_answered.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(10));
                }
                connection.done("so be it");
            }
            Request::Answer { .. } => {
                connection.reply(&Reply::Ok(serde_json::Map::new()));
                is_answered.store(true, Ordering::SeqCst);
            }
            other => panic!("{other:?}"),
        }
    });
    (daemon, is_answered)
}

fn answer(token: &str, choice: &str, session: &str) -> Request {
    Request::Answer {
        token: token.into(),
        choice: Some(choice.into()),
        session_id: session.into(),
    }
}

#[test]
fn a_prompt_is_shown_whole_and_answered_by_a_key() {
    let home = TestHome::new();
    for (key, choice) in [("o", "once"), ("A", "always"), ("d", "deny")] {
        let (daemon, _) = asking(&home, |connection| {
            connection.approval("TOKEN234", "rm -r build\nin /srv\u{1b}[2J", 60_000);
        });
        let mut terminal = Terminal::start(&home, &["ask", "-s", "work", "clean up"]);
        terminal.sees("? run a command");
        terminal.sees("  rm -r build");
        // What would clear the screen is shown instead.
        terminal.sees(r"  in /srv\u{1b}[2J");
        terminal.sees("[o]nce [a]lways [d]eny (no in ");
        // Neither other keys nor a paste are an answer.
        terminal.press("x\r");
        terminal.press("aaa");
        for _second in 0..2 {
            terminal.sees("(no in ");
        }
        assert_eq!(daemon.requests().len(), 1);
        terminal.press(key);
        terminal.sees(&format!("→ {choice}"));
        terminal.sees("so be it");
        terminal.ends(0);
        assert!(terminal.gives_lines());
        assert_eq!(daemon.requests()[1..], [answer("TOKEN234", choice, "work")]);
        assert!(!terminal.screen().contains("TOKEN234"));
    }
}

#[test]
fn keys_from_before_the_prompt_answer_nothing() {
    let home = TestHome::new();
    let typed = Arc::new(AtomicBool::new(false));
    let (daemon, is_answered) = asking(&home, {
        let typed = Arc::clone(&typed);
        move |connection| {
            connection.say("let me see");
            while !typed.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(10));
            }
            connection.approval("TOKEN234", "date", 1_500);
        }
    });
    let mut terminal = Terminal::start(&home, &["ask", "what time is it?"]);
    terminal.sees("let me see");
    terminal.press("a");
    terminal.sees("a");
    typed.store(true, Ordering::SeqCst);
    terminal.sees("? run a command");
    terminal.sees("→ no answer in time, so: no");
    assert!(terminal.gives_lines());
    assert_eq!(daemon.requests().len(), 1);
    is_answered.store(true, Ordering::SeqCst);
    terminal.sees("so be it");
    terminal.ends(0);
}

#[test]
fn prompts_are_shown_one_after_the_other_and_ctrl_c_stops_them_all() {
    let home = TestHome::new();
    let daemon = FakeDaemon::start(&home, |request, connection| match request {
        Request::AgentMessage { .. } => {
            connection.approval("FIRST234", "date", 60_000);
            connection.approval("SECOND23", "uptime", 60_000);
            connection.wait_for_close();
        }
        _ => connection.reply(&Reply::Ok(serde_json::Map::new())),
    });
    let mut terminal = Terminal::start(&home, &["ask", "-s", "work", "two things"]);
    terminal.sees("  date");
    terminal.sees("(no in ");
    assert!(!terminal.screen().contains("uptime"));
    terminal.press("o");
    terminal.sees("→ once");
    terminal.sees("  uptime");
    terminal.sees("(no in ");
    terminal.press(CTRL_C);
    terminal.sees("→ withdrawn");
    terminal.sees("stopped");
    terminal.ends(130);
    assert!(terminal.gives_lines());
    assert_eq!(daemon.requests()[1..], [answer("FIRST234", "once", "work")]);
}

#[test]
fn an_answer_that_does_not_count_is_said() {
    let home = TestHome::new();
    let refused = Arc::new(AtomicBool::new(false));
    let _daemon = FakeDaemon::start(&home, {
        let refused = Arc::clone(&refused);
        move |request, connection| match request {
            Request::AgentMessage { .. } => {
                connection.approval("TOKEN234", "date", 60_000);
                while !refused.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(10));
                }
                std::thread::sleep(Duration::from_millis(50));
                connection.done("so be it");
            }
            _ => {
                connection.reply(&Reply::error("expired: ask again"));
                refused.store(true, Ordering::SeqCst);
            }
        }
    });
    let mut terminal = Terminal::start(&home, &["ask", "what time is it?"]);
    terminal.sees("(no in ");
    terminal.press("o");
    terminal.sees("the answer did not count: expired: ask again");
    terminal.sees("so be it");
    terminal.ends(0);
}

#[test]
fn a_conversation_uses_the_daemon_while_there_is_one() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|_| Step::say("from this process")));
    home.use_model(&model, "");
    let daemon = FakeDaemon::start(&home, |_, connection| connection.done("from the daemon"));
    let mut terminal = Terminal::start(&home, &["chat", "-s", "work"]);
    terminal.edits();
    terminal.press("hello\r");
    terminal.sees("from the daemon");
    terminal.edits();
    drop(daemon);
    terminal.press("hello\r");
    terminal.sees("the daemon is gone; answering in this process");
    terminal.sees("from this process");
    terminal.edits();
    let _daemon = FakeDaemon::start(&home, |_, connection| connection.done("I am back"));
    terminal.press("hello\r");
    terminal.sees("a daemon is running now, and answers");
    terminal.sees("I am back");
    terminal.edits();
    terminal.press(CTRL_D);
    terminal.ends(0);
}

#[test]
fn a_conversation_that_insists_on_the_daemon_does_not_begin_without_one() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["chat", "--daemon"]);
    terminal.sees("no daemon is running; start one with `fermix run`");
    terminal.ends(3);
}
