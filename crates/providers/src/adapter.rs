//! The adapter of every provider that is reached over HTTP: address, credentials, timeouts, and
//! reading the stream to one of its possible ends.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fermix_config::ApiKey;
use fermix_net::{Net, NetError, NetErrorKind, Request, Response, Stage};
use fermix_secrets::{Redactor, StoredSecret};
use fermix_types::{Clock, Replay};
use futures_util::StreamExt;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sse_stream::SseStream;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::catalog::Catalog;
use crate::error::{ErrorKind, ProviderError, declared, from_document, from_status};
use crate::patience::{Pace, Patience};
use crate::request::{Adapter, ChatRequest, ChatResponse, EventSink, ProviderId};
use crate::sign_in::SignIn;
use crate::wire::{
    Arrived, Decode, Item, MAX_CALLS, Progress, calls, chat, messages, responses, sse,
};

/// The most of a refusal's body that is read, in bytes.
const MAX_REFUSAL: usize = 64 << 10;
/// How long a finished stream may take to end, so that its connection can be used again.
const DRAIN: Duration = Duration::from_millis(50);
/// How the Messages wire says that the provider would not go on with an answer.
const DECLINED_ANTHROPIC: &str = "refusal";
/// The same on the Chat Completions wire.
const DECLINED_CHAT: &str = "content_filter";
/// The code of an error that the provider never saw: the store of its key failed.
pub(crate) const KEY_UNAVAILABLE: &str = "key_unavailable";
/// How we introduce ourselves where a service asks who drives it.
const ORIGINATOR: &str = "fermix";

/// A provider over HTTP.
pub(crate) struct HttpAdapter {
    pub provider: ProviderId,
    pub base: Url,
    /// Whether `base` is the vendor's own address.
    pub own_address: bool,
    pub credentials: Credentials,
    pub fast: bool,
    pub patience: Patience,
    pub net: Net,
    pub catalog: Arc<Catalog>,
    pub clock: Arc<dyn Clock>,
    /// Knows the shapes of secrets a server may quote.
    pub redactor: Arc<Redactor>,
}

/// How a provider knows us.
pub(crate) enum Credentials {
    /// It does not ask.
    None,
    /// A key.
    Key(ApiKey),
    /// A key that a store keeps, read when a call needs it: a locked keyring may be unlocked by then.
    Stored(StoredSecret),
    /// A sign-in, read anew for each call because another process may have renewed it.
    SignIn(SignIn),
}

/// Which form a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Responses,
    Chat,
    Messages,
}

#[async_trait]
impl Adapter for HttpAdapter {
    async fn chat(
        &self,
        request: &ChatRequest,
        events: &mut dyn EventSink,
        cancel: &CancellationToken,
    ) -> Result<ChatResponse, ProviderError> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ProviderError::cancelled(self.provider, &request.model)),
            outcome = self.call(request, events) => outcome,
        }
    }
}

impl HttpAdapter {
    async fn call(
        &self,
        request: &ChatRequest,
        events: &mut dyn EventSink,
    ) -> Result<ChatResponse, ProviderError> {
        let secret = self.secret(&request.model).await?;
        let outcome = self.exchange(request, secret.as_ref(), events).await;
        outcome.map_err(|error| self.without_secret(error, secret.as_ref()))
    }

    async fn exchange(
        &self,
        request: &ChatRequest,
        secret: Option<&Secret>,
        events: &mut dyn EventSink,
    ) -> Result<ChatResponse, ProviderError> {
        let model = request.model.as_str();
        let facts = self.catalog.facts(self.provider, model);
        let effort = crate::effort::for_model(&facts, request.effort);
        let wire = self.wire(model);
        let (segments, body, decoder): (&[&str], Vec<u8>, Box<dyn Decode>) = match wire {
            Wire::Responses => {
                let dialect = responses::Dialect {
                    provider: self.provider,
                    fast: self.fast,
                };
                (
                    &["responses"],
                    responses::body(request, &facts, effort, dialect),
                    Box::<responses::Decoder>::default(),
                )
            }
            Wire::Chat => {
                let dialect = chat::Dialect {
                    provider: self.provider,
                    own_address: self.own_address,
                };
                (
                    &["chat", "completions"],
                    chat::body(request, &facts, effort, dialect),
                    Box::<chat::Decoder>::default(),
                )
            }
            Wire::Messages => (
                &["messages"],
                messages::body(request, &facts, effort),
                Box::<messages::Decoder>::default(),
            ),
        };
        let response = self
            .net
            .send(Request {
                method: http::Method::POST,
                url: self.address(segments),
                headers: self.headers(wire, secret, model)?,
                body: body.into(),
                timeouts: self.patience.timeouts(),
            })
            .await
            .map_err(|error| self.transport(error, model))?;
        if !(200..300).contains(&response.status) {
            return Err(self.refused(response, model).await);
        }
        let pace = Pace::new(self.patience.once_begun(effort));
        let (arrived, end) = self.read(response, decoder, pace, model, events).await;
        self.settle(wire, request, arrived, end)
    }

    /// Reads events until the stream ends in one way or another.
    async fn read(
        &self,
        response: Response,
        mut decoder: Box<dyn Decode>,
        pace: Pace,
        model: &str,
        events: &mut dyn EventSink,
    ) -> (Arrived, Result<End, ProviderError>) {
        let headers = response.headers.clone();
        let bytes = pace.kept(response.into_stream(sse::MAX_STREAM));
        let bytes = match sse::open(bytes, MAX_REFUSAL).await {
            sse::Opening::Events(bytes) => sse::capped(sse::legible(bytes)),
            sse::Opening::Document(document, broken) => {
                let error = from_document(&document, &headers, self.provider, model, &*self.clock);
                let error = error
                    .or_else(|| broken.map(|broken| self.transport(broken, model)))
                    .unwrap_or_else(|| {
                        let words = "the server sent a document instead of a stream of events";
                        self.malformed(words, model)
                    });
                return (decoder.finish(), Err(error));
            }
        };
        let mut stream = pin!(SseStream::from_bytes_stream(Box::pin(bytes)));
        let end = loop {
            let data = match stream.next().await {
                None => break Ok(End::Cut),
                Some(Ok(event)) => event.data.unwrap_or_default(),
                Some(Err(sse_stream::Error::Body(cause))) => match cause.downcast_ref::<NetError>()
                {
                    Some(NetError {
                        kind: NetErrorKind::Closed | NetErrorKind::Network,
                        ..
                    }) => break Ok(End::Cut),
                    Some(error) => break Err(self.transport(*error, model)),
                    None => break Err(self.malformed("the stream broke off", model)),
                },
                Some(Err(_)) => {
                    break Err(self.malformed("the answer is not a valid event stream", model));
                }
            };
            let progress = match data.trim() {
                "" => continue,
                "[DONE]" => decoder.done(events),
                text => match serde_json::from_str(text) {
                    // Says nothing, and in particular not that the answer is over.
                    Ok(Value::Null) => continue,
                    Ok(data) => match decoder.event(&data, events) {
                        Ok(progress) => progress,
                        Err(refusal) => break Err(declared(refusal, self.provider, model)),
                    },
                    Err(_) => {
                        break Err(
                            self.malformed("the answer holds an event that is not JSON", model)
                        );
                    }
                },
            };
            if progress == Progress::Complete {
                break Ok(End::Complete);
            }
            if decoder.has_begun() {
                pace.begin();
            }
        };
        if matches!(end, Ok(End::Complete)) {
            let rest = async { while let Some(Ok(_)) = stream.next().await {} };
            let _ = tokio::time::timeout(DRAIN, rest).await;
        }
        (decoder.finish(), end)
    }

    /// Decides what a stream that has ended amounts to. Silence is never an empty success;
    /// a message without words is one, and the reader is told so.
    fn settle(
        &self,
        wire: Wire,
        request: &ChatRequest,
        mut arrived: Arrived,
        end: Result<End, ProviderError>,
    ) -> Result<ChatResponse, ProviderError> {
        let model = request.model.as_str();
        let error = |kind, words: &str| {
            ProviderError::new(kind, self.provider, model, words).at(Stage::MidStream)
        };
        let failure = match end {
            Err(declared) => Some(declared),
            Ok(End::Complete) if !arrived.items.is_empty() => None,
            // Here the message itself came, with a regular end and nothing in it. On Responses that
            // is an item without text, and no item at all is a failure.
            Ok(_) if wire != Wire::Responses && is_empty_message(&arrived) => None,
            Ok(end)
                if end == End::Complete || (arrived.is_complete && arrived.items.is_empty()) =>
            {
                Some(match arrived.stop_reason.as_deref() {
                    Some(reason @ (DECLINED_ANTHROPIC | DECLINED_CHAT)) => error(
                        ErrorKind::Provider,
                        &format!("the provider declined to answer ({reason})"),
                    ),
                    Some("model_context_window_exceeded") => error(
                        ErrorKind::ContextLength,
                        "the conversation fills the model's window",
                    ),
                    _ => error(
                        ErrorKind::EmptyResponse,
                        "the provider finished without any output",
                    ),
                })
            }
            Ok(_) if arrived.is_complete => None,
            Ok(_) => {
                let has_content = arrived
                    .items
                    .iter()
                    .any(|item| !matches!(item, Item::Kept(_)));
                // Half an answer must not pass for a whole one, and half a call must not run.
                if arrived.has_unfinished || !has_content {
                    Some(error(
                        ErrorKind::TransportClosed,
                        "the stream was cut before the answer was complete",
                    ))
                } else {
                    tracing::warn!(provider = %self.provider, model, "stream ended without its last event; content kept");
                    None
                }
            }
        };
        let calls = calls::number_of_calls(&arrived.items);
        let failure = failure.or_else(|| {
            (calls > MAX_CALLS).then(|| {
                error(
                    ErrorKind::Provider,
                    &format!(
                        "the answer holds {calls} tool calls and {MAX_CALLS} are taken, so none of them ran"
                    ),
                )
            })
        });
        if let Some(mut error) = failure {
            error.details.partial_text = calls::message(&arrived.items).text;
            error
                .details
                .partial_text
                .push_str(&arrived.unfinished_text);
            return Err(error);
        }
        let items = calls::settle(std::mem::take(&mut arrived.items), &request.messages);
        let mut message = calls::message(&items);
        let replay = match wire {
            Wire::Responses => responses::replay(&items),
            Wire::Messages => messages::replay(&items),
            Wire::Chat => None,
        };
        message.replay = replay.map(|items| Replay {
            provider: self.provider.as_str().to_owned(),
            items,
        });
        Ok(ChatResponse {
            message,
            usage: arrived.usage,
            model: arrived.model.unwrap_or_else(|| request.model.clone()),
            truncated: arrived.truncated,
            declined: arrived
                .stop_reason
                .filter(|reason| matches!(reason.as_str(), DECLINED_ANTHROPIC | DECLINED_CHAT)),
        })
    }

    /// OpenAI serves its newer families on Responses; what stands at another address speaks the
    /// older wire.
    fn wire(&self, model: &str) -> Wire {
        match self.provider {
            ProviderId::OpenaiCodex | ProviderId::Xai => Wire::Responses,
            ProviderId::Anthropic => Wire::Messages,
            ProviderId::Openai if self.own_address => {
                let is_o = model
                    .strip_prefix('o')
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
                if is_o || model.starts_with("gpt-") {
                    Wire::Responses
                } else {
                    Wire::Chat
                }
            }
            ProviderId::Openai
            | ProviderId::Openrouter
            | ProviderId::Mistral
            | ProviderId::Ollama
            | ProviderId::OpenaiCompatible
            | ProviderId::Offline => Wire::Chat,
        }
    }

    fn address(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    async fn secret(&self, model: &str) -> Result<Option<Secret>, ProviderError> {
        match &self.credentials {
            Credentials::None => Ok(None),
            Credentials::Key(key) => Ok(Some(Secret {
                value: key.expose().into(),
                account: None,
            })),
            Credentials::Stored(stored) => match stored.value().await {
                Ok(value) => Ok(Some(Secret {
                    value,
                    account: None,
                })),
                Err(error) => Err(ProviderError {
                    stage: Stage::BeforeResponse,
                    code: Some(KEY_UNAVAILABLE.to_owned()),
                    ..ProviderError::new(ErrorKind::Auth, self.provider, model, error.to_string())
                }),
            },
            Credentials::SignIn(sign_in) => {
                let token =
                    sign_in
                        .token(self.clock.now())
                        .await
                        .map_err(|words| ProviderError {
                            signed_in: true,
                            stage: Stage::BeforeResponse,
                            ..ProviderError::new(ErrorKind::Auth, self.provider, model, words)
                        })?;
                Ok(Some(Secret {
                    value: token.access_token,
                    account: token.account_id,
                }))
            }
        }
    }

    fn headers(
        &self,
        wire: Wire,
        secret: Option<&Secret>,
        model: &str,
    ) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if wire == Wire::Messages {
            headers.insert(
                "anthropic-version",
                HeaderValue::from_static(messages::VERSION),
            );
        }
        match self.provider {
            ProviderId::Openrouter => {
                headers.insert("x-title", HeaderValue::from_static("Fermix"));
            }
            ProviderId::OpenaiCodex => {
                headers.insert("originator", HeaderValue::from_static(ORIGINATOR));
                headers.insert(
                    "openai-beta",
                    HeaderValue::from_static("responses=experimental"),
                );
            }
            _ => {}
        }
        let Some(secret) = secret else {
            return Ok(headers);
        };
        let (name, prefix) = match wire {
            Wire::Messages => (HeaderName::from_static("x-api-key"), ""),
            Wire::Responses | Wire::Chat => (AUTHORIZATION, "Bearer "),
        };
        headers.insert(
            name,
            self.sensitive(&format!("{prefix}{}", secret.value.expose_secret()), model)?,
        );
        if let Some(account) = &secret.account {
            headers.insert("chatgpt-account-id", self.sensitive(account, model)?);
        }
        Ok(headers)
    }

    fn sensitive(&self, value: &str, model: &str) -> Result<HeaderValue, ProviderError> {
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            let words =
                "the credentials hold characters that no header can carry; enter them again";
            ProviderError::new(ErrorKind::Auth, self.provider, model, words)
        })?;
        value.set_sensitive(true);
        Ok(value)
    }

    async fn refused(&self, response: Response, model: &str) -> ProviderError {
        let (status, headers) = (response.status, response.headers.clone());
        // A refusal whose body cannot be read is still that refusal.
        let body = response.bytes(MAX_REFUSAL).await.unwrap_or_default();
        from_status(status, &headers, &body, self.provider, model, &*self.clock)
    }

    fn transport(&self, error: NetError, model: &str) -> ProviderError {
        ProviderError::from_net(error, self.provider, model)
    }

    fn malformed(&self, words: &str, model: &str) -> ProviderError {
        ProviderError::new(ErrorKind::Transport, self.provider, model, words).at(Stage::MidStream)
    }

    /// Servers like to quote the key they refuse.
    fn without_secret(&self, mut error: ProviderError, secret: Option<&Secret>) -> ProviderError {
        error.signed_in = matches!(self.credentials, Credentials::SignIn(_));
        if let Some(secret) = secret {
            for value in [
                Some(secret.value.expose_secret()),
                secret.account.as_deref(),
            ]
            .into_iter()
            .flatten()
            {
                if !value.is_empty() {
                    error.message = error.message.replace(value, "[secret]");
                    error.code = error.code.map(|code| code.replace(value, "[secret]"));
                }
            }
        }
        error.message = self.redactor.redact(&error.message).into_owned();
        error
    }
}

struct Secret {
    value: SecretString,
    account: Option<String>,
}

/// Whether a provider ended its message as it ends every other and put nothing into it.
fn is_empty_message(arrived: &Arrived) -> bool {
    arrived.items.is_empty()
        && !arrived.has_unfinished
        && matches!(
            arrived.stop_reason.as_deref(),
            Some("stop" | "end_turn" | "stop_sequence")
        )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    Cut,
}

#[cfg(test)]
mod tests;
