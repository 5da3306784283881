//! Asking the owner, and hearing the answer from the right place.
//!
//! A prompt is shown through the [`ApprovalPort`] of the turn's channel. The answer comes back as a
//! message of its own (`/confirm TOKEN`, `/deny TOKEN`, a button, a frame on the daemon's socket) and
//! counts only from the origin that the prompt was shown to. The model never sees a token.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use fermix_types::ConversationKey;
use serde::{Deserialize, Serialize};

/// Who was asked, and where. An answer from anywhere else does not count and burns nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PromptOrigin {
    /// Channel, chat and thread.
    pub conversation: ConversationKey,
    /// The sender as the transport authenticated them.
    pub user: String,
}

/// An answer the owner may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// For this one time, or this conversation.
    Once,
    /// From now on, for exactly what is shown.
    Always,
    /// As `Always`, for reading only.
    Read,
    /// No.
    Deny,
}

impl Choice {
    /// The word after `/confirm TOKEN`, in frames and in traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Always => "always",
            Self::Read => "read",
            Self::Deny => "deny",
        }
    }
}

/// What the owner is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ApprovalPrompt {
    /// Answers name it. Not for the model, not for logs.
    pub token: String,
    /// What it is about, one line.
    pub title: String,
    /// The exact thing: a command with its folder, a path with the diff of the settings. Plain text,
    /// already safe to print.
    pub body: String,
    /// The answers that make sense, the plain `/confirm TOKEN` first.
    pub choices: Vec<Choice>,
    /// When the answer is "no" by itself.
    pub expires_in: Duration,
}

impl fmt::Debug for ApprovalPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalPrompt")
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

/// The way to the owner's eyes. A channel that can show prompts implements it; a turn without one
/// is unattended, and everything that would have to be asked is refused at once.
#[async_trait]
pub trait ApprovalPort: Send + Sync + fmt::Debug {
    /// Shows the prompt. The error says why nobody can have seen it.
    async fn show(&self, prompt: &ApprovalPrompt) -> Result<(), String>;

    /// Whether nobody but the owner reads and writes where prompts are shown. What is not known to be
    /// private is shared.
    fn is_private(&self) -> bool {
        false
    }
}
