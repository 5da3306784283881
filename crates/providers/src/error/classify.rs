//! From a server's refusal to a kind.
//!
//! A refusal is read once, into the few facts that matter, and the body is dropped: it may quote
//! the request, and the request may hold secrets.

use std::time::Duration;

use fermix_net::Stage;
use fermix_types::{Clock, text};
use http::HeaderMap;
use serde_json::Value;

use super::{Details, ErrorKind, MAX_SERVER_WORDS, ProviderError};
use crate::request::ProviderId;

/// A failure in the server's own words, whether it came as a status or inside a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Refusal {
    pub status: Option<u16>,
    pub code: Option<String>,
    pub words: Option<String>,
    pub resets_in: Option<Duration>,
    pub plan: Option<String>,
}

impl Refusal {
    /// Reads the error object of any of the wires, or a top-level `detail`.
    pub(crate) fn from_value(body: &Value, now_seconds: i64) -> Self {
        let error = match &body["error"] {
            object @ Value::Object(_) => object,
            _ => body,
        };
        let words = [
            &error["message"],
            &body["error"],
            &body["message"],
            &body["detail"],
            &body["detail"][0]["msg"],
        ]
        .into_iter()
        .find_map(Value::as_str)
        .map(tidy);
        let code = [&error["code"], &error["type"]]
            .into_iter()
            .find_map(|code| match code {
                Value::String(text) if !text.is_empty() => Some(text::prefix(text, 64).to_owned()),
                _ => None,
            });
        // Routers put the upstream's status where others put a code.
        let status = error["code"]
            .as_u64()
            .and_then(|code| u16::try_from(code).ok());
        let seconds = error["resets_in_seconds"].as_f64().or_else(|| {
            error["resets_at"]
                .as_i64()
                .map(|at| at.saturating_sub(now_seconds) as f64)
        });
        Self {
            status: status.filter(|status| (400..600).contains(status)),
            code,
            words,
            resets_in: seconds
                .filter(|left| *left >= 0.0)
                .and_then(|left| Duration::try_from_secs_f64(left).ok()),
            plan: error["plan_type"]
                .as_str()
                .map(|plan| text::prefix(plan, 40).to_owned()),
        }
    }

    fn kind(&self) -> ErrorKind {
        let words = self
            .words
            .as_deref()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let code = self
            .code
            .as_deref()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let says = |needle: &str| words.contains(needle) || code.contains(needle);
        let says_any = |needles: &[&str]| needles.iter().any(|needle| says(needle));
        match self.status {
            Some(401 | 403) => return ErrorKind::Auth,
            Some(402) => return ErrorKind::Quota,
            Some(408) => return ErrorKind::Timeout,
            // A body over the server's limit is not a conversation over the model's.
            Some(413) => return ErrorKind::Provider,
            _ => {}
        }
        if self.status != Some(429) {
            // Asked before the status: local servers answer 500 to both.
            if says_any(TOO_LONG) {
                return ErrorKind::ContextLength;
            }
            if says_any(&["image", "vision", "multimodal"]) && says_any(UNABLE) {
                return ErrorKind::ImageUnsupported;
            }
        }
        if self.status.is_some_and(|status| status >= 500) {
            return ErrorKind::ProviderUnavailable;
        }
        if says_any(&["quota", "insufficient_funds", "credit balance is too low"]) {
            return ErrorKind::Quota;
        }
        if self.status == Some(429) || says_any(&["rate_limit", "rate limit", "usage_limit"]) {
            return ErrorKind::RateLimit;
        }
        if says_any(&["overload", "server_error", "unavailable"]) || code == "api_error" {
            return ErrorKind::ProviderUnavailable;
        }
        const BAD_KEY: &[&str] = &[
            "authentication_error",
            "invalid_api_key",
            "permission_error",
            "incorrect api key",
        ];
        if says_any(BAD_KEY) {
            ErrorKind::Auth
        } else {
            ErrorKind::Provider
        }
    }
}

/// How servers say that a conversation does not fit.
const TOO_LONG: &[&str] = &[
    "context_length",
    "context length",
    "context window",
    "context size",
    "context limit",
    "maximum prompt length",
    "prompt is too long",
    "input is too long",
];

/// How servers say that they cannot do something.
const UNABLE: &[&str] = &[
    "not support",
    "unsupported",
    "does not accept",
    "doesn't accept",
    "cannot read",
    "missing data required",
    "no endpoints found",
];

/// The error for an answer whose status is not a success.
pub(crate) fn from_status(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    provider: ProviderId,
    model: &str,
    clock: &dyn Clock,
) -> ProviderError {
    let now = clock.now().as_seconds();
    let mut refusal = serde_json::from_slice::<Value>(body)
        .map(|body| Refusal::from_value(&body, now))
        .unwrap_or_default();
    refusal.status = Some(status);
    let words = refusal.words.take();
    refusal.words = words.or_else(|| {
        Some(format!(
            "the server answered with status {status} and no explanation"
        ))
    });
    let mut error = instead_of_answer(refusal, headers, provider, model, now);
    if provider == ProviderId::Ollama && status == 404 {
        error.message = format!("the model is not pulled; run `ollama pull {model}`");
    }
    error
}

/// The error for a success whose body is one JSON document instead of events, when the document
/// says what is wrong.
pub(crate) fn from_document(
    document: &[u8],
    headers: &HeaderMap,
    provider: ProviderId,
    model: &str,
    clock: &dyn Clock,
) -> Option<ProviderError> {
    // Whatever follows the first value changes nothing about it.
    let mut values = serde_json::Deserializer::from_slice(document).into_iter::<Value>();
    let document = values.next()?.ok()?;
    // Some gateways wrap the one failure in a list.
    let body = if document.is_array() {
        &document[0]
    } else {
        &document
    };
    let now = clock.now().as_seconds();
    let refusal = Refusal::from_value(body, now);
    let says_why = refusal.words.is_some() || body["error"].is_object();
    says_why.then(|| instead_of_answer(refusal, headers, provider, model, now))
}

/// The head of a response had arrived, but nothing of an answer: asking again repeats no work.
fn instead_of_answer(
    refusal: Refusal,
    headers: &HeaderMap,
    provider: ProviderId,
    model: &str,
    now_seconds: i64,
) -> ProviderError {
    let mut error = declared(refusal, provider, model).at(Stage::BeforeResponse);
    error.retry_after = retry_after(headers, now_seconds);
    if matches!(error.kind, ErrorKind::RateLimit | ErrorKind::Quota) {
        // Many servers say it in the header only.
        let asked = error.retry_after.filter(|wait| !wait.is_zero());
        error.details.resets_in = error.details.resets_in.or(asked);
    }
    error
}

/// The error for a failure the provider declared inside a stream.
pub(crate) fn declared(refusal: Refusal, provider: ProviderId, model: &str) -> ProviderError {
    let kind = refusal.kind();
    let words = refusal
        .words
        .unwrap_or_else(|| "the provider reported a failure without a reason".to_owned());
    ProviderError {
        status: refusal.status,
        code: refusal.code,
        details: Box::new(Details {
            resets_in: refusal.resets_in,
            plan: refusal.plan,
            ..Details::default()
        }),
        stage: Stage::MidStream,
        ..ProviderError::new(kind, provider, model, words)
    }
}

/// `Retry-After` in seconds or as a date (RFC 9110 §10.2.3), or the millisecond form some
/// vendors add.
fn retry_after(headers: &HeaderMap, now_seconds: i64) -> Option<Duration> {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };
    let seconds = |text: &str| {
        text.parse::<f64>()
            .ok()
            .and_then(|n| Duration::try_from_secs_f64(n).ok())
    };
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<u64>().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let value = text("retry-after")?;
    seconds(value).or_else(|| {
        let at = jiff::fmt::rfc2822::parse(value)
            .ok()?
            .timestamp()
            .as_second();
        u64::try_from(at.saturating_sub(now_seconds))
            .ok()
            .map(Duration::from_secs)
    })
}

/// A server's words as one bounded line.
fn tidy(words: &str) -> String {
    let line = words
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty());
    let mut line = line.collect::<Vec<_>>().join(" ");
    if line.len() > MAX_SERVER_WORDS {
        let cut = text::prefix(&line, MAX_SERVER_WORDS - '…'.len_utf8()).len();
        line.truncate(cut);
        line.push('…');
    }
    line
}
