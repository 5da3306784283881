//! Loading the end of a conversation so that it can be sent as it is.

use std::collections::HashSet;

use fermix_types::{ConversationKey, UnixMillis};
use rusqlite::{Connection, Row, params};

use super::{HistoryLimits, MessageId, MessageKind, Role, StoredMessage, is_blank};

/// The ids and lengths of the session's messages, oldest first, without the first few.
const SIZES: &str = "SELECT m.id, octet_length(m.text) + ifnull(octet_length(m.work_note), 0)
     FROM conversation c
     JOIN message m ON m.conversation_id = c.id AND m.session = c.session
     WHERE c.channel = ?1 AND c.chat_id = ?2 AND c.thread = ?3
     ORDER BY m.id LIMIT -1 OFFSET ?4";

/// The end of the present session within `limits`, oldest first, repaired.
///
/// The start moves in blocks, not by one message a message: a provider caches the beginning of
/// what it is sent, and a start that slides on every turn never finds its cache again. Where it
/// stands follows from the stored messages alone, so every turn and every process agrees on it.
pub(super) fn load(
    connection: &Connection,
    key: &ConversationKey,
    limits: HistoryLimits,
) -> rusqlite::Result<Vec<StoredMessage>> {
    let count: i64 = connection
        .prepare_cached(
            "SELECT count(*) FROM conversation c
             JOIN message m ON m.conversation_id = c.id AND m.session = c.session
             WHERE c.channel = ?1 AND c.chat_id = ?2 AND c.thread = ?3",
        )?
        .query_row(params![key.channel, key.chat_id, key.thread], |row| {
            row.get(0)
        })?;
    let skipped = skipped(usize::try_from(count).unwrap_or(0), limits.max_messages);
    // The lengths come first, so that a text that does not fit is never loaded.
    let mut sizes = Vec::new();
    let mut statement = connection.prepare_cached(SIZES)?;
    let offset = i64::try_from(skipped).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![key.channel, key.chat_id, key.thread, offset])?;
    while let Some(row) = rows.next()? {
        let bytes = usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX);
        sizes.push((row.get::<_, i64>(0)?, bytes));
    }
    let lengths: Vec<usize> = sizes.iter().map(|(_, bytes)| *bytes).collect();
    let Some((first, _)) = sizes.get(start(&lengths, limits.max_bytes)) else {
        return Ok(Vec::new());
    };
    let mut statement = connection.prepare_cached(
        "SELECT m.id, m.role, m.kind, m.guest, m.created_at, m.reply_to, m.provider, m.model,
                m.text, m.work_note
         FROM conversation c
         JOIN message m ON m.conversation_id = c.id AND m.session = c.session
         WHERE c.channel = ?1 AND c.chat_id = ?2 AND c.thread = ?3 AND m.id >= ?4
         ORDER BY m.id",
    )?;
    let mut rows = statement.query(params![key.channel, key.chat_id, key.thread, first])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.extend(message(row)?);
    }
    Ok(repaired(messages))
}

/// How many of the oldest of `count` messages are left out so that at most `max_messages` stay:
/// none, or a multiple of half of that.
fn skipped(count: usize, max_messages: usize) -> usize {
    let block = max_messages / 2;
    match count.checked_sub(max_messages) {
        None | Some(0) => 0,
        // Too few for blocks.
        Some(over) if block == 0 => over,
        Some(over) => over.div_ceil(block) * block,
    }
}

/// The first of the messages with these lengths that is replayed. Going from the oldest to the
/// newest, whenever what was kept no longer fits, only the newest of it that fit half of the room
/// stay; the newest one alone may take all of it. A message that comes later never changes what
/// was decided before, so the start stands still until the room is full again.
fn start(lengths: &[usize], max_bytes: usize) -> usize {
    let (mut start, mut kept) = (0, 0_usize);
    for (position, length) in lengths.iter().enumerate() {
        kept = kept.saturating_add(*length);
        if kept <= max_bytes {
            continue;
        }
        if *length > max_bytes {
            (start, kept) = (position + 1, 0);
            continue;
        }
        (start, kept) = (position, *length);
        while start > 0
            && let Some(more) = kept.checked_add(lengths[start - 1])
            && more <= max_bytes / 2
        {
            start -= 1;
            kept = more;
        }
    }
    start
}

/// `None` for a row of a role or kind this binary does not know.
fn message(row: &Row<'_>) -> rusqlite::Result<Option<StoredMessage>> {
    let role = match row.get_ref(1)?.as_str()? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "marker" => Role::Marker,
        _ => return Ok(None),
    };
    let kind = match row.get_ref(2)?.as_str()? {
        "message" => MessageKind::Message,
        "checkpoint_summary" => MessageKind::CheckpointSummary,
        _ => return Ok(None),
    };
    Ok(Some(StoredMessage {
        id: MessageId(row.get(0)?),
        role,
        kind,
        text: row.get(8)?,
        guest: row.get(3)?,
        at: UnixMillis(row.get(4)?),
        reply_to: row.get::<_, Option<i64>>(5)?.map(MessageId),
        work_note: row.get(9)?,
        provider: row.get(6)?,
        model: row.get(7)?,
    }))
}

/// Without blank texts, and without answers whose request is not there: it was cut off by the
/// limits, or the row is gone.
fn repaired(messages: Vec<StoredMessage>) -> Vec<StoredMessage> {
    let mut requests = HashSet::new();
    messages
        .into_iter()
        .filter(|message| {
            if is_blank(&message.text) {
                return false;
            }
            match message.role {
                Role::User => {
                    requests.insert(message.id);
                    true
                }
                Role::Assistant | Role::Marker => message
                    .reply_to
                    .is_some_and(|request| requests.contains(&request)),
            }
        })
        .collect()
}
