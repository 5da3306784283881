//! Why a provider gave no answer, split by what may be done about it.

mod classify;
mod sentence;

use std::time::Duration;

use fermix_net::{NetError, NetErrorKind, Stage};

use crate::request::ProviderId;

pub(crate) use classify::{Refusal, declared, from_document, from_status};

/// The most of a server's own words that are kept, in bytes.
pub const MAX_SERVER_WORDS: usize = 300;

/// The sorts of failure that are treated differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The credentials were refused, or there are none.
    Auth,
    /// The account has nothing left to spend.
    Quota,
    /// Too many requests for now.
    RateLimit,
    /// No answer in time.
    Timeout,
    /// The provider is overloaded or broken.
    ProviderUnavailable,
    /// The conversation is longer than the model's window.
    ContextLength,
    /// The request holds an image and the model takes none.
    ImageUnsupported,
    /// The provider said it was done and had produced nothing.
    EmptyResponse,
    /// Anything else the provider declared.
    Provider,
    /// The connection was closed before the answer was complete.
    TransportClosed,
    /// The provider could not be reached.
    Network,
    /// This machine could not open any connection.
    ConnectionUnavailable,
    /// Anything else below the provider's own words: TLS, bytes that are no stream, an answer
    /// over the size limit.
    Transport,
    /// The caller gave up.
    Cancelled,
}

impl ErrorKind {
    /// The name used in traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Quota => "quota",
            Self::RateLimit => "rate_limit",
            Self::Timeout => "timeout",
            Self::ProviderUnavailable => "provider_unavailable",
            Self::ContextLength => "context_length",
            Self::ImageUnsupported => "image_unsupported",
            Self::EmptyResponse => "empty_response",
            Self::Provider => "provider",
            Self::TransportClosed => "transport_closed",
            Self::Network => "network",
            Self::ConnectionUnavailable => "connection_unavailable",
            Self::Transport => "transport",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A call that gave no usable answer. It never holds a key, a header or a raw body.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{provider} ({model}): {message}")]
pub struct ProviderError {
    /// What may be done about it.
    pub kind: ErrorKind,
    /// Who was asked.
    pub provider: ProviderId,
    /// Which model was asked.
    pub model: String,
    /// The HTTP status, when there was one.
    pub status: Option<u16>,
    /// The provider's own code, for example `context_length_exceeded`.
    pub code: Option<String>,
    /// The server's words, at most [`MAX_SERVER_WORDS`] bytes with secrets removed, or ours.
    pub message: String,
    /// How far the exchange had come, as measured.
    pub stage: Stage,
    /// How long the server asked us to wait.
    pub retry_after: Option<Duration>,
    /// Whether the credentials were a sign-in rather than an API key.
    pub signed_in: bool,
    /// What only some failures have.
    pub details: Box<Details>,
}

/// What only some failures have. Apart, because every call returns room for an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// How long until a used-up allowance is filled again.
    pub resets_in: Option<Duration>,
    /// The plan the allowance belongs to.
    pub plan: Option<String>,
    /// Text that had arrived before the failure and that nobody may take for the whole answer.
    pub partial_text: String,
    /// One line for each route that was tried before, when there was more than one.
    pub tried: Vec<String>,
}

impl ProviderError {
    /// An error with nothing known but its kind and words.
    pub fn new(
        kind: ErrorKind,
        provider: ProviderId,
        model: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            provider,
            model: model.to_owned(),
            status: None,
            code: None,
            message: message.into(),
            stage: Stage::Unknown,
            retry_after: None,
            signed_in: false,
            details: Box::default(),
        }
    }

    /// The transport's error in this crate's kinds.
    pub(crate) fn from_net(error: NetError, provider: ProviderId, model: &str) -> Self {
        let kind = match error.kind {
            NetErrorKind::Timeout => ErrorKind::Timeout,
            NetErrorKind::Closed => ErrorKind::TransportClosed,
            NetErrorKind::Refused | NetErrorKind::Network => ErrorKind::Network,
            NetErrorKind::ConnectionUnavailable => ErrorKind::ConnectionUnavailable,
            NetErrorKind::TooLarge | NetErrorKind::InvalidUrl | NetErrorKind::Other => {
                ErrorKind::Transport
            }
        };
        Self {
            stage: error.stage,
            ..Self::new(kind, provider, model, error.kind.to_string())
        }
    }

    pub(crate) fn cancelled(provider: ProviderId, model: &str) -> Self {
        Self::new(
            ErrorKind::Cancelled,
            provider,
            model,
            "the call was cancelled",
        )
    }

    pub(crate) fn at(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }

    /// One line for the list of routes tried: provider, model, and what happened.
    pub fn summary(&self) -> String {
        let status = self
            .status
            .map(|status| format!(" {status}"))
            .unwrap_or_default();
        format!(
            "{} ({}): {}{status}: {}",
            self.provider,
            self.model,
            self.kind.as_str(),
            self.message
        )
    }
}
