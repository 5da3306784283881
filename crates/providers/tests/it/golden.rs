//! What each wire sends and understands, as files to read.
//!
//! The same five conversations run over every wire; a golden file holds the bodies that went
//! out, the answers and the events. The server checks pairing, schemas and prefixes besides.

use fermix_providers::{Calls, ChatResponse, ModelEvent, ProviderError};
use fermix_testkit::{FakeModel, Step, TokenCounts};
use serde_json::{Value, json};

use crate::support::{self, Setup, append, image, request, setup};

#[derive(Clone, Copy, Debug)]
enum Wire {
    Responses,
    Chat,
    Messages,
}

const WIRES: [Wire; 3] = [Wire::Responses, Wire::Chat, Wire::Messages];

impl Wire {
    fn setup(self, model: &FakeModel) -> Setup {
        let url = model.base_url();
        setup(&match self {
            Self::Responses => format!(
                "[fermix_core.providers.xai]\nbase_url = \"{url}\"\napi_key = \"xai-key-0001\"\ndefault_model = \"grok-4\"\n"
            ),
            Self::Chat => format!(
                "[fermix_core.providers.openai_compatible]\nbase_url = \"{url}\"\ndefault_model = \"local\"\nvision = true\n"
            ),
            Self::Messages => format!(
                "[fermix_core.providers.anthropic]\nbase_url = \"{url}\"\napi_key = \"sk-ant-0001\"\n\
                 default_model = \"claude-sonnet-4-6\"\nreasoning_effort = \"xhigh\"\n"
            ),
        })
    }

    /// Events before the second piece of a text on this wire.
    fn events_to_second_delta(self) -> usize {
        match self {
            Self::Responses => 5,
            Self::Chat => 2,
            Self::Messages => 4,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Messages => "messages",
        }
    }
}

/// Runs the conversation to its end and writes everything down.
async fn run(wire: Wire, scenario: &str, steps: Vec<Step>, images: bool) {
    let model = FakeModel::start(steps);
    let setup = wire.setup(&model);
    let mut request = request("What is in the files?");
    let mut answers = Vec::new();
    let (mut outcome, seen) = setup.first(&request).await;
    let mut events = seen.0;
    let route = setup.providers.routes()[0].clone();
    loop {
        answers.push(
            outcome
                .as_ref()
                .map_or_else(failure, |(response, _)| answer(response)),
        );
        let Ok((response, _)) = outcome else { break };
        if response.message.tool_calls.is_empty() {
            break;
        }
        let pictures = [image()];
        append(
            &mut request,
            &response,
            if images { &pictures } else { &[] },
        );
        let mut seen = support::Seen::default();
        outcome = setup
            .providers
            .continue_on(&route, &request, &mut seen, &support::ids(), &setup.cancel)
            .await
            .map(|response| (response, 0));
        events.extend(seen.0);
    }
    let written = json!({
        "requests": model.requests().iter().map(|seen| seen.body.clone()).collect::<Vec<_>>(),
        "answers": answers,
        "events": events.iter().map(event).collect::<Vec<_>>(),
    });
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_json_snapshot!(format!("{}_{scenario}", wire.name()), written));
    assert_eq!(model.remaining_steps(), 0, "{scenario}");
}

fn answer(response: &ChatResponse) -> Value {
    let usage = &response.usage;
    json!({
        "message": response.message,
        "model": response.model,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
    })
}

fn failure(error: &ProviderError) -> Value {
    json!({
        "error": error.kind.as_str(), "stage": error.stage.as_str(), "message": error.message,
        "partial_text": error.details.partial_text, "sentence": error.user_sentence(),
    })
}

fn event(event: &ModelEvent) -> Value {
    match event {
        ModelEvent::TextDelta(text) => json!({"text_delta": text}),
        ModelEvent::ReasoningDelta(text) => json!({"reasoning_delta": text}),
        ModelEvent::TextDone => json!("text_done"),
        ModelEvent::ReasoningDone => json!("reasoning_done"),
    }
}

#[tokio::test]
async fn two_steps_with_reasoning() {
    for wire in WIRES {
        let steps = vec![
            Step::say_and_call("Let me look.", "file_read", json!({"path": "a.txt"}))
                .with_reasoning(["The file ", "may say."])
                .with_usage(TokenCounts::new(100, 20).with_cache(64, 16)),
            Step::call("file_read", json!({"path": "b.txt"})).with_usage(TokenCounts::new(150, 10)),
            Step::say("Both files are read.").with_usage(TokenCounts::new(200, 5).with_cache(0, 0)),
        ];
        run(wire, "two_steps", steps, false).await;
    }
}

#[tokio::test]
async fn three_parallel_calls() {
    for wire in WIRES {
        let steps = vec![
            Step::calls(["a", "b", "c"].map(|name| ("file_read", json!({"path": name}))))
                .with_usage(TokenCounts::new(10, 5)),
            Step::say("Three files.").with_usage(TokenCounts::new(20, 5)),
        ];
        run(wire, "parallel_calls", steps, false).await;
    }
}

#[tokio::test]
async fn images_in_results() {
    for wire in WIRES {
        let steps = vec![
            Step::calls([
                ("file_read", json!({"path": "a.png"})),
                ("file_read", json!({"path": "b.png"})),
            ])
            .with_usage(TokenCounts::new(10, 5)),
            Step::say("Two pictures.").with_usage(TokenCounts::new(20, 5)),
        ];
        run(wire, "image_result", steps, true).await;
    }
}

#[tokio::test]
async fn empty_content() {
    for wire in WIRES {
        let steps = vec![
            Step::call("file_read", json!({"path": "a"}))
                .with_text("")
                .with_usage(TokenCounts::new(10, 5)),
            Step::empty().with_usage(TokenCounts::new(20, 0)),
        ];
        run(wire, "empty_content", steps, false).await;
    }
}

#[tokio::test]
async fn a_cut_stream() {
    for wire in WIRES {
        let steps = vec![Step::say("one two three four").cut_after(wire.events_to_second_delta())];
        run(wire, "cut_stream", steps, false).await;
    }
}

/// When a turn must end in words, no wire lets the model call anything, and the one that refuses
/// a conversation with calls and no tools still gets them.
#[tokio::test]
async fn a_closing_call_lets_nothing_be_called() {
    for wire in WIRES {
        let model = FakeModel::start([
            Step::call("file_read", json!({"path": "a.txt"})),
            Step::say("That is all I know."),
        ]);
        let setup = wire.setup(&model);
        let mut request = request("What is in the files?");
        let (outcome, _) = setup.first(&request).await;
        let (response, _) = outcome.expect("the first call is answered");
        append(&mut request, &response, &[]);
        request.calls = Calls::Forbidden;
        let (outcome, _) = setup.first(&request).await;
        let (response, _) = outcome.expect("the closing call is answered");
        assert_eq!(response.message.text, "That is all I know.");
        let body = &model.last_request().body;
        match wire {
            Wire::Messages => {
                assert_eq!(body["tool_choice"], json!({"type": "none"}));
                assert_eq!(body["tools"], model.requests()[0].body["tools"]);
            }
            Wire::Responses | Wire::Chat => assert!(body.get("tools").is_none(), "{body}"),
        }
        model.assert_clean();
    }
}
