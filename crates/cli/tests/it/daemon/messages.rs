//! Messages over the socket: events in order, one reply, what a client brings along.

use std::time::Duration;

use fermix_testkit::{FakeModel, Script, Step, TestHome};
use serde_json::{Value, json};

use super::running::{Connection, Running, eventually, processes, request};
use crate::support::{fermix, finish, start, traces};

fn message(text: &str, more: Value) -> Value {
    let mut params = json!({ "content": text, "session_id": "s" });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    json!({ "v": 1, "method": "agent_message", "params": params })
}

#[test]
fn events_come_in_order_and_the_end_has_everything() {
    let home = TestHome::new();
    home.file("a.txt", "alpha");
    let model = FakeModel::start([
        Step::call("file_read", json!({ "path": "a.txt" })).with_text("Let me look."),
        Step::say("It says alpha."),
    ]);
    home.use_model(&model, "");
    let _daemon = Running::start(&home);
    let mut connection =
        Connection::asking(&home, &message("read a.txt", json!({ "stream": true })));
    let mut events = Vec::new();
    while let Some(event) = connection.receive() {
        events.push(event);
    }
    let done = events.pop().unwrap();
    assert_eq!(done["event"], json!("done"));
    assert_eq!(done["status"], json!("ok"));
    assert_eq!(done["response"], json!("It says alpha."));
    assert_eq!(done["session_id"], json!("s"));
    assert_eq!(done["report"]["tool_calls"], json!(1));

    let mut told: Vec<String> = Vec::new();
    for event in &events {
        let words = match event["event"].as_str().unwrap() {
            "delta" => event["text"].as_str().unwrap().to_owned(),
            "text_done" => "|".to_owned(),
            "tool" => format!("<{} {}>", event["name"].as_str().unwrap(), event["phase"]),
            other => panic!("{other}"),
        };
        told.push(words);
    }
    assert_eq!(
        told.concat(),
        "Let me look.|<file_read \"started\"><file_read \"succeeded\">It says alpha.|"
    );
    let said: Vec<_> = traces(&home, "channel_msg")
        .iter()
        .map(|row| row["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(said, ["read a.txt", "It says alpha."]);
    model.assert_clean();
}

#[test]
fn without_a_stream_there_is_one_reply() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|seen| {
        Step::say(format!("message {}", seen.messages.len()))
    }));
    home.use_model(&model, "");
    let _daemon = Running::start(&home);
    let reply = request(&home, &message("one", json!({})));
    assert_eq!(reply["status"], json!("ok"));
    assert_eq!(reply["response"], json!("message 1"));
    assert_eq!(
        request(&home, &message("two", json!({})))["response"],
        json!("message 3")
    );
    let command = request(&home, &message("/new", json!({})));
    assert!(
        command["response"]
            .as_str()
            .unwrap()
            .starts_with("New session.")
    );
    assert_eq!(
        request(&home, &message("three", json!({})))["response"],
        json!("message 1")
    );

    let refused = [
        (message("  ", json!({})), "empty_input"),
        (
            message("x", json!({ "session_id": "../x" })),
            "invalid_session",
        ),
        (
            message(
                "x",
                json!({ "images": [{ "mime_type": "image/png", "data_base64": "no" }] }),
            ),
            "invalid_image_payload",
        ),
    ];
    for (asked, reason) in refused {
        let reply = request(&home, &asked);
        assert_eq!(reply["status"], json!("error"));
        assert_eq!(reply["reason"], json!(reason));
        assert!(!reply["error"].as_str().unwrap().is_empty());
    }
    model.assert_clean();
}

#[test]
fn the_time_is_up_for_one_turn_and_not_for_the_next() {
    let home = TestHome::new();
    let model = FakeModel::start([
        Step::say("too late").after(Duration::from_secs(600)),
        Step::say("here"),
    ]);
    home.use_model(&model, "");
    let _daemon = Running::start(&home);
    let late = request(&home, &message("slowly", json!({ "timeout_ms": 300 })));
    assert_eq!(late["reason"], json!("timeout"));
    assert!(late["error"].as_str().unwrap().contains("longer"), "{late}");
    assert_eq!(
        request(&home, &message("again", json!({})))["response"],
        json!("here")
    );
}

#[test]
fn a_client_that_goes_away_stops_its_turn_and_no_other() {
    let home = TestHome::new();
    let mark = format!("gone-{}", std::process::id());
    let command = json!({ "command": format!("sh -c 'sleep 300; : {mark}'") });
    let model = FakeModel::start(Script::each(move |seen| match seen.last_user() {
        "wait" if seen.last_results().is_empty() => Step::call("shell", command.clone()),
        other => Step::say(format!("re: {other}")),
    }));
    home.use_model(&model, "");
    let _daemon = Running::start(&home);
    let mut leaving = Connection::asking(&home, &message("wait", json!({ "stream": true })));
    assert_eq!(leaving.receive().unwrap()["name"], json!("shell"));
    eventually("the command", || processes(&mark) >= 1);
    // One that waits behind it goes as well, and one that stays gets its answer.
    let waiting = Connection::asking(&home, &message("never", json!({ "stream": true })));
    let mut staying = Connection::asking(&home, &message("and I?", json!({})));
    eventually("both to wait", || {
        let overview = request(&home, &json!({ "method": "overview" }));
        overview["overview"]["waiting_messages"] == json!(2)
    });
    drop(waiting);
    eventually("one to leave", || {
        let overview = request(&home, &json!({ "method": "overview" }));
        overview["overview"]["waiting_messages"] == json!(1)
    });
    drop(leaving);
    assert_eq!(staying.receive().unwrap()["response"], json!("re: and I?"));
    assert_eq!(processes(&mark), 0);
    let asked: Vec<_> = model
        .requests()
        .iter()
        .map(|seen| seen.last_user().to_owned())
        .collect();
    assert_eq!(asked, ["wait", "and I?"]);
    model.assert_clean();
}

#[test]
fn images_are_shown_by_their_bytes_or_by_their_file() {
    use base64::Engine as _;
    let home = TestHome::new();
    let picture = b"\x89PNG\r\n\x1a\n picture".to_vec();
    let path = home.os_home().join("picture.png");
    std::fs::write(&path, &picture).unwrap();
    let model = FakeModel::start([Step::say("one"), Step::say("two")]);
    home.use_model(&model, "vision = true\n");
    let _daemon = Running::start(&home);
    let inline = base64::engine::general_purpose::STANDARD.encode(&picture);
    for part in [json!({ "data_base64": inline }), json!({ "path": path })] {
        let mut part = part;
        part["mime_type"] = json!("image/png");
        let reply = request(&home, &message("look", json!({ "images": [part] })));
        assert_eq!(reply["status"], json!("ok"), "{reply}");
        let seen = model.last_request();
        let shown = &seen.messages.last().unwrap().images;
        assert_eq!(shown[0].data, picture);
    }
}

#[test]
fn a_daemon_and_another_process_do_not_mix_their_turns() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|_| {
        Step::say("ok").after(Duration::from_millis(500))
    }));
    home.use_model(&model, "");
    let _daemon = Running::start(&home);
    let folder = home.os_home().join("folder");
    std::fs::create_dir(&folder).unwrap();
    // `--root` is answered in a process of its own.
    let own = [
        "ask",
        "--session",
        "s",
        "--root",
        folder.to_str().unwrap(),
        "hello",
    ];
    let children: Vec<_> = [&own[..], &["ask", "--daemon", "--session", "s", "hello"]]
        .into_iter()
        .cycle()
        .take(4)
        .map(|args| start(&home, args))
        .collect();
    for child in children {
        finish(child.wait_with_output().unwrap()).code(0);
    }
    let lengths: Vec<_> = model
        .requests()
        .iter()
        .map(|seen| seen.messages.len())
        .collect();
    assert_eq!(lengths, [1, 3, 5, 7], "the turns did not see each other");
    model.assert_clean();
}

#[test]
fn a_changed_configuration_holds_for_the_next_turn() {
    let home = TestHome::new();
    let one = FakeModel::start(Script::each(|_| Step::say("the first model")));
    let two = FakeModel::start(Script::each(|_| Step::say("the second model")));
    home.use_model(&one, "");
    let _daemon = Running::start(&home);
    let ask = || {
        let run = fermix(&home, &["ask", "--daemon", "who are you?"]).code(0);
        run.stdout.trim().to_owned()
    };
    assert_eq!(ask(), "the first model");
    home.use_model(&two, "[sandbox]\nmode = \"open\"\n");
    assert_eq!(ask(), "the first model");
    let health = fermix(&home, &["health"]).code(0).stdout;
    assert!(health.contains("fermix reload"), "{health}");
    let reload = fermix(&home, &["reload", "--json"]).code(0).json();
    assert_eq!(reload["reload"]["applied"], json!(["sandbox", "providers"]));
    assert_eq!(ask(), "the second model");

    // What cannot be used changes nothing.
    home.use_model(&one, "[sandbox]\nmode = \"ajar\"\n");
    let refused = fermix(&home, &["reload"]).code(1);
    assert!(refused.stderr.contains("mode"), "{}", refused.stderr);
    assert_eq!(ask(), "the second model");
    let health = fermix(&home, &["health", "--json"]).code(1).json();
    let row = health["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "configuration")
        .unwrap();
    assert_eq!(row["status"], json!("fail"));

    home.use_model(
        &two,
        "[sandbox]\nmode = \"open\"\n\n[fermix_core.agent]\nname = \"Ada\"\n",
    );
    let reload = fermix(&home, &["reload", "--json"]).code(0).json();
    assert_eq!(reload["reload"]["applied"], json!([]));
    assert_eq!(reload["reload"]["needs_restart"], json!(["agent"]));
}
