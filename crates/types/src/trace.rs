//! What happened, as rows for the owner to read. Lower crates record, the daemon writes.

use serde::Serialize;
use serde_json::{Map, Value};

/// Which file of a day a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceKind {
    /// One request to a provider.
    LlmCall,
    /// One tool call of a model, whatever became of it.
    ToolExec,
    /// Starts, ends and decisions of a run.
    AgentEvent,
    /// Messages in and out of a channel.
    ChannelMsg,
    /// Decisions of the sandbox.
    SandboxEvent,
}

impl TraceKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::LlmCall,
        Self::ToolExec,
        Self::AgentEvent,
        Self::ChannelMsg,
        Self::SandboxEvent,
    ];

    /// The file's name without its ending.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LlmCall => "llm_call",
            Self::ToolExec => "tool_exec",
            Self::AgentEvent => "agent_event",
            Self::ChannelMsg => "channel_msg",
            Self::SandboxEvent => "sandbox_event",
        }
    }
}

/// The ids that join the rows of one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TraceIds {
    /// The run.
    pub session_id: String,
    /// The run that started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// The turn within the run.
    pub turn_id: String,
}

/// One row. The sink adds the time and removes secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRow {
    /// Which file.
    pub kind: TraceKind,
    /// Which turn.
    pub ids: TraceIds,
    /// What happened, for example `tool_exec` fields or `{event: "failover", …}`.
    pub fields: Map<String, Value>,
    /// Field names whose values are content; left out or cut when content capture is off.
    pub content_fields: &'static [&'static str],
}

impl TraceRow {
    /// A row whose fields are the members of `fields`, which must be a JSON object.
    pub fn new(kind: TraceKind, ids: &TraceIds, fields: Value) -> Self {
        let Value::Object(fields) = fields else {
            unreachable!("trace fields are written as object literals")
        };
        Self {
            kind,
            ids: ids.clone(),
            fields,
            content_fields: &[],
        }
    }

    /// Names the fields that hold content.
    #[must_use]
    pub fn with_content(mut self, content_fields: &'static [&'static str]) -> Self {
        self.content_fields = content_fields;
        self
    }
}

/// Takes rows. Recording never fails and never blocks a turn.
pub trait TraceSink: Send + Sync {
    /// Takes one row.
    fn record(&self, row: TraceRow);
}

/// Keeps rows in memory, for tests.
#[derive(Debug, Default)]
pub struct MemorySink(std::sync::Mutex<Vec<TraceRow>>);

impl MemorySink {
    /// The rows so far.
    pub fn rows(&self) -> Vec<TraceRow> {
        self.0
            .lock()
            .expect("no holder of this lock panics")
            .clone()
    }
}

impl TraceSink for MemorySink {
    fn record(&self, row: TraceRow) {
        self.0
            .lock()
            .expect("no holder of this lock panics")
            .push(row);
    }
}
