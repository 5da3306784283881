//! What answering cost, for the owner to look at.

use fermix_store::{ConversationLog as _, Conversations, LogError, UsageBy, UsageRow};
use fermix_types::UnixMillis;

use crate::engine::Engine;

/// The provider whose tokens are an estimate and nobody's bill.
const EMBEDDED: &str = "offline";

/// Today's tokens beside the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayBudget {
    /// Tokens of the present UTC day that count against the limit.
    pub spent: u64,
    /// `[fermix_core.agent] daily_token_budget`.
    pub limit: Option<u64>,
}

impl Engine {
    /// Tokens since a moment, and how the present day stands.
    pub async fn usage(
        &self,
        since: UnixMillis,
        by: UsageBy,
    ) -> Result<(Vec<UsageRow>, DayBudget), LogError> {
        let conversations = Conversations::new(self.store()?);
        let rows = conversations.usage(since, by).await?;
        let today = conversations.token_totals(self.now()).await?;
        let spent = today
            .iter()
            .filter(|total| total.provider != EMBEDDED)
            .map(|total| {
                let count = |count: Option<u64>| count.unwrap_or(0);
                count(total.tokens.prompt).saturating_add(count(total.tokens.completion))
            })
            .fold(0, u64::saturating_add);
        Ok((
            rows,
            DayBudget {
                spent,
                limit: self.daily_token_budget(),
            },
        ))
    }
}
