//! What carries commands out. The composition root implements it.

use std::fmt;

use async_trait::async_trait;
use fermix_types::ConversationKey;

use super::{Asker, Command, Invocation};

/// Why a command was not carried out, in words for the person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotDone(
    /// Lower case, no full stop, with the fix.
    pub String,
);

/// What the person is told.
pub type Outcome = Result<String, NotDone>;

/// One conversation with something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Which one.
    pub conversation: ConversationKey,
    /// Whether a turn runs; one that is about to start does not yet.
    pub is_running: bool,
    /// Messages that wait.
    pub waiting: usize,
}

/// What a stop took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Turns that were running.
    pub turns: usize,
    /// Messages that waited.
    pub queued: usize,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.turns, self.queued) {
            (0, 0) => f.write_str("Nothing was running or waiting."),
            (turns, queued) => write!(
                f,
                "Stopped {} and {}.",
                count(turns, "turn"),
                count(queued, "queued message")
            ),
        }
    }
}

/// `2 turns`.
pub(super) fn count(number: usize, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}

/// Which change to take back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoRequest {
    /// The last.
    Last,
    /// This one.
    Change(i64),
    /// None: list them.
    List,
}

/// Carries commands out. Who may give them was decided before; nothing here waits in the queue of
/// a conversation.
#[async_trait]
pub trait CommandDesk: Send + Sync {
    /// Whether this Fermix has what the command needs. One that it has not is not listed, and is
    /// words for the agent like any other text.
    fn offers(&self, command: Command) -> bool;

    /// Begins a new session of the conversation.
    async fn new_session(&self, conversation: &ConversationKey) -> Outcome;

    /// Summarises the conversation.
    async fn compact(&self, conversation: &ConversationKey) -> Outcome;

    /// What runs and waits, of one conversation or of all.
    fn work(&self, only: Option<&ConversationKey>) -> Vec<Work>;

    /// Stops one conversation, or all. Returns at once.
    fn stop(&self, only: Option<&ConversationKey>) -> Stopped;

    /// Takes back a change, or lists the changes.
    async fn undo(&self, request: UndoRequest, asker: &Asker) -> Outcome;

    /// `/sandbox`, `/grant`, `/revoke`, `/confirm` and `/deny`, as they were written.
    async fn policy(&self, invocation: &Invocation, asker: &Asker) -> Outcome;
}
