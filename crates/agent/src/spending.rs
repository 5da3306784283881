//! Keeps the day's tokens within `[fermix_core.agent] daily_token_budget`.
//!
//! What earlier turns cost stands in the store; what running turns have cost so far is counted
//! here until their end is stored, so that many turns at once cannot pass the limit unseen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fermix_providers::ProviderId;
use fermix_store::ConversationLog;
use fermix_types::UnixMillis;

/// Why a provider is not asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// The limit is reached.
    #[error(
        "the daily token budget is used up: {spent} of {limit} tokens today (UTC); raise `[fermix_core.agent] \
         daily_token_budget` or wait for the next day"
    )]
    Spent {
        /// Tokens of today.
        spent: u64,
        /// The limit.
        limit: u64,
    },
    /// What was spent is not known, and an unknown sum is no permission.
    #[error(
        "the day's token count could not be read, so `[fermix_core.agent] daily_token_budget` allows no call: {0}"
    )]
    Unknown(String),
}

/// Whether a provider's tokens are nobody's bill: the embedded assistant's are an estimate.
pub(crate) fn costs_nothing(provider: ProviderId) -> bool {
    provider == ProviderId::Offline
}

/// The day's limit over all conversations.
pub(crate) struct Spending {
    limit: Option<u64>,
    log: Arc<dyn ConversationLog>,
    running: Arc<AtomicU64>,
}

impl Spending {
    pub(crate) fn new(limit: Option<u64>, log: Arc<dyn ConversationLog>) -> Self {
        Self {
            limit,
            log,
            running: Arc::default(),
        }
    }

    /// Begins counting one turn.
    pub(crate) fn turn(&self) -> TurnSpending {
        TurnSpending {
            running: Arc::clone(&self.running),
            tokens: AtomicU64::new(0),
        }
    }

    /// Whether one more provider call may be made.
    pub(crate) async fn permit(&self, now: UnixMillis) -> Result<(), OverBudget> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let totals = self
            .log
            .token_totals(now)
            .await
            .map_err(|error| OverBudget::Unknown(error.to_string()))?;
        let stored: u64 = totals
            .iter()
            .filter(|total| {
                // A provider that this Fermix does not know was paid as well.
                !total.provider.parse().is_ok_and(costs_nothing)
            })
            .map(|total| {
                total
                    .tokens
                    .prompt
                    .unwrap_or(0)
                    .saturating_add(total.tokens.completion.unwrap_or(0))
            })
            .fold(0, u64::saturating_add);
        let spent = stored.saturating_add(self.running.load(Ordering::SeqCst));
        if spent >= limit {
            return Err(OverBudget::Spent { spent, limit });
        }
        Ok(())
    }
}

/// What one turn has cost and the store does not know yet. Dropped when its end is stored.
pub(crate) struct TurnSpending {
    running: Arc<AtomicU64>,
    tokens: AtomicU64,
}

impl TurnSpending {
    pub(crate) fn add(&self, tokens: u64) {
        self.tokens.fetch_add(tokens, Ordering::SeqCst);
        self.running.fetch_add(tokens, Ordering::SeqCst);
    }
}

impl Drop for TurnSpending {
    fn drop(&mut self) {
        let tokens = self.tokens.load(Ordering::SeqCst);
        self.running.fetch_sub(tokens, Ordering::SeqCst);
    }
}
