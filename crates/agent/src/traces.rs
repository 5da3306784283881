//! The rows a turn leaves behind: its start, what it was offered, and one row about how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use fermix_capability::{Caller, View};
use fermix_providers::ProviderId;
use fermix_types::{ConversationKey, Origin, TraceIds, TraceKind, TraceRow, TraceSink};
use serde_json::json;

use crate::compaction::CompactOutcome;
use crate::report::TurnReport;
use crate::turn::TurnFailure;

/// The name in every row of a main turn.
const AGENT: &str = "main";

/// Writes the rows of one turn.
pub(crate) struct Traces<'a> {
    sink: &'a dyn TraceSink,
    ids: &'a TraceIds,
}

impl<'a> Traces<'a> {
    pub(crate) fn new(sink: &'a dyn TraceSink, ids: &'a TraceIds) -> Self {
        Self { sink, ids }
    }

    pub(crate) fn started(&self, key: &ConversationKey, caller: &Caller) {
        self.record(json!({
            "event": "turn_start",
            "agent": AGENT,
            "channel": key.channel,
            "conversation": key.to_string(),
            "trust": caller.trust().as_str(),
            "origin": caller.origin().map(Origin::as_str),
        }));
    }

    pub(crate) fn selected(&self, view: &View) {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
        let mut description_bytes = 0;
        for entry in view.advertised() {
            *kinds.entry(entry.kind().as_str()).or_default() += 1;
            *classes.entry(entry.class().as_str()).or_default() += 1;
            description_bytes += entry.description().len();
        }
        self.record(json!({
            "event": "capability_selection",
            "agent": AGENT,
            "count": view.advertised().len(),
            "deferred": view.deferred().len(),
            "description_bytes": description_bytes,
            "kinds": kinds,
            "classes": classes,
        }));
    }

    /// One result was shortened by a model, or was to be.
    pub(crate) fn digested(
        &self,
        tool: &str,
        call_id: &str,
        before: usize,
        after: usize,
        outcome: &str,
    ) {
        self.record(json!({
            "event": "context_digest",
            "agent": "context_digest",
            "tool": tool,
            "call_id": call_id,
            "bytes_before": before,
            "bytes_after": after,
            "outcome": outcome,
        }));
    }

    /// Results were left out because the conversation holds them elsewhere.
    pub(crate) fn reduced(&self, duplicates: usize, superseded: usize, bytes: usize) {
        self.record(json!({
            "event": "context_reduction",
            "agent": AGENT,
            "duplicates": duplicates,
            "superseded": superseded,
            "bytes_saved": bytes,
        }));
    }

    /// A call was refused for length.
    pub(crate) fn recovery(&self, round: usize, is_smaller: bool) {
        self.record(json!({
            "event": "context_recovery",
            "agent": AGENT,
            "round": round,
            "reissued": is_smaller,
        }));
    }

    /// A conversation's older part was summarised, or was to be.
    pub(crate) fn compacted(
        &self,
        key: &ConversationKey,
        trigger: &str,
        outcome: &CompactOutcome,
        answered_by: Option<&(ProviderId, String)>,
        elapsed: Duration,
    ) {
        let mut row = json!(outcome);
        row["event"] = "compaction".into();
        row["agent"] = "compaction".into();
        row["conversation"] = key.to_string().into();
        row["trigger"] = trigger.into();
        row["provider"] = json!(answered_by.map(|(provider, _)| provider.as_str()));
        row["model"] = json!(answered_by.map(|(_, model)| model));
        row["duration_ms"] = u64::try_from(elapsed.as_millis())
            .unwrap_or(u64::MAX)
            .into();
        self.record(row);
    }

    pub(crate) fn ended(
        &self,
        report: &TurnReport,
        fell_back: bool,
        failure: Option<&TurnFailure>,
        elapsed: Duration,
    ) {
        let tokens = &report.tokens;
        let mut row = json!({
            "event": if failure.is_some() { "turn_error" } else { "turn_complete" },
            "agent": AGENT,
            "status": report.status,
            "provider": report.provider,
            "model": report.model,
            "iterations": report.iterations,
            "prompt_tokens": tokens.prompt,
            "completion_tokens": tokens.completion,
            "total_tokens": tokens.total,
            "context_tokens": tokens.context,
            "cached_input_tokens": tokens.cached,
            "cache_creation_input_tokens": tokens.cache_creation,
            "tool_calls": report.tool_calls,
            "tool_failures": report.tool_failures,
            "fallback": fell_back,
            "duration_ms": u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        });
        if let Some(failure) = failure {
            row["error_kind"] = failure.kind().into();
            row["error"] = failure.to_string().into();
        }
        self.record(row);
    }

    fn record(&self, fields: serde_json::Value) {
        self.sink
            .record(TraceRow::new(TraceKind::AgentEvent, self.ids, fields));
    }
}
