//! The owner is asked at a terminal, with a daemon and without one: about folders and commands.

use std::sync::atomic::{AtomicUsize, Ordering};

use fermix_testkit::{FakeModel, Script, Step, TestHome};
use serde_json::json;

use crate::daemon::running::Running;
use crate::support::fermix;
use crate::terminal::Terminal;

/// A model that asks for `folder`, and reads a file in it once it has it.
fn wants_a_folder(folder: &std::path::Path) -> FakeModel {
    let (folder, asked) = (folder.to_owned(), AtomicUsize::new(0));
    FakeModel::start(Script::each(move |seen| {
        match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Step::call(
                "request_directory_access",
                json!({"path": folder, "reason": "the notes are there"}),
            ),
            1 => Step::say("I have asked for the folder."),
            2 => Step::call("file_read", json!({"path": folder.join("a.txt")})),
            _ => match seen.last_results().first() {
                Some(result) => Step::say(format!("It says: {}", result.text)),
                None => Step::say("Nothing."),
            },
        }
    }))
}

fn outside(home: &TestHome) -> std::path::PathBuf {
    let folder = home.os_home().parent().unwrap().join("elsewhere");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), "the cat is in the garden").unwrap();
    folder
}

#[test]
fn a_granted_folder_lets_the_request_go_on() {
    for with_daemon in [true, false] {
        let home = TestHome::new();
        let folder = outside(&home);
        let model = wants_a_folder(&folder);
        home.use_model(&model, "");
        let daemon = with_daemon.then(|| Running::start(&home));
        let mut terminal = Terminal::start(&home, &["ask", "where is the cat?"]);
        terminal.sees("elsewhere");
        terminal.sees("(no in ");
        terminal.press("a");
        terminal.sees("→ always");
        terminal.sees("the cat is in the garden");
        terminal.ends(0);
        let config = std::fs::read_to_string(home.config_path()).unwrap();
        assert!(
            config.contains("allowed_roots") && config.contains("elsewhere"),
            "{config}"
        );
        drop(daemon);
        model.assert_clean();
    }
}

#[test]
fn a_refused_folder_stays_closed_and_the_answer_stands() {
    let home = TestHome::new();
    let folder = outside(&home);
    let model = wants_a_folder(&folder);
    home.use_model(&model, "");
    let _daemon = Running::start(&home);
    let mut terminal = Terminal::start(&home, &["ask", "where is the cat?"]);
    terminal.sees("(no in ");
    terminal.press("d");
    terminal.sees("→ deny");
    terminal.ends(0);
    assert!(
        terminal.screen().contains("I have asked"),
        "{}",
        terminal.screen()
    );
    let config = std::fs::read_to_string(home.config_path()).unwrap();
    assert!(!config.contains("elsewhere"), "{config}");
}

#[test]
fn a_command_waits_for_its_yes_and_a_no_starts_nothing() {
    for (with_daemon, key, is_run) in [(true, "o", true), (true, "d", false), (false, "d", false)] {
        let home = TestHome::new();
        let model = FakeModel::start(Script::each(|seen| match seen.last_results().first() {
            None => Step::call("shell", json!({"command": "echo ran > ran.txt; echo done"})),
            Some(result) => Step::say(format!("It said: {}", result.text)),
        }));
        home.use_model(&model, "[sandbox]\napprove = \"always\"\n");
        let daemon = with_daemon.then(|| Running::start(&home));
        let mut terminal = Terminal::start(&home, &["ask", "run it"]);
        terminal.sees("echo ran > ran.txt; echo done");
        terminal.sees("(no in ");
        assert_eq!(home.read("ran.txt"), None);
        terminal.press(key);
        terminal.sees("It said: ");
        terminal.ends(0);
        assert_eq!(
            home.read("ran.txt").is_some(),
            is_run,
            "{}",
            terminal.screen()
        );
        drop(daemon);
    }
}

#[test]
fn where_nobody_can_answer_a_command_is_refused_at_once() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|seen| match seen.last_results().first() {
        None => Step::call("shell", json!({"command": "echo ran > ran.txt"})),
        Some(result) => Step::say(format!("It said: {}", result.text)),
    }));
    home.use_model(&model, "[sandbox]\napprove = \"always\"\n");
    let run = fermix(&home, &["ask", "--json", "run it"]).code(0);
    assert!(
        run.stdout.contains("approval_unavailable"),
        "{}",
        run.stdout
    );
    assert_eq!(home.read("ran.txt"), None);
}

#[test]
fn a_change_of_the_sandbox_holds_in_the_running_daemon_at_once() {
    let home = TestHome::new();
    let folder = outside(&home);
    let file = folder.join("a.txt");
    let model = FakeModel::start(Script::each(move |seen| {
        match seen.last_results().first() {
            None => Step::call("file_read", json!({"path": file})),
            Some(result) => Step::say(format!("It says: {}", result.text)),
        }
    }));
    home.use_model(&model, "");
    let _daemon = Running::start(&home);
    let ask = || {
        fermix(&home, &["ask", "--daemon", "where is the cat?"])
            .code(0)
            .stdout
    };
    assert!(!ask().contains("garden"));
    let path = folder.display().to_string();
    fermix(&home, &["grant", "path", &path, "--yes"]).code(0);
    assert!(ask().contains("garden"));
    fermix(&home, &["revoke", "path", &path]).code(0);
    assert!(!ask().contains("garden"));
}
