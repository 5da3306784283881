//! What a process that the agent started may not ask of the daemon.

use fermix_testkit::{FakeModel, Script, Step, TestHome};
use serde_json::json;

use super::running::{Running, request};
use crate::support::fermix;

/// A model that runs each command it is told, and answers with what it printed.
fn obedient() -> FakeModel {
    FakeModel::start(Script::each(|seen| match seen.last_results().first() {
        Some(result) => Step::say(format!("done: {}", result.text)),
        None => Step::call("shell", json!({ "command": seen.last_user() })),
    }))
}

/// Confined commands do not see the socket at all; what the daemon itself makes of its callers shows
/// without that.
const UNCONFINED: &str = "[sandbox.confine]\nmode = \"off\"\n";

/// Ways a command may dress up the program it calls: plainly, without the runner's mark, in a
/// session of its own, as a copy, and as an orphan of a double fork.
fn disguises(verb: &str) -> Vec<String> {
    let binary = env!("CARGO_BIN_EXE_fermix");
    let washed = "env -i HOME=\"$HOME\" PATH=\"$PATH\"";
    vec![
        format!("{binary} {verb}"),
        format!("env -u FERMIX_RUN {binary} {verb}"),
        format!("setsid -w {washed} {binary} {verb}"),
        format!("cp {binary} ./copy; {washed} ./copy {verb}"),
        format!(
            "cp {binary} ./copy; (setsid sh -c 'sleep 0.3; {washed} ./copy {verb} > out.txt 2>&1; \
             echo over >> out.txt' &); until grep -q over out.txt 2>/dev/null; do sleep 0.1; done; \
             cat out.txt"
        ),
    ]
}

#[test]
fn the_agents_own_processes_are_not_the_owner() {
    let home = TestHome::new();
    let model = obedient();
    home.use_model(&model, UNCONFINED);
    let daemon = Running::start(&home);
    // The client asks for a reload without a look at its own ancestry; the others it refuses itself.
    for (verb, refusal) in [
        ("reload", "not_in_person"),
        ("stop", "started by Fermix"),
        ("run", "started by Fermix"),
    ] {
        for command in disguises(verb) {
            let answer = fermix(&home, &["ask", "--daemon", &command]).code(0).stdout;
            assert!(answer.contains(refusal), "{command}: {answer}");
            std::fs::remove_file(home.workspace().join("out.txt")).unwrap_or_default();
        }
    }
    assert_eq!(
        request(&home, &json!({ "method": "status" }))["pid"],
        json!(daemon.pid())
    );
    // The owner's own script may.
    fermix(&home, &["reload"]).code(0);
    model.assert_clean();
}

#[test]
fn a_prompt_is_answered_at_a_terminal() {
    let home = TestHome::new();
    let _daemon = Running::start(&home);
    let answer = json!({
        "method": "answer",
        "params": { "token": "ABCDEFGH", "choice": "once", "session_id": "s" },
    });
    let reply = request(&home, &answer);
    let reason = reply["reason"].as_str().unwrap();
    assert!(reason.starts_with("no_terminal"), "{reason}");
}

#[test]
fn what_the_agent_asks_its_own_daemon_is_delegated_and_never_waits_for_itself() {
    let home = TestHome::new();
    let binary = env!("CARGO_BIN_EXE_fermix");
    let model = FakeModel::start(Script::each(move |seen| {
        if seen.last_user().starts_with("nested") {
            return Step::say(format!("tools: {}", seen.tool_names().join(" ")));
        }
        match seen.last_results().first() {
            Some(result) => Step::say(format!("done: {}", result.text)),
            None => Step::call("shell", json!({ "command": seen.last_user() })),
        }
    }));
    home.use_model(&model, UNCONFINED);
    let _daemon = Running::start(&home);
    let ask = |session: &str| {
        let command = format!("{binary} ask --daemon --session {session} nested question");
        fermix(&home, &["ask", "--daemon", "--session", "outer", &command]).code(0)
    };
    let elsewhere = ask("inner").stdout;
    assert!(
        elsewhere.contains("tools: ")
            && elsewhere.contains("file_read")
            && !elsewhere.contains("file_write"),
        "{elsewhere}"
    );
    let itself = ask("outer").stdout;
    assert!(itself.contains("has a running turn"), "{itself}");
    // Nor does it read files for them: they see the disk as tools do, and it does not.
    let mut picture = b"\x89PNG\r\n\x1a\n".to_vec();
    picture.resize(2 << 20, 0);
    home.file("large.png", &picture);
    let command =
        format!("{binary} ask --daemon --session inner --attach large.png nested question");
    let answer = fermix(&home, &["ask", "--daemon", &command]).code(0).stdout;
    assert!(answer.contains("in person"), "{answer}");
}
