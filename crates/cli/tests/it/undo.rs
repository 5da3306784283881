//! `fermix undo` through the binary.

use fermix_testkit::TestHome;
use serde_json::json;

use crate::support::{Run, command, fermix, finish};

fn write(home: &TestHome, path: &str, content: &str) {
    let args = json!({"path": path, "content": content}).to_string();
    fermix(home, &["tools", "call", "file_write", "--args", &args]).code(0);
}

fn listed(home: &TestHome) -> Vec<serde_json::Value> {
    let list = fermix(home, &["undo", "--list", "--json"]).code(0).json();
    list.as_array().expect("a list").clone()
}

#[test]
fn the_last_change_is_taken_back_and_then_the_one_before() {
    let home = TestHome::new();
    let file = home.workspace().join("notes.txt");
    assert_eq!(
        fermix(&home, &["undo"]).code(1).stderr.trim(),
        "fermix: there is nothing to undo"
    );
    write(&home, "notes.txt", "first");
    write(&home, "notes.txt", "second");
    assert_eq!(listed(&home).len(), 2);

    let undone = fermix(&home, &["undo"]).code(0);
    assert!(undone.stdout.contains("notes.txt"), "{}", undone.stdout);
    assert_eq!(std::fs::read(&file).unwrap(), b"first");
    let removed = fermix(&home, &["undo", "--json"]).code(0).json();
    assert_eq!(removed["status"], "ok");
    assert!(!file.exists());
    fermix(&home, &["undo"]).code(1);
    let again = fermix(&home, &["undo", "1"]).code(1);
    assert!(again.stderr.contains("undone already"), "{}", again.stderr);
    let unknown = fermix(&home, &["undo", "99"]).code(1);
    assert!(unknown.stderr.contains("number 99"), "{}", unknown.stderr);
}

#[test]
fn a_changed_file_and_a_revoked_folder_are_left_alone() {
    let home = TestHome::new();
    let file = home.workspace().join("notes.txt");
    write(&home, "notes.txt", "mine");
    std::fs::write(&file, "edited by hand").unwrap();
    let refused = fermix(&home, &["undo"]).code(1);
    assert!(
        refused.stderr.contains("has changed since"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"edited by hand");

    std::fs::write(&file, "mine").unwrap();
    let workspace = home.workspace().display().to_string();
    let blocked = format!("[sandbox]\nblocked_roots = [{workspace:?}]\n");
    std::fs::write(home.fermix_home().join("config.toml"), blocked).unwrap();
    fermix(&home, &["undo"]).code(1);
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_command_of_the_agent_cannot_undo() {
    let home = TestHome::new();
    write(&home, "notes.txt", "mine");
    let run: Run = finish(
        command(&home, &["undo"])
            .env("FERMIX_RUN", "some run")
            .output()
            .expect("the binary starts"),
    );
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("started by Fermix"), "{}", run.stderr);
    assert!(home.workspace().join("notes.txt").exists());
}
