//! Why a turn ended without an answer, and what the person reads then.

#[cfg(test)]
mod tests;

use std::time::Duration;

use fermix_providers::ProviderError;
use fermix_store::{LogError, StoreError};
use fermix_types::Trust;

use crate::report::TurnStatus;
use crate::spending::OverBudget;

/// What is said when the model said nothing and did nothing that is a reply.
const NO_RESPONSE: &str = "No response came back. Please try again.";

/// The end of a turn that has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnFailure {
    /// Somebody stopped it; nothing is delivered.
    #[error("stopped")]
    Stopped,
    /// It took longer than it may.
    #[error("the turn took longer than {0:?}")]
    TimedOut(Duration),
    /// No provider answered.
    #[error(transparent)]
    Provider(Box<ProviderError>),
    /// What the turn has read does not fit the model's window, however much it was shortened.
    #[error("context_overflow_after_compaction: {0}")]
    Overflow(Box<ProviderError>),
    /// What the turn has read does not fit the model's window, and could not be shortened.
    #[error("context_recovery_failed: {0}")]
    RecoveryFailed(Box<ProviderError>),
    /// The day's tokens are used up.
    #[error(transparent)]
    Budget(OverBudget),
    /// The iteration cap was reached and the closing call failed.
    #[error("Maximum iterations ({0}) reached")]
    Cap(u32),
    /// The loop guard ended the turn and the closing call failed.
    #[error("{0}")]
    Loop(String),
    /// The model said nothing, and nothing was done that is a reply.
    #[error("the model answered with nothing")]
    Empty,
    /// Somebody else holds the database.
    #[error("the conversation could not be read or stored: {0}")]
    Locked(StoreError),
    /// The conversation could not be read or stored.
    #[error("the conversation could not be read or stored: {0}")]
    Store(String),
    /// The prompt could not be built in time.
    #[error("the prompt was not ready in time")]
    NotReady,
    /// A defect of ours.
    #[error("the turn crashed: {0}")]
    Crashed(String),
    /// The channel did not take the answer.
    #[error("{0}")]
    Undelivered(String),
}

impl TurnFailure {
    /// A failure of the conversation's log. What the turn asks of it is small, so work that did
    /// not end in time waited for the lock, too.
    pub(crate) fn of_log(error: LogError) -> Self {
        match error {
            LogError::Store(error @ (StoreError::Busy | StoreError::Deadline)) => {
                Self::Locked(error)
            }
            error => Self::Store(error.to_string()),
        }
    }

    /// What the person reads; `None` when nothing is said. A guest learns nothing of the owner's
    /// keys, models or limits.
    ///
    /// A conversation that was too long when the turn began is told to begin anew; a turn that
    /// outgrew the window by what it read would only do so again.
    pub(crate) fn sentence(&self, reader: Trust, is_job: bool) -> Option<String> {
        const APOLOGY: &str = "Sorry, something went wrong and this request was not finished. `fermix traces` has the details.";
        let sentence = match self {
            Self::Stopped | Self::Undelivered(_) => return None,
            Self::Empty => NO_RESPONSE.to_owned(),
            _ if reader == Trust::Guest => {
                "Sorry, I cannot answer this at the moment. Please try again later.".to_owned()
            }
            Self::TimedOut(limit) => format!(
                "This request took longer than {limit:?} and was stopped. Ask for a smaller part of it, or give it \
                 more time."
            ),
            Self::Provider(error) if is_job => error.job_sentence(),
            Self::Provider(error) => error.user_sentence(),
            Self::Overflow(_) | Self::RecoveryFailed(_) => {
                let why = match self {
                    Self::Overflow(_) => "even shortened, it does not fit the window of the model",
                    _ => "shortening it to the window of the model failed",
                };
                let fix = if is_job {
                    "Narrow the job, or split it into several"
                } else {
                    "Ask for a narrower slice of it, or split the request"
                };
                format!("This request read more than could be held at once: {why}. {fix}.")
            }
            Self::Budget(error) => format!("No answer: {error}."),
            Self::Cap(_) => format!("{self}. The step limit is reached; ask for a smaller part."),
            Self::Loop(reason) => {
                format!("{reason}. Nothing more was learned; ask in another way.")
            }
            Self::NotReady => "Fermix is restarting. Please send that again.".to_owned(),
            Self::Locked(_) => {
                "This request was not finished: another program holds memory.db; close it and try again.".to_owned()
            }
            Self::Store(_) | Self::Crashed(_) => APOLOGY.to_owned(),
        };
        Some(sentence)
    }

    /// How the turn's report calls it.
    pub(crate) fn status(&self) -> TurnStatus {
        match self {
            Self::Stopped => TurnStatus::Stopped,
            Self::TimedOut(_) => TurnStatus::TimedOut,
            Self::Crashed(_) => TurnStatus::Crashed,
            Self::Provider(_)
            | Self::Overflow(_)
            | Self::RecoveryFailed(_)
            | Self::Budget(_)
            | Self::Cap(_)
            | Self::Loop(_)
            | Self::Empty
            | Self::Locked(_)
            | Self::Store(_)
            | Self::NotReady
            | Self::Undelivered(_) => TurnStatus::Failed,
        }
    }

    /// The name used in traces.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::TimedOut(_) => "timeout",
            Self::Provider(error) => error.kind.as_str(),
            Self::Overflow(_) => "context_overflow_after_compaction",
            Self::RecoveryFailed(_) => "context_recovery_failed",
            Self::Budget(_) => "daily_token_budget",
            Self::Cap(_) => "iteration_cap",
            Self::Loop(_) => "loop_guard",
            Self::Empty => "empty_response",
            Self::Locked(_) => "store_locked",
            Self::Store(_) => "store",
            Self::NotReady => "not_ready",
            Self::Crashed(_) => "crashed",
            Self::Undelivered(_) => "undelivered",
        }
    }
}
