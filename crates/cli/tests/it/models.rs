//! Turns over the three wires, against a server that checks every request.

use std::time::Duration;

use fermix_testkit::{FakeModel, Script, Seen, Step, TestHome};
use serde_json::{Value, json};

use crate::support::{Run, command, fermix, finish, traces};

/// One block a wire: Chat Completions, Messages, Responses.
const WIRES: [(&str, &str, &str); 3] = [
    (
        "openai_compatible",
        "fake-model",
        "OPENAI_COMPATIBLE_API_KEY",
    ),
    ("anthropic", "claude-opus-4-6", "ANTHROPIC_API_KEY"),
    ("xai", "grok-4", "XAI_API_KEY"),
];

fn on_wire(home: &TestHome, model: &FakeModel, (provider, name, _): (&str, &str, &str)) {
    home.write_config(&format!(
        "[fermix_core.providers.{provider}]\nprimary = true\nbase_url = \"{}\"\ndefault_model = \"{name}\"\n",
        model.base_url()
    ));
}

fn ask(home: &TestHome, (_, _, variable): (&str, &str, &str), args: &[&str]) -> Run {
    let mut args = args.to_vec();
    args.insert(0, "ask");
    let mut command = command(home, &args);
    command.env(variable, FakeModel::KEY);
    finish(command.output().unwrap())
}

/// The request as it came over the wire.
fn raw(seen: &Seen) -> String {
    String::from_utf8_lossy(&seen.raw).into_owned()
}

fn read(path: &str) -> Value {
    json!({ "path": path })
}

#[test]
fn every_wire_runs_two_steps_three_parallel_calls_and_an_answer() {
    for wire in WIRES {
        let home = TestHome::new();
        for (file, text) in [("a.txt", "alpha"), ("b.txt", "beta"), ("c.txt", "gamma")] {
            home.file(file, text);
        }
        let model = FakeModel::start([
            Step::say_and_call("Looking.", "glob_search", json!({ "pattern": "*.txt" })),
            Step::calls([
                ("file_read", read("a.txt")),
                ("file_read", read("b.txt")),
                ("file_read", read("c.txt")),
            ]),
            Step::say("alpha, beta and gamma"),
        ]);
        on_wire(&home, &model, wire);
        let answer = ask(&home, wire, &["--json", "what is in the files?"])
            .code(0)
            .json();
        assert_eq!(
            answer["response"],
            json!("alpha, beta and gamma"),
            "{wire:?}"
        );
        assert_eq!(answer["tool_calls"], json!(4));
        assert_eq!(answer["provider"], json!(wire.0));
        let last = model.last_request();
        let texts: Vec<_> = last
            .last_results()
            .iter()
            .filter_map(|result| result.text.lines().next())
            .collect();
        assert_eq!(texts, ["alpha", "beta", "gamma"], "{wire:?}");
        model.assert_clean();
    }
}

#[test]
fn an_empty_answer_is_told_and_never_replayed_as_words() {
    for wire in WIRES {
        let home = TestHome::new();
        let model = FakeModel::start([Step::empty(), Step::say("here I am")]);
        on_wire(&home, &model, wire);
        let silent = ask(&home, wire, &["--session", "s", "hello"]).code(1);
        assert_eq!(silent.stdout.trim(), "", "{wire:?}");
        assert!(
            silent
                .stderr
                .contains("No response came back. Please try again."),
            "{wire:?}: {}",
            silent.stderr
        );
        assert_eq!(model.request_count(), 1, "{wire:?}");
        let next = ask(&home, wire, &["--session", "s", "are you there?"]).code(0);
        assert_eq!(next.stdout.trim(), "here I am");
        let second = raw(&model.last_request());
        assert!(
            !second.contains("No response came back"),
            "{wire:?}: {second}"
        );
        model.assert_clean();
    }
}

#[test]
fn an_answer_cut_in_the_middle_is_told_as_such_and_nobody_else_is_asked() {
    // How many events of each wire come up to the second piece of text.
    for (wire, events) in WIRES.into_iter().zip([3, 4, 6]) {
        let home = TestHome::new();
        let model =
            FakeModel::start([Step::say("half of a longer answer that is cut").cut_after(events)]);
        let spare = FakeModel::start([Step::say("never asked")]);
        on_wire(&home, &model, wire);
        let config = home.fermix_home().join("config.toml");
        let more = format!(
            "\n[fermix_core.providers.ollama]\nbase_url = \"{}\"\ndefault_model = \"spare\"\n",
            spare.base_url()
        );
        let whole = std::fs::read_to_string(&config).unwrap() + &more;
        std::fs::write(&config, whole).unwrap();

        let cut = ask(&home, wire, &["--session", "s", "hello"]).code(1);
        let words = format!(
            "The connection to {} broke before the answer was complete. Try again",
            wire.0
        );
        assert!(cut.stderr.contains(&words), "{wire:?}: {}", cut.stderr);
        assert_eq!(cut.stdout, "", "half an answer is none: {wire:?}");
        assert_eq!((model.request_count(), spare.request_count()), (1, 0));
        let moves = traces(&home, "agent_event")
            .into_iter()
            .filter(|row| row["event"] == json!("failover"));
        assert_eq!(moves.count(), 0, "{wire:?}");
        let calls = traces(&home, "llm_call");
        assert_eq!(
            (
                calls.len(),
                &calls[0]["error_kind"],
                &calls[0]["error_stage"]
            ),
            (1, &json!("transport_closed"), &json!("mid_stream")),
            "{wire:?}"
        );
        model.assert_clean();
        spare.take_violations();
    }
}

#[test]
fn a_model_that_reads_one_file_forever_is_warned_stopped_and_still_answers() {
    let home = TestHome::new();
    home.file("a.txt", "the answer is 42\n");
    let model = FakeModel::script_loop(|seen| {
        if seen.tools.is_empty() {
            Step::say("It says 42; nothing else was done.")
        } else {
            Step::call("file_read", read("a.txt"))
        }
    });
    home.use_model(&model, "");
    let answer = fermix(&home, &["ask", "--json", "what does a.txt say?"])
        .code(0)
        .json();
    assert_eq!(
        answer["response"],
        json!("It says 42; nothing else was done.")
    );
    assert!(
        model.request_count() <= 6,
        "{} requests",
        model.request_count()
    );
    let warned = model.requests().iter().any(|seen| {
        seen.results().any(|result| {
            result.text.to_lowercase().contains("same") || result.text.contains("repeat")
        })
    });
    assert!(warned, "the model was never told");
    model.assert_clean();
}

#[test]
fn arguments_that_do_not_parse_or_run_together_never_cause_a_wrong_call() {
    let home = TestHome::new();
    home.file("a.txt", "alpha");
    home.file("b.txt", "beta");
    let model = FakeModel::start([
        Step::raw_call("file_write", r#"{"path": "a.txt", "content": "#),
        Step::raw_call("file_read", r#"{"path":"a.txt"}{"path":"b.txt"}"#),
        Step::raw_call("file_write", "[]"),
        Step::say("done"),
    ]);
    home.use_model(&model, "");
    let answer = fermix(&home, &["ask", "--json", "go"]).code(0).json();
    assert_eq!(answer["response"], json!("done"));
    assert_eq!(home.read("a.txt").unwrap(), b"alpha");
    for row in traces(&home, "tool_exec") {
        assert!(
            row["tool"] != json!("file_write") || row["success"] == json!(false),
            "{row}"
        );
    }
    model.assert_clean();
}

#[test]
fn failures_of_a_provider_are_retried_failed_over_or_shown() {
    let home = TestHome::new();
    let flaky = FakeModel::start([Step::status(503).times(2), Step::say("third time lucky")]);
    home.use_model(&flaky, "");
    let answer = fermix(&home, &["ask", "--json", "hello"]).code(0).json();
    assert_eq!(answer["response"], json!("third time lucky"));
    assert!(answer.get("note").is_none());

    let home = TestHome::new();
    let rejecting =
        FakeModel::start([Step::status(401).with_message("bad key sk-0123456789abcdef0123")]);
    let spare = FakeModel::start([Step::say("never asked")]);
    let more = format!(
        "[fermix_core.providers.ollama]\nbase_url = \"{}\"\ndefault_model = \"spare\"\n",
        spare.base_url()
    );
    home.use_model(&rejecting, &more);
    let run = fermix(&home, &["ask", "hello"]).code(1);
    assert!(
        run.stderr.contains("key") && !run.stderr.contains("sk-0123456789abcdef"),
        "{}",
        run.stderr
    );
    assert_eq!(spare.request_count(), 0);
    spare.take_violations();

    let home = TestHome::new();
    let down = FakeModel::start(Script::each(|_| Step::status(503)));
    let spare = FakeModel::start([Step::say("spare here")]);
    let more = format!(
        "[fermix_core.providers.openrouter]\nbase_url = \"{}\"\ndefault_model = \"spare\"\n",
        spare.base_url()
    );
    home.use_model(&down, &more);
    // The table's order puts openrouter before openai_compatible; primary goes first all the same.
    let mut ask = command(&home, &["ask", "--json", "hello"]);
    ask.env("OPENROUTER_API_KEY", FakeModel::KEY);
    let answer = finish(ask.output().unwrap()).code(0).json();
    assert_eq!(answer["response"], json!("spare here"));
    assert!(
        answer["note"].as_str().unwrap().contains("spare"),
        "{answer}"
    );
    assert_eq!(down.request_count(), 4);
}

#[test]
fn a_tool_that_hangs_or_floods_does_not_hold_the_turn() {
    let home = TestHome::new();
    let model = FakeModel::start([
        Step::call(
            "shell",
            json!({ "command": "echo before; sleep 600", "timeout_ms": 300 }),
        ),
        Step::call(
            "shell",
            json!({ "command": "head -c 50000000 /dev/zero | tr '\\0' 'x'" }),
        ),
        Step::call("shell", json!({ "command": "printf '\\363'" })),
        Step::call("file_read", json!({ "path": "absent" })),
        Step::say("all tried"),
    ]);
    home.use_model(&model, "");
    let answer = fermix(&home, &["ask", "--json", "try them"]).code(0).json();
    assert_eq!(answer["response"], json!("all tried"));
    let requests = model.requests();
    let last = |index: usize| requests[index].last_results()[0].text.clone();
    assert!(
        last(1).contains("timed out after 300ms") && last(1).contains("before"),
        "{}",
        last(1)
    );
    assert!(last(2).len() <= 300 * 1024, "{}", last(2).len());
    assert!(last(3).contains('\u{FFFD}'), "{}", last(3));
    assert!(last(4).contains("File not found"), "{}", last(4));
    model.assert_clean();
}

#[test]
fn a_conversation_goes_on_and_its_prefix_stays_the_same() {
    let home = TestHome::new();
    home.file("a.txt", "alpha");
    let model = FakeModel::start([
        Step::call("file_read", read("a.txt")),
        Step::say("It says alpha."),
        Step::say("You asked about a.txt."),
        Step::say("A new conversation."),
    ]);
    home.use_model(&model, "");
    fermix(&home, &["ask", "--session", "one", "what does a.txt say?"]).code(0);
    fermix(&home, &["ask", "--session", "one", "what did I ask?"]).code(0);
    fermix(&home, &["ask", "what did I ask?"]).code(0);
    let requests = model.requests();
    let second_turn = raw(&requests[2]);
    for words in ["what does a.txt say?", "It says alpha.", "file_read"] {
        assert!(
            second_turn.contains(words),
            "{words} is not in {second_turn}"
        );
    }
    assert!(!raw(&requests[3]).contains("It says alpha."));
    assert_eq!(requests[0].system, requests[2].system);
    model.assert_clean();
}

#[test]
fn an_image_reaches_a_model_that_sees_and_is_refused_by_one_that_does_not() {
    let png: &[u8] = &[
        0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, b'I', b'H', b'D', b'R', 0,
        0, 0, 1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1F, 0x15, 0xC4, 0x89,
    ];
    for vision in [true, false] {
        let home = TestHome::new();
        home.file("shot.png", png);
        home.file("fake.png", "not an image");
        let model = FakeModel::start([Step::say("a dot")]);
        home.use_model(
            &model,
            &format!("[fermix_core.models.fake-model]\nvision = {vision}\n"),
        );
        let run = fermix(&home, &["ask", "--attach", "shot.png", "what is this?"]);
        if vision {
            assert_eq!(run.code(0).stdout.trim(), "a dot");
            assert!(raw(&model.last_request()).contains("data:image/png;base64,"));
        } else {
            assert!(run.code(1).stderr.contains("image"));
            assert_eq!(model.request_count(), 0);
            model.take_violations();
        }
        let run = fermix(&home, &["ask", "--attach", "fake.png", "what is this?"]).code(1);
        assert!(
            run.stderr.contains("fake.png") && run.stderr.contains("not a png"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn a_turn_can_be_given_a_time_limit() {
    let home = TestHome::new();
    let model = FakeModel::start([Step::say("late").after(Duration::from_secs(30))]);
    home.use_model(&model, "");
    let began = std::time::Instant::now();
    let run = fermix(&home, &["ask", "--timeout", "300", "--json", "hello"]).code(1);
    assert_eq!(run.json()["status"], json!("error"));
    assert!(began.elapsed() < Duration::from_secs(15));
}
