//! What a client asks.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One request. On the wire: `{"v": 1, "method": …, "params": {…}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Request {
    /// Version, process id, how long it has run.
    Status {},
    /// What runs and what waits, for the owner to look at.
    Overview {},
    /// Whether everything works, row by row.
    Health {},
    /// Every registered capability, unfiltered.
    Capabilities {
        /// `builtin`, `skill`, `mcp`, `plugin` or `all`; absent means all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
    },
    /// A message of the owner: words for the agent, or a slash command.
    AgentMessage {
        /// What is said.
        content: String,
        /// The conversation. Absent means `cli`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        /// How long the turn may take, in milliseconds. Absent means 120,000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// The folder the client is in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<PathBuf>,
        /// What is shown.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImagePart>,
        /// Whether to answer with events.
        #[serde(default)]
        stream: bool,
        /// Whether somebody is there to answer prompts: shows them as events of the stream.
        #[serde(default)]
        can_approve: bool,
    },
    /// The owner's answer to a prompt of a stream.
    Answer {
        /// The prompt's token.
        token: String,
        /// `once`, `always`, `read` or `deny`; absent is the plain `/confirm TOKEN`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choice: Option<String>,
        /// The conversation the prompt was shown in.
        session_id: String,
    },
    /// Looks at the sandbox or changes it. The parameters are the policy crate's.
    Policy {
        /// What to do; see `fermix_approvals`.
        operation: Value,
        /// Carry it out although it widens what tools reach: the client has asked the owner.
        #[serde(default)]
        confirmed: bool,
    },
    /// The newest changes that can be undone, or their undoing.
    Undo {
        /// Only list them.
        #[serde(default)]
        list: bool,
        /// Which change; absent means the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<i64>,
    },
    /// Reads config.toml and secrets again and puts them in force.
    Reload {},
    /// Stops turns: one conversation's, or all.
    StopWork {
        /// The conversation; absent means all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
    },
    /// Ends the daemon, gracefully.
    Shutdown {},
}

/// An image of a message. Its bytes either ride along or are read from a file by the daemon, which
/// runs as the same user; a frame has no room for large ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagePart {
    /// For example `image/png`.
    pub mime_type: String,
    /// Standard base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
    /// An absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// Why bytes are no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not JSON, no method, or parameters of another shape.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// A method this build does not have.
    #[error("unknown method: {0}")]
    UnknownMethod(String),
    /// A later version than this build speaks.
    #[error("this daemon speaks version {ours} and the request is version {0}; restart the daemon after an upgrade", ours = crate::VERSION)]
    Version(u64),
}

const METHODS: &[&str] = &[
    "status",
    "overview",
    "health",
    "capabilities",
    "agent_message",
    "answer",
    "policy",
    "undo",
    "reload",
    "stop_work",
    "shutdown",
];

impl Request {
    /// Reads a request; missing `params` are empty ones.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RequestError> {
        let invalid = |error: String| RequestError::Invalid(error);
        let mut value: Value =
            serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
        let Some(object) = value.as_object_mut() else {
            return Err(invalid("a request is an object".to_owned()));
        };
        match object.remove("v") {
            None => {}
            Some(Value::Number(version)) if version.as_u64() == Some(crate::VERSION.into()) => {}
            Some(Value::Number(version)) => {
                return Err(RequestError::Version(version.as_u64().unwrap_or(0)));
            }
            Some(_) => return Err(invalid("`v` is a number".to_owned())),
        }
        let Some(method) = object.get("method").and_then(Value::as_str) else {
            return Err(invalid("`method` is missing".to_owned()));
        };
        if !METHODS.contains(&method) {
            return Err(RequestError::UnknownMethod(
                method.chars().take(64).collect(),
            ));
        }
        if object.get("params").is_none_or(Value::is_null) {
            object.insert("params".to_owned(), Value::Object(serde_json::Map::new()));
        }
        serde_json::from_value(value).map_err(|error| invalid(error.to_string()))
    }

    /// The bytes of the request.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.insert("v".to_owned(), crate::VERSION.into());
        }
        value.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_wire_and_nonsense_is_named() {
        let request = Request::AgentMessage {
            content: "hello".into(),
            session_id: Some("s".into()),
            timeout_ms: None,
            cwd: Some("/tmp".into()),
            images: Vec::new(),
            stream: true,
            can_approve: true,
        };
        assert_eq!(Request::from_bytes(&request.to_bytes()), Ok(request));
        assert_eq!(
            Request::from_bytes(br#"{"method":"status"}"#),
            Ok(Request::Status {})
        );
        assert_eq!(
            Request::from_bytes(br#"{"method":"dance"}"#),
            Err(RequestError::UnknownMethod("dance".into()))
        );
        for nonsense in [
            &b"[]"[..],
            b"{",
            br#"{"method":1}"#,
            br#"{"method":"answer"}"#,
        ] {
            assert!(matches!(
                Request::from_bytes(nonsense),
                Err(RequestError::Invalid(_))
            ));
        }
        assert_eq!(
            Request::from_bytes(br#"{"v":9,"method":"status"}"#),
            Err(RequestError::Version(9))
        );
    }
}
