//! What a capability says about itself beyond its schema.

use serde::Serialize;
use serde_json::{Map, Value};

/// A worked example for `tool_help`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    /// A complete argument object.
    pub args: Value,
    /// What the call does.
    pub note: String,
}

/// One documented way to fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureMode {
    /// The tag of the error.
    pub tag: String,
    /// What it means and what to do.
    pub description: String,
}

/// A capability's routing hints, documentation and origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metadata {
    /// One routing sentence for the prompt's catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_to_use: Option<String>,
    /// Worked examples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Example>,
    /// Documented failures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failure_modes: Vec<FailureMode>,
    /// Names the credential that is missing and its configuration path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_setup: Option<String>,
    /// Tags a family, so that it can be removed or replaced as one: `plugin_owned?`, `plugin`,
    /// `server`, `sandbox_command?`, …
    #[serde(flatten)]
    pub tags: Map<String, Value>,
}

impl Metadata {
    /// Whether every member of `wanted` stands among the tags with an equal value.
    pub fn matches(&self, wanted: &Map<String, Value>) -> bool {
        wanted
            .iter()
            .all(|(key, value)| self.tags.get(key) == Some(value))
    }

    /// A tag's text.
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.tags.get(key).and_then(Value::as_str)
    }

    /// Whether the access gate looks at every call. Any value but `false` says so: a tag that was
    /// misspelled must not open the gate.
    pub fn is_access_sensitive(&self) -> bool {
        self.tags
            .get("access_sensitive?")
            .is_some_and(|value| *value != Value::Bool(false))
    }

    /// Whether a plugin put the capability into the registry.
    pub fn is_plugin_owned(&self) -> bool {
        self.tags.get("plugin_owned?") == Some(&Value::Bool(true))
    }
}
