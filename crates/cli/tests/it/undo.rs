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

#[test]
fn a_commit_is_taken_back() {
    let home = TestHome::new();
    std::fs::write(
        home.os_home().join(".gitconfig"),
        "[user]\nname = Owner\nemail = owner@example.org\n[init]\ndefaultBranch = main\n",
    )
    .unwrap();
    let repo = home.workspace().join("repo");
    std::fs::create_dir_all(&repo).unwrap();
    let git = |args: &[&str]| owner_git(&home, &repo, args);
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    std::fs::write(repo.join("a.txt"), "one\n").unwrap();
    git(&["add", "a.txt"]);
    let before = git(&["rev-parse", "HEAD"]);

    let args = json!({"command": "commit", "repo": repo, "args": ["-m", "second"]}).to_string();
    fermix(&home, &["tools", "call", "git_write", "--args", &args]).code(0);
    assert_ne!(git(&["rev-parse", "HEAD"]), before);
    assert_eq!(listed(&home)[0]["kind"], "git");

    let undone = fermix(&home, &["undo"]).code(0);
    assert!(
        undone.stdout.contains("on branch main"),
        "{}",
        undone.stdout
    );
    assert_eq!(git(&["rev-parse", "HEAD"]), before);
    assert_eq!(git(&["diff", "--cached", "--name-only"]), "a.txt\n");
    assert_eq!(std::fs::read(repo.join("a.txt")).unwrap(), b"one\n");
    fermix(&home, &["undo"]).code(1);
}

/// Runs git as the owner would; its output.
#[expect(
    clippy::disallowed_methods,
    reason = "the owner's own git, which no tool runs"
)]
fn owner_git(home: &TestHome, folder: &std::path::Path, args: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home.os_home())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(folder)
        .args(args)
        .output()
        .expect("git is installed");
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("git prints text")
}
