//! What a tool gives back. A failing tool is an answer to the model, not the end of the turn.

use serde::Serialize;

use crate::message::Image;

/// A tool's answer: output, or an error with words for the model.
pub type ToolResult = Result<ToolOutput, ToolError>;

/// A successful answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// Text for the model; structured output is one JSON value as text.
    pub text: String,
    /// Images for the model.
    pub images: Vec<Image>,
    /// Remarks shown after the text (clamped limits, cut output), so that the text stays parseable.
    pub notes: Vec<String>,
}

impl ToolOutput {
    /// Structured output: `value` as one JSON value.
    pub fn json(value: &impl Serialize) -> Self {
        Self::from(
            serde_json::to_string(value).expect("tool outputs are plain data with string keys"),
        )
    }

    /// Adds a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

/// A failed answer. `message` is what the model reads after `Error: `.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// A stable tag from the tool's documented failure modes, for example `not_found`.
    pub tag: &'static str,
    /// Names the thing and the fix.
    pub message: String,
    /// Remarks shown after the message.
    pub notes: Vec<String>,
    /// Present only when it is proven that nothing ran.
    pub enforcement: Option<Enforcement>,
}

impl ToolError {
    /// An error with a documented tag.
    pub fn new(tag: &'static str, message: impl Into<String>) -> Self {
        Self {
            tag,
            message: message.into(),
            notes: Vec::new(),
            enforcement: None,
        }
    }

    /// Marks the error as a policy decision taken before anything ran.
    #[must_use]
    pub fn denied(mut self, decision: EnforcementDecision) -> Self {
        self.enforcement = Some(Enforcement {
            source: "sandbox",
            decision,
            phase: "pre_execution",
        });
        self
    }

    /// Adds a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// Why a call was stopped before it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Enforcement {
    /// Which part of Fermix decided.
    pub source: &'static str,
    /// What it decided.
    pub decision: EnforcementDecision,
    /// When, always before execution.
    pub phase: &'static str,
}

/// Kinds of a pre-execution refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementDecision {
    /// Policy said no.
    Deny,
    /// The command matched the accident guard.
    Hardline,
}
