//! Commands of the real binary are confined, and cannot pass for the owner.

use std::fs;

use fermix_testkit::TestHome;
use serde_json::json;

use crate::support::{Run, fermix, traces};

fn shell(home: &TestHome, command: &str) -> Run {
    let args = json!({ "command": command }).to_string();
    fermix(home, &["tools", "call", "shell", "--args", &args])
}

/// The layers the binary's commands had; the test is left out where they are not all there.
fn is_confined(home: &TestHome) -> bool {
    shell(home, "true").code(0);
    let rows = traces(home, "agent_event");
    let row = rows
        .iter()
        .rfind(|row| row["event"] == "command_confined")
        .expect("each command says how it was confined");
    #[expect(
        clippy::disallowed_methods,
        reason = "the machine that runs the tests says what it must offer"
    )]
    let is_required = std::env::var_os("FERMIX_REQUIRE_CONFINE").is_some();
    assert!(!is_required || row["confined"] == "full", "{row}");
    let is_full = row["confined"] == "full";
    if !is_full {
        left_out(row);
    }
    is_full
}

#[expect(clippy::print_stdout, reason = "whoever runs the tests is told")]
fn left_out(row: &serde_json::Value) {
    println!("left out: {row}");
}

#[test]
fn a_command_reads_no_secret_and_changes_no_setting() {
    let home = TestHome::new();
    if !is_confined(&home) {
        return;
    }
    let ssh = home.os_home().join(".ssh");
    fs::create_dir_all(&ssh).unwrap();
    fs::write(ssh.join("id"), "SECRET").unwrap();
    home.write_config("[sandbox.env]\nallow = []\n");
    let before = fs::read(home.config_path()).unwrap();
    let script = format!(
        "cat ~/.ssh/id; echo '[sandbox]' >> {}; ls {}",
        home.config_path().display(),
        home.fermix_home().display()
    );
    let confined = shell(&home, &script);
    assert!(!confined.stdout.contains("SECRET"), "{}", confined.stdout);
    assert_eq!(fs::read(home.config_path()).unwrap(), before);

    home.write_config("[sandbox.confine]\nmode = \"off\"\n");
    let open = shell(&home, "cat ~/.ssh/id").code(0);
    assert!(open.stdout.contains("SECRET"), "{}", open.stdout);
}

#[test]
fn a_failure_of_confinement_is_explained_in_one_line() {
    let home = TestHome::new();
    if !is_confined(&home) {
        return;
    }
    let other = home.os_home().join("elsewhere");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("file"), "text").unwrap();
    let ssh = home.os_home().join(".ssh");
    fs::create_dir_all(&ssh).unwrap();
    fs::write(ssh.join("id"), "SECRET").unwrap();
    for (command, words) in [
        ("cat ~/elsewhere/file", "elsewhere"),
        ("cat ~/elsewhere/file", "fermix grant path"),
        ("cat ~/.ssh/id", "holds credentials"),
        (
            "echo 'sudo: The \"no new privileges\" flag is set' >&2; exit 1",
            "cannot gain rights",
        ),
        (
            "echo 'git@host: Permission denied (publickey).' >&2; exit 128",
            "ssh = \"agent\"",
        ),
    ] {
        let run = shell(&home, command).code(1);
        assert!(run.stdout.contains(words), "{command}: {}", run.stdout);
    }
    let run = shell(&home, "cat nothing-here").code(1);
    assert!(!run.stdout.contains("fermix grant"), "{}", run.stdout);
}

#[test]
fn a_folder_that_is_protected_is_no_addition_to_the_view() {
    let home = TestHome::new();
    fs::create_dir_all(home.os_home().join(".ssh")).unwrap();
    for key in ["extra_read", "extra_write"] {
        home.write_config(&format!("[sandbox.confine]\n{key} = [\"~/.ssh\"]\n"));
        let run = shell(&home, "true");
        assert_ne!(run.code, 0);
        assert!(
            run.stderr.contains(key) && run.stderr.contains("protected"),
            "{}",
            run.stderr
        );
    }
}

/// Each asks, as well as it can hide, whether it is taken for the owner.
#[test]
fn whatever_starts_inside_is_not_the_owner() {
    let home = TestHome::new();
    if !is_confined(&home) {
        return;
    }
    let binary = env!("CARGO_BIN_EXE_fermix");
    let set = "config set sandbox.mode open";
    let washed = "env -i HOME=\"$HOME\" PATH=\"$PATH\"";
    for script in [
        format!("{binary} {set}"),
        format!("{washed} {binary} {set}"),
        format!("cp {binary} copy && {washed} ./copy {set}"),
        format!(
            "cp {binary} copy; (setsid sh -c 'sleep 0.3; {washed} ./copy {set} >out 2>&1' &); sleep 2; cat out; exit 1"
        ),
        format!(
            "cp {binary} copy; {washed} python3 -c \"import os,time; p=os.fork(); p or (os.setsid(), os.fork() and os._exit(0), time.sleep(0.3), os.execv('./copy',['bash','config','set','sandbox.mode','open'])); time.sleep(2)\" 2>&1; exit 1"
        ),
        format!("{washed} unshare -Urpf --mount-proc {binary} {set}; {binary} {set}"),
    ] {
        let run = shell(&home, &script);
        assert!(
            run.stdout.contains("started by Fermix") || run.stdout.contains("Fermix started"),
            "{script}: {} {}",
            run.stdout,
            run.stderr
        );
        assert!(!home.config_path().exists(), "{script}");
    }
}
