//! The one trace row of a call, whatever became of it. Built here and nowhere else.

use std::time::Duration;

use fermix_types::{Enforcement, PolicyClass, TraceKind, TraceRow};
use serde_json::{Map, Value, json};

use crate::call::TurnScope;
use crate::capability::Capability;
use crate::gate::Gate;

/// How much of the arguments a row holds, in bytes.
pub(super) const MAX_PREVIEW_BYTES: usize = 2 * 1024;
/// How much of an error a row holds, in bytes.
const MAX_ERROR_BYTES: usize = 500;

/// What became of a call, in the words of the trace.
pub mod outcome {
    /// It ran and succeeded.
    pub const OK: &str = "ok";
    /// It ran and reported a failure.
    pub const ERROR: &str = "error";
    /// It ran into a fault of its own.
    pub const INTERNAL_ERROR: &str = "internal_error";
    /// It panicked.
    pub const PANICKED: &str = "panicked";
    /// It did not end before its deadline.
    pub const TIMED_OUT: &str = "timed_out";
    /// The turn was stopped.
    pub const CANCELLED: &str = "cancelled";
    /// No such tool for this caller.
    pub const NOT_FOUND: &str = "not_found";
    /// Outside the run's list of tools.
    pub const NOT_AVAILABLE: &str = "not_available";
    /// Its gate said no.
    pub const REFUSED: &str = "refused";
    /// The arguments are not one JSON object.
    pub const INVALID_JSON: &str = "invalid_json";
    /// The arguments do not fit the schema.
    pub const INVALID_ARGUMENTS: &str = "invalid_arguments";
    /// The guard failed, so nobody knows what it would have said.
    pub const GUARD_FAILED: &str = "guard_failed";
    /// A `tool_call` that names nothing callable.
    pub const MALFORMED_BRIDGE: &str = "malformed_bridge";
}

/// What a row says about one call.
pub(super) struct Record<'a> {
    pub(super) call_id: &'a str,
    pub(super) tool: &'a str,
    pub(super) capability: Option<&'a Capability>,
    pub(super) arguments: &'a str,
    pub(super) outcome: &'static str,
    /// The gate that refused.
    pub(super) gate: Option<Gate>,
    /// By whose leave it ran, or how a guard came to its refusal.
    pub(super) access: Option<&'static str>,
    pub(super) error: Option<&'a str>,
    /// The tag of the failure the tool itself reported.
    pub(super) failure: Option<&'static str>,
    pub(super) enforcement: Option<Enforcement>,
    pub(super) duration: Duration,
    /// What the turn had read from outside before the call.
    pub(super) outside: &'a [String],
}

impl Record<'_> {
    pub(super) fn into_row(self, turn: &TurnScope) -> TraceRow {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| {
            fields.insert(name.to_owned(), value);
        };
        put("tool", fermix_types::text::shortened(self.tool, 128).into());
        put(
            "call_id",
            fermix_types::text::shortened(self.call_id, 128).into(),
        );
        put("success", (self.outcome == outcome::OK).into());
        put("outcome", self.outcome.into());
        let millis = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX);
        put("duration_ms", millis.into());
        put("arguments", self.arguments.into());
        if let Some(gate) = self.gate {
            put("gate", gate.as_str().into());
        }
        if let Some(access) = self.access {
            put("access", access.into());
        }
        if let Some(error) = self.error {
            put(
                "error",
                fermix_types::text::shortened(error, MAX_ERROR_BYTES).into(),
            );
        }
        if let Some(failure) = self.failure {
            put("failure", failure.into());
        }
        if let Some(enforcement) = self.enforcement {
            put("enforcement", json!(enforcement));
        }
        let acts = self.capability.is_some_and(|capability| {
            matches!(
                capability.class(),
                PolicyClass::ReadWrite | PolicyClass::Exec
            )
        });
        if acts && !self.outside.is_empty() {
            put("outside_sources", json!(self.outside));
        }
        TraceRow::new(TraceKind::ToolExec, &turn.ids, Value::Object(fields))
            .with_content(&["arguments", "error"])
    }
}
