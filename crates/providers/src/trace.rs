//! Rows about calls, for the owner to read.

use std::time::Duration;

use fermix_types::{TraceIds, TraceKind, TraceRow};
use serde_json::{Map, Value, json};

use crate::error::ProviderError;
use crate::providers::Route;
use crate::request::{ChatRequest, ChatResponse};

/// One request to a provider, whatever became of it.
pub(crate) fn llm_call(
    ids: &TraceIds,
    route: &Route,
    request: &ChatRequest,
    attempt: usize,
    duration: Duration,
    outcome: &Result<ChatResponse, ProviderError>,
) -> TraceRow {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            fields.insert(name.to_owned(), value);
        }
    };
    put("provider", route.provider.as_str().into());
    put("model", route.model.as_str().into());
    put(
        "status",
        if outcome.is_ok() { "ok" } else { "error" }.into(),
    );
    put("attempt", attempt.into());
    put(
        "duration_ms",
        u64::try_from(duration.as_millis())
            .unwrap_or(u64::MAX)
            .into(),
    );
    put(
        "effort",
        request.effort.map(|effort| effort.as_str()).into(),
    );
    match outcome {
        Ok(response) => {
            put("answered_by", response.model.as_str().into());
            if response.truncated {
                put("truncated", true.into());
            }
            put("declined", response.declined.as_deref().into());
            // No prompt is empty: a zero there means that nothing was reported.
            if response.usage.prompt_tokens > 0 {
                put("prompt_tokens", response.usage.prompt_tokens.into());
                put("completion_tokens", response.usage.completion_tokens.into());
                put("total_tokens", response.usage.total_tokens.into());
            }
            put(
                "cached_input_tokens",
                response.usage.cached_input_tokens.into(),
            );
            put(
                "cache_creation_input_tokens",
                response.usage.cache_creation_input_tokens.into(),
            );
        }
        Err(error) => {
            put("error_kind", error.kind.as_str().into());
            put("error_code", error.code.as_deref().into());
            put("error_status", error.status.into());
            put("error_stage", error.stage.as_str().into());
            put("error_message", error.message.as_str().into());
        }
    }
    // A server's words may quote the conversation.
    TraceRow::new(TraceKind::LlmCall, ids, Value::Object(fields)).with_content(&["error_message"])
}

/// A turn moved from one route to the next.
pub(crate) fn failover(
    ids: &TraceIds,
    from: &Route,
    to: &Route,
    error: &ProviderError,
) -> TraceRow {
    TraceRow::new(
        TraceKind::AgentEvent,
        ids,
        json!({
            "event": "failover",
            "from_provider": from.provider.as_str(), "from_model": from.model,
            "to_provider": to.provider.as_str(), "to_model": to.model,
            "error_kind": error.kind.as_str(),
        }),
    )
}

/// A route was passed over because it kept failing.
pub(crate) fn skipped(ids: &TraceIds, route: &Route) -> TraceRow {
    TraceRow::new(
        TraceKind::AgentEvent,
        ids,
        json!({"event": "route_skipped", "provider": route.provider.as_str(), "model": route.model}),
    )
}
