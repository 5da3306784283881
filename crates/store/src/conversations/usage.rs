//! What answering cost, over a span of time.

use fermix_types::UnixMillis;
use rusqlite::{Connection, Row, params};
use serde::Serialize;

use super::{Conversations, LogError, TokenCounts};

/// What one row of a [`Conversations::usage`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBy {
    /// One model on one UTC day.
    Day,
    /// One model.
    Model,
    /// One model in one conversation.
    Conversation,
}

/// Tokens of a group of turns. A count that no turn reported is absent, not zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageRow {
    /// The UTC day (`2026-01-31`) or the conversation; absent when grouped by model alone.
    pub group: Option<String>,
    /// The provider.
    pub provider: String,
    /// The model, when it was known.
    pub model: Option<String>,
    /// Turns that it ended.
    pub turns: u64,
    /// Sent to the model, cached ones included.
    pub prompt: Option<u64>,
    /// Written by the model.
    pub completion: Option<u64>,
    /// Of the prompt, those read from the provider's cache.
    pub cached: Option<u64>,
    /// Of the prompt, those written to the provider's cache.
    pub cache_creation: Option<u64>,
}

impl Conversations {
    /// Tokens of the turns that ended at `since` or later, oldest group first.
    pub async fn usage(&self, since: UnixMillis, by: UsageBy) -> Result<Vec<UsageRow>, LogError> {
        self.store
            .read(move |connection| Ok(rows(connection, since, by)?))
            .await
    }
}

/// Reads four columns of counts, the first of which is `first`.
pub(super) fn counts(row: &Row<'_>, first: usize) -> rusqlite::Result<TokenCounts> {
    let count = |column| -> rusqlite::Result<Option<u64>> {
        // `total` is exact up to 2^53 and cannot overflow, which a sum of hostile counts could.
        Ok(row.get::<_, Option<f64>>(column)?.map(|sum| sum as u64))
    };
    Ok(TokenCounts {
        prompt: count(first)?,
        completion: count(first + 1)?,
        cached: count(first + 2)?,
        cache_creation: count(first + 3)?,
    })
}

fn rows(
    connection: &Connection,
    since: UnixMillis,
    by: UsageBy,
) -> rusqlite::Result<Vec<UsageRow>> {
    let group = match by {
        UsageBy::Day => "date(m.created_at / 1000, 'unixepoch')",
        UsageBy::Model => "NULL",
        UsageBy::Conversation => "c.channel || ':' || c.chat_id || ':' || c.thread",
    };
    connection
        .prepare(&format!(
            "SELECT {group} AS part, m.provider, m.model, count(*),
                    iif(count(m.prompt_tokens) > 0, total(m.prompt_tokens), NULL),
                    iif(count(m.completion_tokens) > 0, total(m.completion_tokens), NULL),
                    iif(count(m.cached_tokens) > 0, total(m.cached_tokens), NULL),
                    iif(count(m.cache_creation_tokens) > 0, total(m.cache_creation_tokens), NULL)
             FROM message m JOIN conversation c ON c.id = m.conversation_id
             WHERE m.provider IS NOT NULL AND m.created_at >= ?1
             GROUP BY part, m.provider, m.model ORDER BY part, m.provider, m.model"
        ))?
        .query_map(params![since.0], |row| {
            let tokens = counts(row, 4)?;
            Ok(UsageRow {
                group: row.get(0)?,
                provider: row.get(1)?,
                model: row.get(2)?,
                turns: row.get::<_, i64>(3)?.unsigned_abs(),
                prompt: tokens.prompt,
                completion: tokens.completion,
                cached: tokens.cached,
                cache_creation: tokens.cache_creation,
            })
        })?
        .collect()
}
