//! A configured set of providers, and a small loop that answers tool calls.

use std::sync::Arc;
use std::time::Duration;

use fermix_config::{Config, Environment, Home, Overrides};
use fermix_net::Net;
use fermix_providers::{
    Backoff, Calls, ChatRequest, ChatResponse, EventSink, ModelEvent, ProviderError, Providers,
    Route, SystemPart, ToolDefinition,
};
use fermix_secrets::{AuthFile, Vault};
use fermix_testkit::TestHome;
use fermix_types::clock::FixedClock;
use fermix_types::trace::MemorySink;
use fermix_types::{Image, Message, ToolMessage, ToolName, TraceIds, UnixMillis, UserMessage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Providers with everything they were built from.
pub(crate) struct Setup {
    _home: TestHome,
    pub(crate) providers: Providers,
    pub(crate) trace: Arc<MemorySink>,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) cancel: CancellationToken,
}

/// The provider blocks of `toml`, without waits between tries.
pub(crate) fn setup(toml: &str) -> Setup {
    try_setup(toml, &[]).unwrap()
}

pub(crate) fn try_setup(toml: &str, variables: &[(&str, &str)]) -> Result<Setup, String> {
    let home = TestHome::new();
    home.write_config(toml);
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let environment = Environment::from_pairs(variables);
    let place = Home::resolve(Some(&home.fermix_home()), &environment)
        .map_err(|error| error.to_string())?;
    let config = Config::load(&place, &environment, &Overrides::default())
        .map_err(|error| error.to_string())?;
    let trace = Arc::new(MemorySink::default());
    let clock = Arc::new(FixedClock::at(UnixMillis(1_800_000_000_000)));
    let soon = Duration::from_millis(1);
    let providers = Providers::from_config(
        &config,
        Net::new("fermix-test"),
        AuthFile::open(place.auth_file()),
        &Vault::new(place.secrets(), &config.profile, Arc::default()),
        clock.clone(),
        trace.clone(),
    )
    .map_err(|error| error.to_string())?
    .with_backoff(
        Backoff {
            delay: soon,
            ..Backoff::FIRST_CALL
        },
        Backoff {
            delay: soon,
            ..Backoff::CONTINUATION
        },
    );
    Ok(Setup {
        _home: home,
        providers,
        trace,
        clock,
        cancel: CancellationToken::new(),
    })
}

impl Setup {
    pub(crate) async fn first(
        &self,
        request: &ChatRequest,
    ) -> (Result<(ChatResponse, usize), ProviderError>, Seen) {
        let mut seen = Seen::default();
        let routes = self.providers.routes();
        let outcome = self
            .providers
            .first_call(&routes, request, &mut seen, &ids(), &self.cancel)
            .await;
        (outcome, seen)
    }

    pub(crate) async fn next(
        &self,
        route: &Route,
        request: &ChatRequest,
    ) -> Result<ChatResponse, ProviderError> {
        self.providers
            .continue_on(route, request, &mut Seen::default(), &ids(), &self.cancel)
            .await
    }

    /// Rows of the trace whose `event` is `name`.
    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        let rows = self
            .trace
            .rows()
            .into_iter()
            .filter(|row| row.fields.get("event") == Some(&json!(name)));
        rows.map(|row| Value::Object(row.fields)).collect()
    }
}

pub(crate) fn ids() -> TraceIds {
    TraceIds {
        session_id: "main-1".into(),
        parent_session: None,
        turn_id: "1".into(),
    }
}

/// Keeps the events of a call.
#[derive(Default)]
pub(crate) struct Seen(pub(crate) Vec<ModelEvent>);

impl EventSink for Seen {
    fn emit(&mut self, event: ModelEvent) {
        self.0.push(event);
    }
}

impl Seen {
    pub(crate) fn text(&self) -> String {
        let pieces = self.0.iter().filter_map(|event| match event {
            ModelEvent::TextDelta(text) => Some(text.as_str()),
            ModelEvent::ReasoningDelta(_) | ModelEvent::TextDone | ModelEvent::ReasoningDone => {
                None
            }
        });
        pieces.collect()
    }
}

pub(crate) fn request(text: &str) -> ChatRequest {
    let tool = |name: &str, description: &str, schema: &str| ToolDefinition {
        name: ToolName::new(name).unwrap(),
        description: description.into(),
        parameters: Arc::from(serde_json::value::RawValue::from_string(schema.to_owned()).unwrap()),
    };
    ChatRequest {
        model: String::new(),
        system: vec![
            SystemPart {
                text: "You are Fermix.".into(),
                stable: true,
            },
            SystemPart {
                text: "Today is 2027-01-15.".into(),
                stable: false,
            },
        ],
        messages: vec![user(text)],
        tools: Arc::new([
            tool(
                "file_read",
                "Read a file.",
                r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#,
            ),
            tool(
                "convert",
                "Convert a picture.",
                r#"{"type":"object","properties":{"to":{"type":"string","enum":["image/png","gif"]}}}"#,
            ),
        ]),
        calls: Calls::Allowed,
        effort: None,
        max_output_tokens: None,
        temperature: Some(0.5),
        cache_key: "cli:1:root".into(),
    }
}

pub(crate) fn user(text: &str) -> Message {
    Message::User(UserMessage {
        text: text.into(),
        images: Vec::new(),
    })
}

pub(crate) fn image() -> Image {
    Image {
        mime_type: "image/png".into(),
        data: "not really a picture".into(),
    }
}

/// Appends an answer and the results of its calls.
pub(crate) fn append(request: &mut ChatRequest, response: &ChatResponse, images: &[Image]) {
    request
        .messages
        .push(Message::Assistant(response.message.clone()));
    for call in &response.message.tool_calls {
        request.messages.push(Message::Tool(ToolMessage {
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            text: format!("result of {} with {}", call.name, call.arguments),
            images: images.to_vec(),
            is_error: false,
        }));
    }
}
