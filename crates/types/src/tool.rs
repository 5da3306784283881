//! A tool as a provider is told about it.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::ids::ToolName;

/// A tool as a provider is told about it.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// The name.
    pub name: ToolName,
    /// What the model reads.
    pub description: Arc<str>,
    /// The JSON Schema text, computed once at registration and sent verbatim.
    pub parameters: Arc<RawValue>,
}
