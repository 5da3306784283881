//! The loop: steps, their order, and what stops a model that does not stop itself.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fermix_agent::{TurnEvent, TurnRequest, TurnStatus};
use fermix_testkit::{Checks, FakeModel, Rule, Script, Step};
use fermix_types::{Category, PolicyClass};
use serde_json::json;
use tokio::sync::mpsc;

use crate::tools::{self, Seen};
use crate::world::{Plan, ended, guest, here, owner};

#[tokio::test]
async fn two_steps_over_every_wire_and_the_next_turn_remembers_them() {
    for provider in ["openai_compatible", "anthropic", "xai"] {
        let model = FakeModel::start([
            Step::call("file_read", json!({"path": "a.txt"})),
            Step::calls([
                ("file_read", json!({"path": "b.txt"})),
                ("file_read", json!({"path": "c.txt"})),
                ("file_write", json!({"path": "d.txt"})),
            ]),
            Step::say("Wrote d.txt."),
            Step::say("It is d.txt."),
        ]);
        let seen = Seen::new();
        let world = Plan::new(
            &model,
            vec![tools::file_read(&seen), tools::file_write(&seen)],
        )
        .through(provider)
        .build();
        let (sender, mut receiver) = mpsc::channel(64);
        let request = TurnRequest::text(here(), owner(), "write d.txt");
        let submitted = world
            .agent
            .submit(request, world.inbox.clone(), Some(sender));
        let report = ended(submitted).await;
        assert_eq!(
            report.status,
            TurnStatus::Completed,
            "{provider}: {report:?}"
        );
        assert_eq!(report.response, "Wrote d.txt.");
        assert_eq!(
            (report.iterations, report.tool_calls, report.tool_failures),
            (3, 4, 0)
        );
        assert!(report.tokens.total > 0 && report.session_id == "main-1");
        assert_eq!(seen.paths(), ["a.txt", "b.txt", "c.txt", "d.txt"]);
        let results: Vec<String> = model
            .last_request()
            .results()
            .map(|result| result.text.clone())
            .collect();
        assert_eq!(
            results,
            [
                "content of a.txt\nsecond line",
                "content of b.txt\nsecond line",
                "content of c.txt\nsecond line",
                "wrote 3 bytes"
            ]
        );
        let mut events = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            events.push(event);
        }
        assert_eq!(
            events[0],
            TurnEvent::SessionStarted {
                session_id: "main-1".into()
            }
        );
        let started = events
            .iter()
            .filter(|event| matches!(event, TurnEvent::ToolStart { .. }))
            .count();
        let finished = events
            .iter()
            .filter(|event| matches!(event, TurnEvent::ToolFinish { ok: true, .. }))
            .count();
        assert_eq!((started, finished), (4, 4));
        let text: String = events
            .iter()
            .filter_map(|event| match event {
                TurnEvent::TextDelta(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "Wrote d.txt.");

        assert_eq!(world.ask("which file?").await.response, "It is d.txt.");
        let last = model.last_request();
        let remembered = &last.messages[1].text;
        assert!(
            remembered.starts_with("Wrote d.txt.\n\n<work_note>\n"),
            "{remembered}"
        );
        assert!(
            remembered.contains("- file_write path=d.txt → ok: wrote 3 bytes"),
            "{remembered}"
        );
        assert_eq!(world.inbox.texts(), ["Wrote d.txt.", "It is d.txt."]);
    }
}

/// Calls `tool` with the same arguments for as long as there are tools.
fn stubborn(tool: &'static str, closing: Step) -> Script {
    Script::each(move |seen| {
        if seen.tools.is_empty() {
            closing.clone()
        } else {
            Step::call(tool, json!({"path": "same.txt"}))
        }
    })
}

#[tokio::test]
async fn a_model_that_reads_one_file_forever_is_warned_stopped_and_still_answers() {
    let model = FakeModel::start(stubborn("file_read", Step::say("All I know is same.txt.")));
    let seen = Seen::new();
    let world = Plan::new(&model, vec![tools::file_read(&seen)]).build();
    let report = world.ask("read it").await;
    assert_eq!(report.status, TurnStatus::Completed);
    assert_eq!(report.response, "All I know is same.txt.");
    assert_eq!(
        (report.iterations, report.tool_calls, report.tool_failures),
        (6, 5, 2)
    );
    assert_eq!(seen.count(), 3, "the fourth and fifth do not run");
    let last = model.last_request();
    let results: Vec<&str> = last.results().map(|result| result.text.as_str()).collect();
    assert!(!results[1].contains("Loop warning"));
    assert!(results[2].starts_with("content of same.txt") && results[2].contains("Loop warning"));
    assert!(results[3].starts_with("Error: not run") && results[3].contains("content of same.txt"));
    assert!(
        results[4].starts_with("Error: Repeated tool call loop detected"),
        "{}",
        results[4]
    );
    assert!(
        last.last_user().contains("what remains undone"),
        "{}",
        last.last_user()
    );
    let outcomes: Vec<String> = world
        .tool_rows()
        .into_iter()
        .map(|(_, outcome)| outcome)
        .collect();
    assert_eq!(outcomes, ["ok", "ok", "ok", "loop_guard", "loop_guard"]);
}

#[tokio::test]
async fn without_a_closing_answer_the_person_is_told_why() {
    for closing in [
        Step::status(400),
        Step::empty(),
        Step::call("file_read", json!({"path": "x"})),
    ] {
        let checks = Checks::all().without(Rule::BlankAssistant);
        let model = FakeModel::start_with(stubborn("file_read", closing), checks);
        let seen = Seen::new();
        let world = Plan::new(&model, vec![tools::file_read(&seen)]).build();
        let report = world.ask("read it").await;
        assert_eq!(report.status, TurnStatus::Failed);
        assert!(
            report
                .response
                .starts_with("Repeated tool call loop detected"),
            "{report:?}"
        );
        assert_eq!(world.inbox.texts(), [report.response]);
    }
}

#[tokio::test]
async fn at_the_cap_the_model_answers_with_what_it_has() {
    let steps = |closing: Step| {
        let mut number = 0;
        Script::each(move |seen| {
            number += 1;
            if seen.tools.is_empty() {
                closing.clone()
            } else {
                Step::call("file_read", json!({"path": number.to_string()}))
            }
        })
    };
    for (closing, status, response) in [
        (
            Step::say("Half of it."),
            TurnStatus::Completed,
            "Half of it.",
        ),
        (
            Step::status(400),
            TurnStatus::Failed,
            "Maximum iterations (3) reached",
        ),
    ] {
        let model = FakeModel::start(steps(closing));
        let seen = Seen::new();
        let world = Plan::new(&model, vec![tools::file_read(&seen)])
            .with(|settings| settings.max_iterations = 3)
            .build();
        let report = world.ask("all of it").await;
        assert_eq!(report.status, status);
        assert!(report.response.starts_with(response), "{report:?}");
        assert_eq!(
            (seen.count(), report.tool_calls),
            (2, 3),
            "the last step is answered, not run"
        );
        assert_eq!(model.request_count(), 4);
    }
}

#[tokio::test]
async fn alternating_calls_and_changing_polls_go_on() {
    let mut number = 0;
    let model = FakeModel::script_loop(move |_| {
        number += 1;
        match number {
            21 => Step::say("done"),
            odd if odd % 2 == 1 => Step::call("file_read", json!({"path": "a"})),
            _ => Step::call("file_write", json!({"path": "b"})),
        }
    });
    let seen = Seen::new();
    let world = Plan::new(
        &model,
        vec![tools::file_read(&seen), tools::file_write(&seen)],
    )
    .build();
    let report = world.ask("go").await;
    assert_eq!(
        (report.response.as_str(), report.tool_failures, seen.count()),
        ("done", 0, 20)
    );
}

#[tokio::test]
async fn broken_arguments_never_become_a_wrong_call() {
    for provider in ["openai_compatible", "xai", "anthropic"] {
        let model = FakeModel::start_with(
            [
                Step::raw_call("file_write", r#"{"path": "#),
                Step::raw_call("file_write", r#"{"path":"a"}{"path":"b"}"#),
                Step::raw_call("file_write", r#"{"pth":"a"}"#),
                Step::raw_call("file_write", "[1]"),
                Step::raw_call("no_such_tool", "{}"),
                Step::say("I give up."),
            ],
            Checks::all()
                .without(Rule::Pairing)
                .without(Rule::StableMessages),
        );
        let seen = Seen::new();
        let world = Plan::new(&model, vec![tools::file_write(&seen)])
            .through(provider)
            .build();
        let report = world.ask("go").await;
        assert_eq!(report.response, "I give up.", "{provider}: {report:?}");
        // Merged objects are the two calls they were, or none; never a third one.
        let paths = seen.paths();
        assert!(
            paths.is_empty() || paths == ["a", "b"],
            "{provider}: {paths:?}"
        );
        assert_eq!(
            report.tool_failures as usize,
            report.tool_calls as usize - paths.len()
        );
        assert_eq!(
            world.tool_rows().len(),
            report.tool_calls as usize,
            "{provider}"
        );
        let last = model.last_request();
        let results: Vec<&str> = last.results().map(|result| result.text.as_str()).collect();
        assert_eq!(results.len(), report.tool_calls as usize);
        assert!(
            results[0].contains("Invalid JSON arguments"),
            "{provider}: {}",
            results[0]
        );
        assert!(
            results.iter().any(|text| text.contains("pth")),
            "{provider}: {results:?}"
        );
        assert!(results.last().unwrap().contains("'no_such_tool' not found"));
    }
}

#[tokio::test]
async fn tools_that_sleep_panic_or_flood_cost_one_error_each() {
    // A cut result brings along the tool that reads on.
    let checks = Checks::all().without(Rule::StableTools);
    let steps = [
        Step::call("sleeper", json!({})),
        Step::calls([
            ("panicking", json!({})),
            ("flood", json!({})),
            ("bytes", json!({})),
        ]),
        Step::call("web_fetch", json!({"url": "https://x.example"})),
        Step::say("Three of them failed."),
    ];
    let model = FakeModel::start_with(steps, checks);
    let seen = Seen::new();
    let world = Plan::new(
        &model,
        vec![
            tools::sleeper(&seen, false, Duration::from_millis(100)),
            tools::panicking(),
            tools::flood(),
            tools::bytes(),
            tools::web_fetch(),
        ],
    )
    .build();
    let report = world.ask("go").await;
    assert_eq!(
        (report.status, report.tool_failures),
        (TurnStatus::Completed, 2)
    );
    let last = model.last_request();
    let results: Vec<&str> = last.results().map(|result| result.text.as_str()).collect();
    assert!(
        results[0].starts_with("Error: timed out after"),
        "{}",
        results[0]
    );
    assert!(results[1].starts_with("Error: ") && !results[1].contains("secret detail"));
    assert!(results[2].len() < 300 * 1024 && results[2].len() > 100 * 1024);
    assert!(results[2].contains("[the rest is kept: tool_result_recall with call_id "));
    assert!(last.tool_names().contains(&"tool_result_recall"));
    assert_eq!(results[3], "a\u{FFFD}b");
    assert!(
        results[4].starts_with("<untrusted_tool_result"),
        "{}",
        results[4]
    );
    assert_eq!(results[4].matches("</untrusted_tool_result>").count(), 1);
    let note = world.history().await[1].work_note.clone().unwrap();
    assert!(
        note.contains("web_fetch url=https://x.example → ok, ")
            && !note.contains("ignore previous")
    );
}

#[tokio::test]
async fn calls_of_a_step_run_side_by_side_or_in_order() {
    let model = FakeModel::start([
        Step::calls([
            ("meeting", json!({"path": "1"})),
            ("meeting", json!({"path": "2"})),
            ("meeting", json!({"path": "3"})),
        ]),
        Step::calls([
            ("look", json!({"path": "one"})),
            ("look", json!({"path": "./one"})),
            ("look", json!({"path": "x/../one"})),
        ]),
        Step::calls([
            ("change", json!({"path": "a"})),
            ("look", json!({"path": "b"})),
            ("change", json!({"path": "c"})),
        ]),
        Step::say("done"),
    ]);
    let seen = Seen::new();
    let world = Plan::new(
        &model,
        vec![
            tools::meeting(3),
            tools::overlapping(&seen, "look", PolicyClass::ReadOnly),
            tools::overlapping(&seen, "change", PolicyClass::ReadWrite),
        ],
    )
    .build();
    let report = world.ask("go").await;
    assert_eq!(
        (report.response.as_str(), report.tool_failures),
        ("done", 0)
    );
    let last = model.last_request();
    let results: Vec<&str> = last.results().map(|result| result.text.as_str()).collect();
    assert_eq!(results[..3], ["met 1", "met 2", "met 3"], "in call order");
    assert_eq!(
        seen.most.load(Ordering::SeqCst),
        1,
        "one file, or a write, never overlaps"
    );
    assert_eq!(seen.paths(), ["one", "./one", "x/../one", "a", "b", "c"]);
}

#[tokio::test]
async fn one_channel_action_a_step_and_sixty_four_calls() {
    let crowd = (0..70).map(|index| ("file_read", json!({"path": index.to_string()})));
    let model = FakeModel::start([
        Step::calls([
            ("send_attachment", json!({"pth": "broken"})),
            ("send_attachment", json!({"path": "1"})),
            ("file_read", json!({"path": "f"})),
            ("send_attachment", json!({"path": "2"})),
        ]),
        Step::calls(crowd),
        Step::say("done"),
    ]);
    let seen = Seen::new();
    let world = Plan::new(
        &model,
        vec![tools::attachment(&seen), tools::file_read(&seen)],
    )
    .build();
    let report = world.ask("go").await;
    assert_eq!(report.response, "done");
    assert_eq!(seen.paths()[..2], ["1", "f"]);
    assert_eq!(seen.count(), 2 + 64);
    let last = model.last_request();
    let results: Vec<&str> = last.results().map(|result| result.text.as_str()).collect();
    assert!(
        results[3].contains("only one channel action is executed per step"),
        "{}",
        results[3]
    );
    assert_eq!(
        results
            .iter()
            .filter(|text| text.contains("too many calls in one step"))
            .count(),
        6
    );
    assert_eq!(world.tool_rows().len(), 74);
}

#[tokio::test]
async fn pictures_reach_models_that_see_and_others_are_told() {
    for vision in [true, false] {
        let model = FakeModel::start([Step::call("picture", json!({})), Step::say("a picture")]);
        let world = Plan::new(&model, vec![tools::picture()])
            .with_config(&format!("vision = {vision}\n"))
            .build();
        let report = world.ask("look").await;
        assert_eq!(report.response, "a picture");
        let last = model.last_request();
        let shown: usize = last
            .messages
            .iter()
            .map(|message| message.images.len())
            .sum();
        let result = &last.results().next().unwrap().text;
        assert_eq!(shown, usize::from(vision));
        assert_eq!(
            result.contains("image_unsupported: fake-model takes no images"),
            !vision,
            "{result}"
        );
        assert_eq!(report.tool_failures, u32::from(!vision));

        let model = FakeModel::start(Script::from(vec![Step::say("seen"); usize::from(vision)]));
        let world = Plan::new(&model, vec![])
            .with_config(&format!("vision = {vision}\n"))
            .build();
        let mut request = TurnRequest::text(here(), owner(), "");
        request.images.push(tools::png());
        let report = ended(world.send(request)).await;
        assert_eq!(report.status == TurnStatus::Completed, vision, "{report:?}");
        assert_eq!(world.history().await[0].text, "[an image]");
    }
}

#[tokio::test]
async fn a_lone_terminal_call_without_words_is_the_reply() {
    let model = FakeModel::start([
        Step::call("react", json!({})),
        Step::say_and_call("And:", "react", json!({})),
        Step::say("words"),
    ]);
    let seen = Seen::new();
    let world = Plan::new(&model, vec![tools::react(&seen)]).build();
    let report = world.ask("thanks").await;
    assert_eq!(
        (report.status, report.iterations),
        (TurnStatus::Completed, 1)
    );
    assert!(world.inbox.texts().is_empty());
    assert!(world.history().await[1].text.contains("reaction"));
    assert_eq!(world.ask("and in words").await.response, "words");
}

#[tokio::test]
async fn a_guests_turn_has_neither_the_tools_nor_the_memory_of_the_owner() {
    let model = FakeModel::start([
        Step::call("file_read", json!({"path": "a"})),
        Step::say("I cannot."),
    ]);
    let seen = Seen::new();
    let world = Plan::new(
        &model,
        vec![
            tools::file_read(&seen),
            tools::simple(
                &seen,
                "public",
                PolicyClass::ReadOnly,
                Category::System,
                "p",
            ),
        ],
    )
    .build();
    for name in ["USER.md", "MEMORY.md"] {
        let folder = world.home.fermix_home().join("memory/main");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), "SECRETMEMORY").unwrap();
    }
    let mut request = TurnRequest::text(here(), guest(), "read a");
    request.cwd = Some("/".into());
    assert_eq!(ended(world.send(request)).await.response, "I cannot.");
    assert_eq!(seen.count(), 0);
    let last = model.last_request();
    assert_eq!(last.tool_names(), ["public"]);
    assert!(!String::from_utf8_lossy(&last.raw).contains("SECRETMEMORY"));
    assert!(
        last.results()
            .next()
            .unwrap()
            .text
            .contains("'file_read' not found")
    );
    assert!(world.history().await.iter().all(|message| message.guest));
}
