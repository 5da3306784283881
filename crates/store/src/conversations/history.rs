//! Loading the end of a conversation so that it can be sent as it is.

use fermix_types::ConversationKey;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::repair::{self, Mended};
use super::{Checkpoint, HistoryLimits, MessageId, Replay};

/// The newest checkpoints of a session that are looked at for one that is whole.
const MAX_CHECKPOINTS: i64 = 32;

/// The present session of a conversation.
pub(super) struct Session {
    pub(super) conversation: i64,
    pub(super) number: i64,
}

/// The present session, or nothing for a conversation nobody began.
pub(super) fn session(
    connection: &Connection,
    key: &ConversationKey,
) -> rusqlite::Result<Option<Session>> {
    connection
        .prepare_cached(
            "SELECT id, session FROM conversation WHERE channel = ?1 AND chat_id = ?2 AND thread = ?3",
        )?
        .query_row(params![key.channel, key.chat_id, key.thread], |row| {
            Ok(Session {
                conversation: row.get(0)?,
                number: row.get(1)?,
            })
        })
        .optional()
}

/// The end of the present session within `limits`, oldest first, repaired; and how much was.
///
/// The start moves in blocks, not by one message a message: a provider caches the beginning of
/// what it is sent, and a start that slides on every turn never finds its cache again. Where it
/// stands follows from the stored messages alone, so every turn and every process agrees on it.
pub(super) fn load(
    connection: &Connection,
    key: &ConversationKey,
    limits: HistoryLimits,
) -> rusqlite::Result<(Replay, usize)> {
    let Some(session) = session(connection, key)? else {
        return Ok((Replay::default(), 0));
    };
    let (checkpoint, damaged) = checkpoint(connection, &session)?;
    let after = checkpoint
        .as_ref()
        .map_or(0, |found| found.covers_through.0);
    let of_session = params![session.conversation, session.number, after];
    let count: i64 = connection
        .prepare_cached(
            "SELECT count(*) FROM message
             WHERE conversation_id = ?1 AND session = ?2 AND id > ?3 AND kind = 'message'",
        )?
        .query_row(of_session, |row| row.get(0))?;
    let count = usize::try_from(count).unwrap_or(0);
    let skipped = skipped(count, limits.max_messages);
    // The lengths come first, so that a text that does not fit is never loaded.
    let mut sizes = Vec::new();
    let mut statement = connection.prepare_cached(
        "SELECT id, octet_length(text) + ifnull(octet_length(work_note), 0) FROM message
         WHERE conversation_id = ?1 AND session = ?2 AND id > ?3 AND kind = 'message'
         ORDER BY id LIMIT -1 OFFSET ?4",
    )?;
    let offset = i64::try_from(skipped).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![session.conversation, session.number, after, offset])?;
    while let Some(row) = rows.next()? {
        let bytes = usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX);
        sizes.push((row.get::<_, i64>(0)?, bytes));
    }
    let lengths: Vec<usize> = sizes.iter().map(|(_, bytes)| *bytes).collect();
    let start = start(&lengths, limits.max_bytes);
    let mended = match sizes.get(start) {
        Some((first, _)) => messages(connection, &session, *first, skipped + start > 0)?,
        None => Mended::default(),
    };
    let peak_tokens = peak(connection, &session, checkpoint.as_ref())?;
    let replay = Replay {
        checkpoint,
        messages: mended.messages,
        left_out: (skipped + start) as u64,
        peak_tokens,
    };
    Ok((replay, mended.damaged + damaged))
}

fn messages(
    connection: &Connection,
    session: &Session,
    first: i64,
    is_cut: bool,
) -> rusqlite::Result<Mended> {
    let mut statement = connection.prepare_cached(
        "SELECT id, role, guest, created_at, reply_to, provider, model, text, work_note
         FROM message
         WHERE conversation_id = ?1 AND session = ?2 AND id >= ?3 AND kind = 'message'
         ORDER BY id",
    )?;
    let mut rows = statement.query(params![session.conversation, session.number, first])?;
    let mut read = Vec::new();
    while let Some(row) = rows.next()? {
        read.push(repair::message(row)?);
    }
    Ok(repair::mended(read, is_cut.then_some(MessageId(first))))
}

/// The newest checkpoint that is whole, and how many newer ones are not.
pub(super) fn checkpoint(
    connection: &Connection,
    session: &Session,
) -> rusqlite::Result<(Option<Checkpoint>, usize)> {
    let mut statement = connection.prepare_cached(
        "SELECT k.id, k.covers_through, k.guest, k.tells_of_owner, k.created_at, k.text
         FROM message k
         WHERE k.conversation_id = ?1 AND k.session = ?2 AND k.kind = 'checkpoint_summary'
         ORDER BY k.id DESC LIMIT ?3",
    )?;
    let mut rows = statement.query(params![
        session.conversation,
        session.number,
        MAX_CHECKPOINTS
    ])?;
    let mut damaged = 0;
    while let Some(row) = rows.next()? {
        if let Some(found) = repair::checkpoint(row)?
            && exists(connection, session, found.covers_through)?
        {
            return Ok((Some(found), damaged));
        }
        damaged += 1;
    }
    Ok((None, damaged))
}

/// Whether `id` is a message of the session.
fn exists(connection: &Connection, session: &Session, id: MessageId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM message
             WHERE id = ?1 AND conversation_id = ?2 AND session = ?3 AND kind = 'message'",
        )?
        .exists(params![id.0, session.conversation, session.number])
}

/// The peak of the last turn that ended after the checkpoint.
fn peak(
    connection: &Connection,
    session: &Session,
    checkpoint: Option<&Checkpoint>,
) -> rusqlite::Result<Option<u64>> {
    let peak: Option<Option<i64>> = connection
        .prepare_cached(
            "SELECT peak_tokens FROM message
             WHERE conversation_id = ?1 AND session = ?2 AND kind = 'message' AND role <> 'user'
               AND id > ?3
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row(
            params![
                session.conversation,
                session.number,
                checkpoint.map_or(0, |found| found.id.0)
            ],
            |row| row.get(0),
        )
        .optional()?;
    Ok(peak.flatten().and_then(|peak| u64::try_from(peak).ok()))
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
