//! What the daemon answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The one answer to a request that asks for no stream: `{"status": "ok", …}` or
/// `{"status": "error", "reason": …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Reply {
    /// It was done; what comes with it depends on the method.
    Ok(Map<String, Value>),
    /// It was not.
    Error {
        /// A name for programs, then words for people.
        reason: String,
        /// More, depending on the method.
        #[serde(flatten)]
        more: Map<String, Value>,
    },
    /// The answer to `shutdown`.
    ShuttingDown {},
}

/// What `status` brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The running program's version.
    pub version: String,
    /// How long it has run.
    pub uptime_ms: u64,
    /// Its process id.
    pub pid: u32,
}

/// How one thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowStatus {
    /// It works.
    Ok,
    /// It works, and something about it should be known.
    Warn,
    /// It does not work.
    Fail,
}

/// One row of `health` and of `fermix doctor`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HealthRow {
    /// The thing.
    pub name: String,
    /// How it is.
    pub status: RowStatus,
    /// One sentence, with the fix when there is one.
    pub detail: String,
    /// Facts for programs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub facts: Map<String, Value>,
}

/// What `health` brings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Every row.
    pub rows: Vec<HealthRow>,
}

/// One frame of a streamed answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Text of the answer as it is written. A preview: `done` has the authoritative text.
    Delta {
        /// The text.
        text: String,
    },
    /// The text of this call of the model is complete; what follows is a new one.
    TextDone {},
    /// A tool began or ended.
    Tool {
        /// Joins both.
        call_id: String,
        /// The tool.
        name: String,
        /// Which of the two.
        phase: ToolPhase,
    },
    /// The owner is asked something. Answered by a request `answer` on another connection.
    Approval {
        /// Names the prompt in the answer.
        token: String,
        /// What it is about.
        title: String,
        /// The exact thing.
        body: String,
        /// The answers that make sense.
        choices: Vec<String>,
        /// When the answer is "no" by itself.
        expires_in_ms: u64,
    },
    /// Something to be told beside the answer.
    Notice {
        /// One line.
        text: String,
    },
    /// The end.
    Done(Box<Done>),
}

/// Where a tool call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPhase {
    /// It runs.
    Started,
    /// It ended well.
    Succeeded,
    /// It ended with an error.
    Failed,
}

/// The end of a message: the answer, or why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// `ok` or `error`.
    pub status: String,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// One line about how the answer came about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The conversation.
    pub session_id: String,
    /// The turn's report: ids, tokens, counts. Empty for a slash command.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub report: Map<String, Value>,
}

impl Reply {
    /// A success with the members of `value`, which is an object.
    pub fn ok(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(Value::Object(members)) => Self::Ok(members),
            Ok(Value::Null) => Self::Ok(Map::new()),
            Ok(other) => Self::Ok(Map::from_iter([("value".to_owned(), other)])),
            Err(error) => Self::error(format!("the answer cannot be written: {error}")),
        }
    }

    /// A failure.
    pub fn error(reason: impl Into<String>) -> Self {
        Self::Error {
            reason: reason.into(),
            more: Map::new(),
        }
    }

    /// The bytes of the answer.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self)
            .unwrap_or_else(|_| br#"{"status":"error","reason":"internal"}"#.to_vec())
    }
}

impl Event {
    /// The bytes of the event.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_and_events_have_their_documented_form() {
        let status = Status {
            version: "1.2.3".into(),
            uptime_ms: 5,
            pid: 7,
        };
        let bytes = Reply::ok(&status).to_bytes();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            r#"{"status":"ok","version":"1.2.3","uptime_ms":5,"pid":7}"#
        );
        let error = Reply::error("unknown method");
        let read: Reply = serde_json::from_slice(&error.to_bytes()).unwrap();
        assert_eq!(read, error);
        let delta = Event::Delta { text: "a".into() };
        assert_eq!(
            String::from_utf8(delta.to_bytes()).unwrap(),
            r#"{"event":"delta","text":"a"}"#
        );
    }
}
