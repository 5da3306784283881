//! `fermix secrets`, on a machine without a session bus: where a key goes, who reads it, and where
//! it is not.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use fermix_testkit::{FakeModel, Step, TestHome};
use serde_json::{Value, json};

use crate::support::{Run, command, fermix, fermix_with_stdin, finish, traces, tree};

/// A key that no shape of a known service matches, so that only its value can give it away.
const KEY: &str = "zebra-93-quilt-Umlaut-4711";

/// The key comes from the store, so the environment must not have one.
fn without_key(home: &TestHome, args: &[&str]) -> Run {
    let mut command = command(home, args);
    command.env_remove("OPENAI_COMPATIBLE_API_KEY");
    finish(command.output().unwrap())
}

fn set(home: &TestHome, key: &str) -> Run {
    let args = ["secrets", "set", "openai_compatible", "--stdin", "--json"];
    fermix_with_stdin(home, &args, format!("{key}\n").as_bytes())
}

fn config(home: &TestHome) -> String {
    std::fs::read_to_string(home.config_path()).unwrap()
}

/// Every file of the home that holds `text`.
fn holding(home: &TestHome, text: &str) -> Vec<String> {
    let files = tree(&home.fermix_home());
    let holds = |bytes: &[u8]| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    files
        .iter()
        .filter(|(_, bytes)| holds(bytes))
        .map(|(path, _)| path.display().to_string())
        .collect()
}

fn secret<'l>(list: &'l Value, name: &str) -> &'l Value {
    let rows = list.as_array().unwrap();
    rows.iter().find(|row| row["name"] == json!(name)).unwrap()
}

#[test]
fn a_stored_key_is_used_by_a_new_process_and_is_nowhere_else() {
    let home = TestHome::new();
    // The tool prints its whole environment, what can be read of its ancestors', and their
    // arguments.
    let spy = "env; for p in $$ $PPID; do tr '\\0' '\\n' </proc/$p/environ; tr '\\0' ' ' </proc/$p/cmdline; done; true";
    let model = FakeModel::start([
        Step::call("shell", json!({ "command": spy })),
        Step::say("done"),
    ]);
    model.require_key(KEY);
    home.use_model(&model, "# kept\n");
    let stored = set(&home, KEY).code(0);
    assert_eq!(stored.json()["store"], json!("file"));
    assert!(
        stored.json()["notice"]
            .as_str()
            .unwrap()
            .contains("keyring"),
        "{}",
        stored.stdout
    );
    assert!(!format!("{}{}", stored.stdout, stored.stderr).contains(KEY));
    let text = config(&home);
    assert!(
        text.contains("api_key = \"@file\"") && text.ends_with("# kept\n"),
        "{text}"
    );

    let answer = without_key(&home, &["ask", "--json", "look around"]).code(0);
    assert_eq!(answer.json()["response"], json!("done"));
    model.assert_clean();
    let last = model.last_request();
    let results = last.last_results();
    assert!(results[0].text.contains("PATH="), "{}", results[0].text);
    assert!(!results[0].text.contains(KEY), "{}", results[0].text);
    assert!(!traces(&home, "llm_call").is_empty());
    assert_eq!(holding(&home, KEY), Vec::<String>::new());
    let folder = home.fermix_home().join("secrets");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);

    let list = without_key(&home, &["secrets", "list", "--json"])
        .code(0)
        .json();
    let row = secret(&list, "openai_compatible");
    assert_eq!(
        (&row["store"], &row["present"]),
        (&json!("file"), &json!(true))
    );
    assert_eq!(secret(&list, "anthropic")["present"], json!(false));
    // With the variable set, that is where the key comes from.
    let overlaid = fermix(&home, &["secrets", "list", "--json"]).code(0).json();
    assert_eq!(
        secret(&overlaid, "openai_compatible")["store"],
        json!("environment")
    );

    without_key(&home, &["secrets", "unset", "openai_compatible"]).code(0);
    assert!(!config(&home).contains("api_key"));
    assert!(!folder.join("fermix.OPENAI_COMPATIBLE_API_KEY").exists());
}

#[test]
fn a_known_value_is_taken_out_of_what_tools_answer_unless_the_owner_says_otherwise() {
    for (setting, expected) in [("", "[REDACTED:secret]"), ("false", KEY)] {
        let home = TestHome::new();
        let written = format!("a note: {KEY}, and\n");
        home.file("note.txt", &written);
        let model = FakeModel::start([
            Step::call("file_read", json!({ "path": "note.txt" })),
            Step::say("done"),
        ]);
        model.require_key(KEY);
        home.use_model(&model, "");
        set(&home, KEY).code(0);
        if !setting.is_empty() {
            let args = ["config", "set", "fermix_core.redact_tool_results", setting];
            without_key(&home, &args).code(0);
        }
        without_key(&home, &["ask", "read the note"]).code(0);
        let last = model.last_request();
        let text = &last.last_results()[0].text;
        assert!(text.contains(&format!("a note: {expected}, and")), "{text}");
        let args = [
            "tools",
            "call",
            "file_read",
            "--args",
            "{\"path\":\"note.txt\"}",
        ];
        let called = without_key(&home, &args).code(0);
        assert!(called.stdout.contains(expected), "{}", called.stdout);
        // Traces never have it, whatever the model may read.
        let traces = home.fermix_home().join("traces").display().to_string();
        let in_traces: Vec<_> = holding(&home, KEY)
            .into_iter()
            .filter(|path| path.starts_with(&traces))
            .collect();
        assert_eq!(in_traces, Vec::<String>::new());
    }
}

#[test]
fn a_plain_key_works_once_with_a_warning_and_goes_to_a_store_at_the_next_save() {
    for verb in [
        &["config", "set", "fermix_core.agent.name", "otter"][..],
        &["secrets", "migrate"],
    ] {
        let home = TestHome::new();
        let model = FakeModel::start([Step::say("hello"), Step::say("again")]);
        model.require_key(KEY);
        home.use_model(&model, "");
        let text = config(&home).replace(
            "primary = true",
            &format!("primary = true\napi_key = \"{KEY}\" # from the console"),
        );
        home.write_config(&text);
        let asked = without_key(&home, &["ask", "hi"]).code(0);
        assert!(
            asked.stderr.contains("fermix secrets migrate"),
            "{}",
            asked.stderr
        );

        let moved = without_key(&home, verb).code(0);
        assert!(
            moved.stderr.contains("moved the key of openai_compatible"),
            "{}",
            moved.stderr
        );
        assert!(config(&home).contains("api_key = \"@file\" # from the console"));
        assert_eq!(holding(&home, KEY), Vec::<String>::new(), "{verb:?}");
        let again = without_key(&home, &["ask", "hi"]).code(0);
        assert_eq!(again.stdout.trim(), "again");
        assert!(!again.stderr.contains("warning"), "{}", again.stderr);
    }
    let home = TestHome::new();
    let nothing = without_key(&home, &["secrets", "migrate", "--json"]).code(0);
    assert_eq!(nothing.json()["moved"], json!([]));
}

#[test]
fn a_store_that_cannot_take_a_key_changes_nothing_and_no_other_is_tried() {
    let home = TestHome::new();
    home.write_config(&format!(
        "[fermix_core]\nsecret_store = \"keyring\"\n[fermix_core.providers.openai]\napi_key = \"{KEY}\"\n"
    ));
    let before = config(&home);
    let refused = set(&home, "another-key-4712").code(1);
    assert!(
        refused.json()["error"]
            .as_str()
            .unwrap()
            .contains("session bus"),
        "{}",
        refused.stdout
    );
    let migrated = without_key(&home, &["secrets", "migrate", "--json"])
        .code(1)
        .json();
    assert_eq!(migrated["kept"][0]["name"], json!("openai"));
    assert_eq!(config(&home), before);
    assert!(!home.fermix_home().join("secrets").exists());
    // A save of something else still works, and says what it could not do.
    let saved = without_key(&home, &["config", "set", "sandbox.mode", "strict"]).code(0);
    assert!(
        saved.stderr.contains("stays in config.toml as plain text"),
        "{}",
        saved.stderr
    );
    assert!(config(&home).contains(KEY) && config(&home).contains("strict"));
}

#[test]
fn a_store_that_cannot_be_read_is_a_sentence_with_the_fix_and_not_a_crash() {
    let model = FakeModel::start([]);
    let cases = [
        ("@keyring", "session bus"),
        ("@file", "fermix secrets set OPENAI_COMPATIBLE_API_KEY"),
    ];
    for (sentinel, fix) in cases {
        let home = TestHome::new();
        home.use_model(&model, "");
        let text = config(&home).replace(
            "primary = true",
            &format!("primary = true\napi_key = \"{sentinel}\""),
        );
        home.write_config(&text);
        let asked = without_key(&home, &["ask", "hi"]).code(1);
        assert!(
            asked.stderr.contains("its key could not be read") && asked.stderr.contains(fix),
            "{}",
            asked.stderr
        );
        assert_eq!(config(&home), text);
        // What needs no key works.
        without_key(&home, &["capabilities", "--json"]).code(0);
        without_key(&home, &["config", "set", "sandbox.mode", "strict"]).code(0);
        assert!(config(&home).contains(sentinel));
    }
    assert_eq!(model.request_count(), 0);
}

#[test]
fn a_secret_that_is_replaced_stays_where_it_is_and_a_move_that_fails_moves_nothing() {
    let home = TestHome::new();
    set(&home, KEY).code(0);
    without_key(
        &home,
        &["config", "set", "fermix_core.secret_store", "keyring"],
    )
    .code(0);
    let replaced = set(&home, "another-key-4712").code(0).json();
    assert_eq!(replaced["store"], json!("file"));
    let before = (config(&home), tree(&home.fermix_home().join("secrets")));
    let refused = without_key(&home, &["secrets", "move", "--to", "keyring", "--json"]).code(1);
    assert!(
        refused.json()["error"]
            .as_str()
            .unwrap()
            .starts_with("nothing was moved"),
        "{}",
        refused.stdout
    );
    let after = (config(&home), tree(&home.fermix_home().join("secrets")));
    assert_eq!(before, after);
    let already = without_key(&home, &["secrets", "move", "--to", "file", "--json"]).code(0);
    assert_eq!(already.json()["moved"], json!([]));
}

#[test]
fn a_value_that_is_none_is_refused_and_never_repeated() {
    let home = TestHome::new();
    let before = tree(&home.fermix_home());
    for input in ["", "  \n", "@keyring\n", "two words-4711\n", "\u{fffd}\n"] {
        let refused = fermix_with_stdin(
            &home,
            &["secrets", "set", "anthropic", "--stdin"],
            input.as_bytes(),
        )
        .code(1);
        assert!(!refused.stderr.contains("4711"), "{}", refused.stderr);
    }
    let no_terminal = fermix(&home, &["secrets", "set", "anthropic"]);
    assert!(no_terminal.code == 1, "{}", no_terminal.stderr);
    let unknown = fermix(&home, &["secrets", "set", "antropic", "--stdin"]).code(1);
    assert!(
        unknown.stderr.contains("did you mean `anthropic`?"),
        "{}",
        unknown.stderr
    );
    // A value in the place of an argument is no value of ours, and is not echoed in JSON.
    fermix(&home, &["secrets", "set", "anthropic", KEY]).code(2);
    assert_eq!(tree(&home.fermix_home()), before);
}

#[test]
fn the_agents_own_commands_do_not_change_secrets() {
    let home = TestHome::new();
    set(&home, KEY).code(0);
    let before = (config(&home), tree(&home.fermix_home().join("secrets")));
    let fermix_bin = env!("CARGO_BIN_EXE_fermix");
    for verb in [
        "set openai --stdin",
        "unset openai_compatible",
        "migrate",
        "move --to keyring",
    ] {
        let script = format!("echo {KEY} | {fermix_bin} secrets {verb} 2>&1; echo code $?");
        let args = json!({ "command": script }).to_string();
        let run = without_key(&home, &["tools", "call", "shell", "--args", &args]);
        assert!(
            run.stdout.contains("in your own terminal") && run.stdout.contains("code 1"),
            "{verb}: {}{}",
            run.stdout,
            run.stderr
        );
    }
    let after = (config(&home), tree(&home.fermix_home().join("secrets")));
    assert_eq!(before, after);
}

#[test]
fn a_file_that_others_can_read_is_refused_and_named() {
    let home = TestHome::new();
    let model = FakeModel::start([]);
    home.use_model(&model, "");
    set(&home, KEY).code(0);
    let entry = home
        .fermix_home()
        .join("secrets/fermix.OPENAI_COMPATIBLE_API_KEY");
    std::fs::set_permissions(&entry, std::fs::Permissions::from_mode(0o644)).unwrap();
    let asked = without_key(&home, &["ask", "hi"]).code(1);
    assert!(
        asked.stderr.contains("can be reached by others"),
        "{}",
        asked.stderr
    );
    assert_eq!(
        std::fs::metadata(&entry).unwrap().permissions().mode() & 0o777,
        0o644,
        "evidence is not repaired"
    );
    assert_eq!(model.request_count(), 0);
}

/// The binary on a terminal of its own, which `type_in` types into once the question is there.
/// Gives the exit code and everything that the terminal showed.
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts the binary as a person would"
)]
fn on_a_terminal(home: &TestHome, args: &[&str], type_in: &[u8]) -> (i32, String) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let end = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let mut child = std::process::Command::new("setsid")
        .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_fermix")])
        .args(args)
        .env_clear()
        .envs(home.env())
        .stdin(end.try_clone().unwrap())
        .stdout(end.try_clone().unwrap())
        .stderr(end)
        .spawn()
        .unwrap();
    let mut terminal = std::fs::File::from(terminal);
    let mut shown = String::new();
    let mut is_typed = false;
    let mut bytes = [0; 4096];
    // The read fails when the last end of the terminal is closed.
    while let Ok(length @ 1..) = terminal.read(&mut bytes) {
        shown.push_str(&String::from_utf8_lossy(&bytes[..length]));
        if !is_typed && shown.contains("(not shown): ") {
            terminal.write_all(type_in).unwrap();
            is_typed = true;
        }
    }
    (child.wait().unwrap().code().unwrap_or(-1), shown)
}

#[test]
fn a_key_that_is_typed_is_not_shown_and_giving_up_stores_nothing() {
    let home = TestHome::new();
    let args = ["secrets", "set", "anthropic"];
    let (code, shown) = on_a_terminal(&home, &args, b"half a key\x03");
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("nothing was stored"), "{shown}");
    assert!(!home.fermix_home().join("secrets").exists());

    // A slip, erased; then the key.
    let typed = format!("slip\x15{KEY}x\x7f\r");
    let (code, shown) = on_a_terminal(&home, &args, typed.as_bytes());
    assert_eq!(code, 0, "{shown}");
    assert!(
        !shown.contains("zebra") && !shown.contains("slip"),
        "{shown}"
    );
    assert!(config(&home).contains("@file"));

    let note = home.file("note.txt", KEY);
    let read = json!({ "path": note }).to_string();
    let called = fermix(&home, &["tools", "call", "file_read", "--args", &read]).code(0);
    assert!(
        called.stdout.contains("[REDACTED:secret]"),
        "{}",
        called.stdout
    );
}
