//! What is asked of the agent, and what comes back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fermix_capability::{ApprovalPort, Caller};
use fermix_types::{ConversationKey, Image};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::turn::TurnTokens;

/// The longest message, in bytes.
pub const MAX_MESSAGE: usize = 256 * 1024;
/// The most images of one message.
pub const MAX_IMAGES: usize = 10;
/// The most bytes of one message's images together.
pub const MAX_IMAGE_BYTES: usize = 20 * 1024 * 1024;

/// A message that starts a turn. The ingress fills it in; trust is in the caller.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// Whose queue, history and memory.
    pub conversation: ConversationKey,
    /// On whose behalf.
    pub caller: Arc<Caller>,
    /// The sender as the platform authenticated them, stamped by the ingress. Only messages of one
    /// sender become one turn; of a guest whose id is not known, none do.
    pub sender: Option<String>,
    /// What was said; may be blank when there is an image.
    pub text: String,
    /// What was shown.
    pub images: Vec<Image>,
    /// The folder a trusted local request came from.
    pub cwd: Option<PathBuf>,
    /// Where relative paths of its tool calls start, for the owner's prompt.
    pub working_folder: Option<PathBuf>,
    /// Environment of a trusted local session.
    pub session_env: Arc<[(String, String)]>,
    /// How the owner is asked during the turn; absent means that nobody can be.
    pub approval: Option<Arc<dyn ApprovalPort>>,
    /// The platform's id of the message; the same id starts no second turn.
    pub platform_message_id: Option<String>,
    /// Whether the message has a turn of its own: who waits for this very answer must not get that
    /// of another message with it, nor lose it when another one is stopped.
    pub is_alone: bool,
    /// How long the turn may take; `None` = until it ends or is stopped.
    pub timeout: Option<Duration>,
}

impl TurnRequest {
    /// A text message without anything special.
    pub fn text(
        conversation: ConversationKey,
        caller: Arc<Caller>,
        text: impl Into<String>,
    ) -> Self {
        Self {
            conversation,
            caller,
            sender: None,
            text: text.into(),
            images: Vec::new(),
            cwd: None,
            working_folder: None,
            session_env: Arc::default(),
            approval: None,
            platform_message_id: None,
            is_alone: false,
            timeout: None,
        }
    }
}

/// A message that was taken.
#[derive(Debug)]
pub struct Submitted {
    /// The turn that answers it. Messages that were merged share one.
    pub turn_id: String,
    /// Resolves when the turn ended; fails only when a shutdown ended it by force.
    pub done: oneshot::Receiver<TurnReport>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// Its answer was delivered and stored.
    Completed,
    /// Somebody stopped it; nothing was delivered.
    Stopped,
    /// It has no answer; `response` says why.
    Failed,
    /// It took longer than it may.
    TimedOut,
    /// A defect of ours.
    Crashed,
    /// It never began: too much waits, it is empty or too large, or Fermix is shutting down.
    Refused,
    /// The platform had delivered the same message before.
    Duplicate,
}

/// What a turn came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TurnReport {
    /// The answer, or the sentence that was delivered in its place; blank when nothing was said.
    pub response: String,
    /// One line about how the answer came about, when there is something to say.
    pub note: Option<String>,
    /// Joins the trace rows; blank when the turn never began.
    pub session_id: String,
    /// The turn.
    pub turn_id: String,
    /// Provider calls.
    pub iterations: u32,
    /// What it used.
    pub tokens: TurnTokens,
    /// Tool calls, those included that were answered without running.
    pub tool_calls: u32,
    /// Tool calls whose answer was an error.
    pub tool_failures: u32,
    /// Who answered.
    pub provider: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// How it ended.
    pub status: TurnStatus,
}

impl TurnReport {
    /// The report of a turn that never began.
    pub(crate) fn unstarted(turn_id: &str, status: TurnStatus, response: String) -> Self {
        Self {
            response,
            note: None,
            session_id: String::new(),
            turn_id: turn_id.to_owned(),
            iterations: 0,
            tokens: TurnTokens::default(),
            tool_calls: 0,
            tool_failures: 0,
            provider: None,
            model: None,
            status,
        }
    }
}
