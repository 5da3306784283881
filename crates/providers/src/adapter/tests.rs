//! The vendors' own addresses, which the configuration cannot point elsewhere, at a fake server.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fermix_net::{Net, Stage};
use fermix_secrets::{AuthFile, Redactor};
use fermix_testkit::{FakeModel, Step, TestHome, TokenCounts};
use fermix_types::clock::FixedClock;
use fermix_types::{Effort, Message, ToolMessage, ToolName, UnixMillis, UserMessage};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Credentials, HttpAdapter};
use crate::catalog::Catalog;
use crate::error::{ErrorKind, ProviderError};
use crate::patience::Patience;
use crate::request::{Adapter, Calls, ChatRequest, ChatResponse, ProviderId, SystemPart, Unseen};
use crate::sign_in::SignIn;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

fn adapter(provider: ProviderId, base: &str, credentials: Credentials) -> HttpAdapter {
    let base: url::Url = base.parse().unwrap();
    HttpAdapter {
        provider,
        base: base.clone(),
        own_address: true,
        credentials,
        fast: true,
        patience: Patience::with(provider, &base),
        net: Net::new("fermix-test"),
        catalog: Arc::new(Catalog::default()),
        clock: Arc::new(FixedClock::at(NOW)),
        redactor: Arc::new(Redactor::new()),
    }
}

fn sign_in(home: &TestHome, expires_at: i64) -> Credentials {
    let path: PathBuf = home.fermix_home().join("auth.json");
    let entry = json!({
        "tokens": {"access_token": "signed-in-token-1", "account_id": "account-7"}, "expires_at": jiff::Timestamp::from_millisecond(expires_at).unwrap(),
    });
    std::fs::write(
        &path,
        json!({"version": 1, "providers": {"openai_codex": entry}}).to_string(),
    )
    .unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    Credentials::SignIn(SignIn {
        file: AuthFile::open(path),
        provider: ProviderId::OpenaiCodex,
    })
}

fn request(model: &str) -> ChatRequest {
    let schema =
        serde_json::value::RawValue::from_string(r#"{"type":"object","properties":{}}"#.to_owned())
            .unwrap();
    ChatRequest {
        model: model.to_owned(),
        system: vec![SystemPart {
            text: "You are Fermix.".into(),
            stable: true,
        }],
        messages: vec![Message::User(UserMessage {
            text: "go".into(),
            images: Vec::new(),
        })],
        tools: Arc::new([fermix_types::ToolDefinition {
            name: ToolName::new("look").unwrap(),
            description: "Look around.".into(),
            parameters: Arc::from(schema),
        }]),
        calls: Calls::Allowed,
        effort: Some(Effort::Max),
        max_output_tokens: Some(500),
        temperature: Some(0.7),
        cache_key: "cli:1:root".into(),
    }
}

async fn ask(adapter: &HttpAdapter, request: &ChatRequest) -> Result<ChatResponse, ProviderError> {
    adapter
        .chat(request, &mut Unseen, &CancellationToken::new())
        .await
}

/// A call and its result, then an answer; the bodies of both requests.
async fn two_steps(adapter: &HttpAdapter, model: &FakeModel, slug: &str) -> [Value; 2] {
    let mut request = request(slug);
    let first = ask(adapter, &request).await.unwrap();
    let call = first.message.tool_calls[0].clone();
    request.messages.push(Message::Assistant(first.message));
    request.messages.push(Message::Tool(ToolMessage {
        call_id: call.call_id,
        name: call.name,
        text: "nothing".into(),
        images: Vec::new(),
        is_error: false,
    }));
    ask(adapter, &request).await.unwrap();
    [0, 1].map(|number| model.requests()[number].body.clone())
}

fn script() -> [Step; 2] {
    let usage = || TokenCounts::new(10, 5);
    [
        Step::say_and_call("Looking.", "look", json!({}))
            .with_reasoning(["hm"])
            .with_usage(usage()),
        Step::say("Nothing there.").with_usage(usage()),
    ]
}

#[tokio::test]
async fn openai_and_the_sign_in_speak_responses_each_in_its_way() {
    let home = TestHome::new();
    let model = FakeModel::start(script());
    model.require_key("sk-proj-1");
    let key = || Credentials::Key(fermix_config::ApiKey::new("sk-proj-1").unwrap());
    let openai = adapter(ProviderId::Openai, &model.base_url(), key());
    let bodies = two_steps(&openai, &model, "gpt-5.5").await;
    insta::with_settings!({snapshot_path => "../../tests/golden", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_json_snapshot!("responses_openai", bodies);
    });

    let model = FakeModel::start(script());
    let base = model.base_url().replace("/v1", "/backend-api/codex");
    let codex = adapter(ProviderId::OpenaiCodex, &base, sign_in(&home, NOW.0 + 1));
    let bodies = two_steps(&codex, &model, "gpt-5.5").await;
    insta::with_settings!({snapshot_path => "../../tests/golden", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_json_snapshot!("responses_openai_codex", bodies);
    });
    let seen = model.last_request();
    assert_eq!(seen.key.as_deref(), Some("signed-in-token-1"));
    let header = |name: &str| seen.headers.get(name).map(String::as_str);
    assert_eq!(
        (header("chatgpt-account-id"), header("originator")),
        (Some("account-7"), Some("fermix"))
    );
}

#[tokio::test]
async fn other_models_of_openai_speak_chat() {
    let model = FakeModel::start([Step::say("hello").with_usage(TokenCounts::new(1, 1))]);
    let openai = adapter(ProviderId::Openai, &model.base_url(), Credentials::None);
    ask(&openai, &request("babbler-3")).await.unwrap();
    let body = &model.last_request().body;
    assert_eq!(model.last_request().path, "/v1/chat/completions");
    assert_eq!(
        (
            &body["max_completion_tokens"],
            &body["prompt_cache_key"],
            body.get("max_tokens")
        ),
        (&json!(500), &json!("cli:1:root"), None)
    );
}

#[tokio::test]
async fn a_sign_in_that_does_not_work_names_the_way_back() {
    let home = TestHome::new();
    let model =
        FakeModel::start([Step::status(401).with_message("token signed-in-token-1 revoked")]);
    let codex = adapter(
        ProviderId::OpenaiCodex,
        &model.base_url(),
        sign_in(&home, NOW.0 + 1),
    );
    let file = home.fermix_home().join("auth.json");
    let spoil: [(&str, &dyn Fn()); 3] = [
        ("[secret] revoked", &|| {}),
        ("has expired", &|| drop(sign_in(&home, NOW.0))),
        ("auth.json", &|| std::fs::remove_file(&file).unwrap()),
    ];
    for (words, change) in spoil {
        // The adapter is the same one: each call reads the newest tokens.
        change();
        let error = ask(&codex, &request("gpt-5.5")).await.unwrap_err();
        assert_eq!(
            (error.kind, error.signed_in, error.stage),
            (ErrorKind::Auth, true, Stage::BeforeResponse)
        );
        assert!(error.message.contains(words), "{}", error.message);
        assert!(
            !error.message.contains("signed-in-token-1"),
            "{}",
            error.message
        );
        let sentence = error.user_sentence();
        assert!(
            sentence.contains("`codex login`") && sentence.contains("0600"),
            "{sentence}"
        );
        assert_eq!(model.request_count(), 1);
    }
}

#[tokio::test]
async fn silence_is_borne_before_the_answer_and_not_within_it() {
    let ms = Duration::from_millis;
    // The provider, and how many of its events come before the second piece of text.
    for (provider, events) in [
        (ProviderId::Openai, 5),
        (ProviderId::Mistral, 3),
        (ProviderId::Anthropic, 4),
    ] {
        // Which silence: the model thinks before it says anything, or stops in the middle.
        for (name, step, long, expected) in [
            (
                "thinking",
                Step::say("one two")
                    .with_raw(1, ": thinking\n\n")
                    .after(ms(80)),
                ms(60_000),
                Ok("one two"),
            ),
            (
                "stuck",
                Step::say("one two three").stall_after(events),
                ms(60_000),
                Err(ErrorKind::Timeout),
            ),
            (
                "dead",
                Step::say("one two three").stall_after(1),
                ms(50),
                Err(ErrorKind::Timeout),
            ),
        ] {
            let model = FakeModel::start([step]);
            let key = Credentials::Key(fermix_config::ApiKey::new("sk-proj-1").unwrap());
            let mut adapter = adapter(provider, &model.base_url(), key);
            adapter.patience = Patience {
                at_first: long,
                between: ms(40),
                between_hard: ms(40),
            };
            let started = std::time::Instant::now();
            let outcome = ask(&adapter, &request("gpt-5.5")).await;
            assert!(started.elapsed() < ms(30_000), "{provider} {name}");
            let got = outcome
                .as_ref()
                .map(|response| response.message.text.as_str())
                .map_err(|error| error.kind);
            assert_eq!(got, expected, "{provider} {name}: {outcome:?}");
        }
    }
}
