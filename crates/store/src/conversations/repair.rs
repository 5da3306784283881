//! Reading rows that may have been damaged.
//!
//! The file may have been edited by hand, cut by a failing disk or written by another version. A
//! model provider refuses a whole conversation over one bad message, and would again on every
//! later turn, so a bad row must cost itself and nothing else.

use std::collections::HashSet;

use fermix_types::UnixMillis;
use rusqlite::types::ValueRef;
use rusqlite::{Error, Row};

use super::{Checkpoint, MAX_TEXT, MAX_WORK_NOTE, MessageId, Role, StoredMessage, is_blank};

/// What is left of the rows of a conversation.
#[derive(Debug, Default)]
pub(super) struct Mended {
    pub(super) messages: Vec<StoredMessage>,
    /// Rows that were left out or changed.
    pub(super) damaged: usize,
}

/// One row as it could be read.
pub(super) enum Read {
    /// As it was stored.
    Whole(StoredMessage),
    /// Something about it had to be changed.
    Changed(StoredMessage),
    /// It cannot be understood.
    Lost,
}

/// Reads a row of `id, role, guest, created_at, reply_to, provider, model, text, work_note`.
pub(super) fn message(row: &Row<'_>) -> rusqlite::Result<Read> {
    let (Some(id), Some(role)) = (integer(row, 0)?, text(row, 1)?) else {
        return Ok(Read::Lost);
    };
    let role = match role.value.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "marker" => Role::Marker,
        _ => return Ok(Read::Lost),
    };
    let Some(words) = text(row, 7)? else {
        return Ok(Read::Lost);
    };
    let (note, provider, model) = (text(row, 8)?, text(row, 5)?, text(row, 6)?);
    let mut changed = words.changed || note.as_ref().is_some_and(|note| note.changed);
    // No note is longer or blank; what is there instead is none.
    let work_note = note
        .map(|note| note.value)
        .filter(|note| note.len() <= MAX_WORK_NOTE && !is_blank(note));
    changed |= work_note.is_none() && !matches!(row.get_ref(8)?, ValueRef::Null);
    let guest = integer(row, 2)?;
    let at = integer(row, 3)?;
    changed |= guest.is_none() || at.is_none();
    let message = StoredMessage {
        id: MessageId(id),
        role,
        text: words.value,
        // Whose words they are decides what they may do; unknown is the narrower.
        guest: guest != Some(0),
        at: UnixMillis(at.unwrap_or(0)),
        reply_to: integer(row, 4)?.map(MessageId),
        work_note,
        provider: provider.map(|provider| provider.value),
        model: model.map(|model| model.value),
    };
    Ok(if changed {
        Read::Changed(message)
    } else {
        Read::Whole(message)
    })
}

/// Reads a row of `id, covers_through, guest, tells_of_owner, created_at, text`; nothing when it
/// cannot stand for anything.
pub(super) fn checkpoint(row: &Row<'_>) -> rusqlite::Result<Option<Checkpoint>> {
    let (Some(id), Some(covers_through), Some(words)) =
        (integer(row, 0)?, integer(row, 1)?, text(row, 5)?)
    else {
        return Ok(None);
    };
    if is_blank(&words.value) || words.value.len() > MAX_TEXT || covers_through >= id {
        return Ok(None);
    }
    Ok(Some(Checkpoint {
        id: MessageId(id),
        covers_through: MessageId(covers_through),
        text: words.value,
        guest: integer(row, 2)? != Some(0),
        tells_of_owner: integer(row, 3)? != Some(0),
        at: UnixMillis(integer(row, 4)?.unwrap_or(0)),
    }))
}

/// Leaves out what must not be sent: rows that say nothing, second endings of one request, and
/// endings whose request is not there. `cut_at` is the first message that was loaded, when older
/// ones were left out on purpose: an ending of one of those is no damage.
pub(super) fn mended(rows: Vec<Read>, cut_at: Option<MessageId>) -> Mended {
    let mut requests = HashSet::new();
    let mut ended = HashSet::new();
    let mut mended = Mended::default();
    for row in rows {
        let message = match row {
            Read::Whole(message) => message,
            Read::Changed(message) => {
                mended.damaged += 1;
                message
            }
            Read::Lost => {
                mended.damaged += 1;
                continue;
            }
        };
        if is_blank(&message.text) {
            mended.damaged += 1;
            continue;
        }
        let belongs = match (message.role, message.reply_to) {
            (Role::User, _) => {
                requests.insert(message.id);
                true
            }
            (Role::Assistant | Role::Marker, Some(request)) => {
                if cut_at.is_some_and(|first| request < first) {
                    continue;
                }
                requests.contains(&request) && ended.insert(request)
            }
            (Role::Assistant | Role::Marker, None) => false,
        };
        if !belongs {
            mended.damaged += 1;
            continue;
        }
        mended.messages.push(message);
    }
    mended
}

struct Words {
    value: String,
    changed: bool,
}

/// A text column, whatever bytes are in it. No text holds a NUL: some providers refuse it.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Words>> {
    let bytes = match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => return Ok(None),
    };
    let read = String::from_utf8_lossy(bytes);
    let value = read.replace('\0', "\u{FFFD}");
    Ok(Some(Words {
        changed: value.as_bytes() != bytes,
        value,
    }))
}

/// A whole number, or nothing when something else stands there.
fn integer(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<i64>> {
    match row.get::<_, Option<i64>>(column) {
        Ok(number) => Ok(number),
        Err(
            Error::InvalidColumnType(..)
            | Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..),
        ) => Ok(None),
        Err(error) => Err(error),
    }
}
