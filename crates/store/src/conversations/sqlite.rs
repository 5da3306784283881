//! Conversations in SQLite.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use fermix_types::{ConversationKey, UnixMillis, text};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::usage::counts;
use super::{
    ACCEPTED_FOR_MILLIS, ACCEPTED_IDS, Appended, ConversationLog, ConversationSummary,
    HistoryLimits, LogError, MAX_LISTED, MAX_PLATFORM_ID, MAX_TEXT, MAX_WORK_NOTE, MessageId,
    NewCheckpoint, NewUserMessage, Replay, ReplyContent, TokenTotals, TurnRecord,
    UNFINISHED_MARKER, history, is_blank,
};
use crate::error::StoreError;
use crate::store::Store;

/// The most conversations whose damage is reported.
const MAX_REPORTED: usize = 512;

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// The conversations of a [`Store`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Conversations {
    pub(super) store: Store,
    /// The conversations whose damage stands in the log.
    reported: Arc<Mutex<HashSet<ConversationKey>>>,
}

impl Conversations {
    /// The conversations in `store`.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            reported: Arc::default(),
        }
    }

    /// Whether damage of this conversation is news. Said once: it is found again on every turn.
    fn is_first_report(&self, key: &ConversationKey) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.len() < MAX_REPORTED && reported.insert(key.clone())
    }
}

impl From<rusqlite::Error> for LogError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(StoreError::from(error))
    }
}

#[async_trait]
impl ConversationLog for Conversations {
    async fn append_user(
        &self,
        key: &ConversationKey,
        message: NewUserMessage,
    ) -> Result<Appended, LogError> {
        check_text(&message.text)?;
        if let Some(id) = &message.platform_message_id
            && !(1..=MAX_PLATFORM_ID).contains(&id.len())
        {
            return Err(LogError::BadPlatformId { bytes: id.len() });
        }
        let key = key.clone();
        self.store
            .write(move |transaction| store_user(transaction, &key, &message))
            .await
    }

    async fn append_assistant(
        &self,
        key: &ConversationKey,
        request: MessageId,
        content: ReplyContent,
        record: TurnRecord,
    ) -> Result<MessageId, LogError> {
        let (role, text) = match content {
            ReplyContent::Text(text) => ("assistant", text),
            ReplyContent::Delivered(delivered) => ("marker", delivered.marker().to_owned()),
        };
        check_text(&text)?;
        let key = key.clone();
        self.store
            .write(move |transaction| {
                let target = find_request(transaction, &key, request)?;
                store_ending(transaction, &target, role, &text, &record)
            })
            .await
    }

    async fn append_unfinished_marker(
        &self,
        key: &ConversationKey,
        request: MessageId,
        record: TurnRecord,
    ) -> Result<Option<MessageId>, LogError> {
        let key = key.clone();
        self.store
            .write(move |transaction| {
                let target = find_request(transaction, &key, request)?;
                let last: Option<i64> = transaction
                    .prepare_cached(
                        "SELECT m.id FROM conversation c JOIN message m
                         ON m.conversation_id = c.id AND m.session = c.session
                         WHERE c.id = ?1 AND m.kind = 'message' ORDER BY m.id DESC LIMIT 1",
                    )?
                    .query_row([target.conversation], |row| row.get(0))
                    .optional()?;
                if last != Some(request.0) {
                    return Ok(None);
                }
                store_ending(transaction, &target, "marker", UNFINISHED_MARKER, &record).map(Some)
            })
            .await
    }

    async fn unanswered(&self) -> Result<Vec<(ConversationKey, MessageId)>, LogError> {
        self.store
            .read(move |connection| Ok(unanswered(connection)?))
            .await
    }

    async fn replay(
        &self,
        key: &ConversationKey,
        limits: HistoryLimits,
    ) -> Result<Replay, LogError> {
        let wanted = key.clone();
        let (replay, damaged) = self
            .store
            .read(move |connection| Ok::<_, LogError>(history::load(connection, &wanted, limits)?))
            .await?;
        if damaged > 0 && self.is_first_report(key) {
            tracing::warn!(
                conversation = %key,
                damaged,
                "stored messages are damaged; they were left out or mended"
            );
        }
        Ok(replay)
    }

    async fn append_checkpoint(
        &self,
        key: &ConversationKey,
        checkpoint: NewCheckpoint,
    ) -> Result<MessageId, LogError> {
        check_text(&checkpoint.text)?;
        let key = key.clone();
        self.store
            .write(move |transaction| store_checkpoint(transaction, &key, &checkpoint))
            .await
    }

    async fn reset(&self, key: &ConversationKey, at: UnixMillis) -> Result<bool, LogError> {
        let key = key.clone();
        self.store
            .write(move |transaction| {
                let changed = transaction
                    .prepare_cached(
                        "UPDATE conversation SET session = session + 1, updated_at = ?4
                         WHERE channel = ?1 AND chat_id = ?2 AND thread = ?3",
                    )?
                    .execute(params![key.channel, key.chat_id, key.thread, at.0])?;
                Ok(changed > 0)
            })
            .await
    }

    async fn list_conversations(&self, limit: usize) -> Result<Vec<ConversationSummary>, LogError> {
        let limit = to_sql(limit.min(MAX_LISTED));
        self.store
            .read(move |connection| Ok(list(connection, limit)?))
            .await
    }

    async fn token_totals(&self, day: UnixMillis) -> Result<Vec<TokenTotals>, LogError> {
        self.store
            .read(move |connection| Ok(totals(connection, day)?))
            .await
    }

    async fn next_session_number(&self) -> Result<u64, LogError> {
        self.store
            .write(|transaction| {
                let number: i64 = transaction
                    .prepare_cached(
                        "INSERT INTO counter (name, value) VALUES ('main_session', 1)
                         ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value",
                    )?
                    .query_row([], |row| row.get(0))?;
                Ok(number.unsigned_abs())
            })
            .await
    }
}

fn check_text(text: &str) -> Result<(), LogError> {
    if is_blank(text) {
        return Err(LogError::Blank);
    }
    if text.len() > MAX_TEXT {
        return Err(LogError::TooLong { bytes: text.len() });
    }
    Ok(())
}

fn store_user(
    transaction: &Transaction<'_>,
    key: &ConversationKey,
    message: &NewUserMessage,
) -> Result<Appended, LogError> {
    if let Some(platform_id) = &message.platform_message_id {
        transaction
            .prepare_cached("DELETE FROM accepted_id WHERE channel = ?1 AND accepted_at <= ?2")?
            .execute(params![
                key.channel,
                message.at.0.saturating_sub(ACCEPTED_FOR_MILLIS)
            ])?;
        let known: Option<i64> = transaction
            .prepare_cached(
                "SELECT message_id FROM accepted_id WHERE channel = ?1 AND platform_id = ?2",
            )?
            .query_row(params![key.channel, platform_id], |row| row.get(0))
            .optional()?;
        if let Some(known) = known {
            return Ok(Appended::Duplicate(MessageId(known)));
        }
    }
    let (conversation, session): (i64, i64) = transaction
        .prepare_cached(
            "INSERT INTO conversation (channel, chat_id, thread, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?4)
             ON CONFLICT (channel, chat_id, thread) DO UPDATE SET updated_at = excluded.updated_at
             RETURNING id, session",
        )?
        .query_row(
            params![key.channel, key.chat_id, key.thread, message.at.0],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
    let id = transaction
        .prepare_cached(
            "INSERT INTO message
                 (conversation_id, session, role, text, guest, created_at, platform_id)
             VALUES (?1, ?2, 'user', ?3, ?4, ?5, ?6)",
        )?
        .insert(params![
            conversation,
            session,
            message.text,
            message.guest,
            message.at.0,
            message.platform_message_id
        ])?;
    if let Some(platform_id) = &message.platform_message_id {
        transaction
            .prepare_cached(
                "INSERT INTO accepted_id (channel, platform_id, accepted_at, message_id)
                 VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![key.channel, platform_id, message.at.0, id])?;
        transaction
            .prepare_cached(
                "DELETE FROM accepted_id WHERE channel = ?1 AND id <= (
                     SELECT id FROM accepted_id WHERE channel = ?1
                     ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            )?
            .execute(params![key.channel, to_sql(ACCEPTED_IDS)])?;
    }
    Ok(Appended::Stored(MessageId(id)))
}

/// A request that waits for its ending.
struct Request {
    id: MessageId,
    conversation: i64,
    session: i64,
    guest: bool,
}

fn find_request(
    transaction: &Transaction<'_>,
    key: &ConversationKey,
    id: MessageId,
) -> Result<Request, LogError> {
    let found = transaction
        .prepare_cached(
            "SELECT m.conversation_id, m.session, m.guest
             FROM message m JOIN conversation c ON c.id = m.conversation_id
             WHERE m.id = ?1 AND m.role = 'user' AND m.kind = 'message'
               AND c.channel = ?2 AND c.chat_id = ?3 AND c.thread = ?4",
        )?
        .query_row(params![id.0, key.channel, key.chat_id, key.thread], |row| {
            Ok(Request {
                id,
                conversation: row.get(0)?,
                session: row.get(1)?,
                guest: row.get(2)?,
            })
        })
        .optional()?;
    found.ok_or(LogError::NoSuchRequest(id))
}

fn store_ending(
    transaction: &Transaction<'_>,
    request: &Request,
    role: &str,
    words: &str,
    record: &TurnRecord,
) -> Result<MessageId, LogError> {
    let note = record
        .work_note
        .as_deref()
        .map(str::trim)
        .filter(|note| !note.is_empty())
        .map(|note| {
            if note.len() <= MAX_WORK_NOTE {
                note.to_owned()
            } else {
                text::shortened(note, MAX_WORK_NOTE - '…'.len_utf8())
            }
        });
    let inserted = transaction
        .prepare_cached(
            "INSERT INTO message
                 (conversation_id, session, role, text, guest, created_at, reply_to, work_note,
                  provider, model, prompt_tokens, completion_tokens, cached_tokens,
                  cache_creation_tokens, peak_tokens)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            request.conversation,
            request.session,
            role,
            words,
            request.guest,
            record.at.0,
            request.id.0,
            note,
            record.provider,
            record.model,
            record.tokens.prompt.map(to_sql),
            record.tokens.completion.map(to_sql),
            record.tokens.cached.map(to_sql),
            record.tokens.cache_creation.map(to_sql),
            record.peak_tokens.map(to_sql),
        ])?;
    // The only thing an ending can collide with is another ending of the same request.
    if inserted == 0 {
        return Err(LogError::AlreadyAnswered(request.id));
    }
    let id = transaction.last_insert_rowid();
    transaction
        .prepare_cached("UPDATE conversation SET updated_at = ?2 WHERE id = ?1")?
        .execute(params![request.conversation, record.at.0])?;
    Ok(MessageId(id))
}

fn store_checkpoint(
    transaction: &Transaction<'_>,
    key: &ConversationKey,
    checkpoint: &NewCheckpoint,
) -> Result<MessageId, LogError> {
    let session = history::session(transaction, key)?.ok_or(LogError::Stale)?;
    let (standing, _) = history::checkpoint(transaction, &session)?;
    if standing.as_ref().map(|found| found.id) != checkpoint.replaces {
        return Err(LogError::Stale);
    }
    let boundary = checkpoint.covers_through.0;
    let is_forward = standing.is_none_or(|found| found.covers_through.0 < boundary);
    // The boundary is the end of a turn, and nothing behind it answers anything before it: neither
    // an answer that is stored nor one that is still to come.
    let is_between_turns = transaction
        .prepare_cached(
            "SELECT 1 FROM message b
             WHERE b.id = ?3 AND b.conversation_id = ?1 AND b.session = ?2
               AND b.kind = 'message' AND b.role <> 'user'
               AND NOT EXISTS (
                   SELECT 1 FROM message a
                   WHERE a.conversation_id = ?1 AND a.session = ?2 AND a.id > ?3
                     AND a.kind = 'message' AND a.reply_to <= ?3)",
        )?
        .exists(params![session.conversation, session.number, boundary])?;
    if !is_forward || !is_between_turns {
        return Err(LogError::Stale);
    }
    let id = transaction
        .prepare_cached(
            "INSERT INTO message
                 (conversation_id, session, role, kind, text, guest, created_at, covers_through,
                  tells_of_owner, provider, model, prompt_tokens, completion_tokens, cached_tokens,
                  cache_creation_tokens)
             VALUES (?1, ?2, 'user', 'checkpoint_summary', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .insert(params![
            session.conversation,
            session.number,
            checkpoint.text,
            checkpoint.guest,
            checkpoint.at.0,
            boundary,
            checkpoint.tells_of_owner,
            checkpoint.provider,
            checkpoint.model,
            checkpoint.tokens.prompt.map(to_sql),
            checkpoint.tokens.completion.map(to_sql),
            checkpoint.tokens.cached.map(to_sql),
            checkpoint.tokens.cache_creation.map(to_sql),
        ])?;
    Ok(MessageId(id))
}

fn list(connection: &Connection, limit: i64) -> rusqlite::Result<Vec<ConversationSummary>> {
    connection
        .prepare_cached(
            "SELECT c.channel, c.chat_id, c.thread, c.created_at, c.updated_at,
                    (SELECT count(*) FROM message m
                     WHERE m.conversation_id = c.id AND m.session = c.session AND m.kind = 'message')
             FROM conversation c ORDER BY c.updated_at DESC, c.id DESC LIMIT ?1",
        )?
        .query_map([limit], |row| {
            Ok(ConversationSummary {
                key: ConversationKey {
                    channel: row.get(0)?,
                    chat_id: row.get(1)?,
                    thread: row.get(2)?,
                },
                created_at: UnixMillis(row.get(3)?),
                updated_at: UnixMillis(row.get(4)?),
                messages: row.get::<_, i64>(5)?.unsigned_abs(),
            })
        })?
        .collect()
}

fn unanswered(connection: &Connection) -> rusqlite::Result<Vec<(ConversationKey, MessageId)>> {
    connection
        .prepare_cached(
            "SELECT c.channel, c.chat_id, c.thread, m.id
             FROM (SELECT * FROM conversation ORDER BY updated_at DESC, id DESC LIMIT ?1) c
             JOIN message m ON m.id = (SELECT max(last.id) FROM message last
                 WHERE last.conversation_id = c.id AND last.session = c.session)
             WHERE m.role = 'user' ORDER BY c.updated_at DESC, c.id DESC",
        )?
        .query_map([to_sql(MAX_LISTED)], |row| {
            let key = ConversationKey {
                channel: row.get(0)?,
                chat_id: row.get(1)?,
                thread: row.get(2)?,
            };
            Ok((key, MessageId(row.get(3)?)))
        })?
        .collect()
}

fn totals(connection: &Connection, day: UnixMillis) -> rusqlite::Result<Vec<TokenTotals>> {
    let start = day.0.div_euclid(DAY_MILLIS).saturating_mul(DAY_MILLIS);
    connection
        .prepare_cached(
            "SELECT provider, model, sum(kind = 'message'),
                    iif(count(prompt_tokens) > 0, total(prompt_tokens), NULL),
                    iif(count(completion_tokens) > 0, total(completion_tokens), NULL),
                    iif(count(cached_tokens) > 0, total(cached_tokens), NULL),
                    iif(count(cache_creation_tokens) > 0, total(cache_creation_tokens), NULL)
             FROM message
             WHERE provider IS NOT NULL AND created_at >= ?1 AND created_at < ?2
             GROUP BY provider, model ORDER BY provider, model",
        )?
        .query_map([start, start.saturating_add(DAY_MILLIS)], |row| {
            Ok(TokenTotals {
                provider: row.get(0)?,
                model: row.get(1)?,
                turns: row.get::<_, i64>(2)?.unsigned_abs(),
                tokens: counts(row, 3)?,
            })
        })?
        .collect()
}

/// SQLite's integers end at `i64::MAX`; no real count is near it.
fn to_sql(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
