//! Names and keys that are checked once and then trusted.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest tool name the providers' wires accept, in characters.
pub const MAX_TOOL_NAME: usize = 64;

/// A capability's name: `^[A-Za-z][A-Za-z0-9_-]{0,63}$`, which every provider's wire accepts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ToolName(Arc<str>);

/// A name no provider would accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid capability name `{0}`: a name starts with an ASCII letter, goes on with ASCII letters, digits, `_` or `-`, and has at most 64 characters"
)]
pub struct InvalidToolName(pub String);

impl ToolName {
    /// Checks `name`.
    pub fn new(name: &str) -> Result<Self, InvalidToolName> {
        let mut bytes = name.bytes();
        let starts_well = bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic());
        let goes_on_well =
            bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if starts_well && goes_on_well && name.len() <= MAX_TOOL_NAME {
            Ok(Self(name.into()))
        } else {
            Err(InvalidToolName(name.to_owned()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// One conversation: (channel, chat id, thread). Scopes the queue, the history and the memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConversationKey {
    /// The channel's name, `cli` for the command line, `scheduled_job` for jobs.
    pub channel: String,
    /// The platform's chat id as text.
    pub chat_id: String,
    /// The platform's thread id as text, `root` for the main thread.
    pub thread: String,
}

impl ConversationKey {
    /// A key in the main thread of a chat.
    pub fn root(channel: impl Into<String>, chat_id: impl Into<String>) -> Self {
        Self {
            channel: channel.into(),
            chat_id: chat_id.into(),
            thread: "root".into(),
        }
    }

    /// A key in a thread. Platforms send thread ids as numbers and as text; both give one key.
    pub fn in_thread(
        channel: impl Into<String>,
        chat_id: impl Into<String>,
        thread: &serde_json::Value,
    ) -> Self {
        let thread = match thread {
            serde_json::Value::String(text) if !text.is_empty() => text.clone(),
            serde_json::Value::Number(number) => number.to_string(),
            _ => "root".to_owned(),
        };
        Self {
            channel: channel.into(),
            chat_id: chat_id.into(),
            thread,
        }
    }
}

impl fmt::Display for ConversationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.channel, self.chat_id, self.thread)
    }
}
