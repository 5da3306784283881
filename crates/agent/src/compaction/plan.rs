//! Where a conversation is parted: the newest turns stay, the rest is summarised.

use std::collections::HashSet;

use fermix_store::{Role, StoredMessage};

/// The most messages that stay.
const MAX_KEPT: usize = 100;
/// The share of the window that is planned with; the newest messages take at most half of it.
const BUDGET_SHARE: f64 = 0.5;

/// How much may stay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes of the newest turns.
    kept: usize,
    /// Bytes that even the newest turn alone may not pass.
    most: usize,
    /// Half of the conversation goes, however short it is.
    is_forced: bool,
}

impl Room {
    pub(super) fn of(window: u64, bytes_per_token: f64, is_forced: bool) -> Self {
        let budget = window as f64 * BUDGET_SHARE * bytes_per_token;
        Self {
            kept: (budget / 2.0) as usize,
            most: budget as usize,
            is_forced,
        }
    }
}

/// The text of messages, in bytes.
pub(super) fn bytes(messages: &[StoredMessage]) -> usize {
    messages.iter().map(size).sum()
}

fn size(message: &StoredMessage) -> usize {
    message.text.len() + message.work_note.as_ref().map_or(0, String::len)
}

/// The messages that are summarised: whole turns from the beginning, so that no answer is parted
/// from its request. A request without an end is always kept.
pub(super) fn older(messages: &[StoredMessage], room: Room) -> &[StoredMessage] {
    let borders = borders(messages);
    let kept_bytes = if room.is_forced {
        room.kept.min(bytes(messages) / 2)
    } else {
        room.kept
    };
    let fits = |border: &usize| {
        let kept = &messages[*border..];
        kept.len() <= MAX_KEPT && bytes(kept) <= kept_bytes
    };
    // The newest turn stays unless it is too large by itself.
    let usual = borders
        .iter()
        .copied()
        .filter(|border| *border < messages.len());
    let border = usual
        .clone()
        .find(|border| fits(border))
        .or_else(|| {
            let newest = usual.clone().next_back()?;
            let is_too_large = bytes(&messages[newest..]) > room.most;
            if is_too_large {
                borders.last().copied()
            } else {
                Some(newest)
            }
        })
        .unwrap_or(0);
    &messages[..border]
}

/// The places between two turns, the very beginning and the very end included when they are such
/// places: behind them nothing answers anything before them.
fn borders(messages: &[StoredMessage]) -> Vec<usize> {
    let mut open = HashSet::new();
    let mut borders = vec![0];
    let answered: HashSet<_> = messages
        .iter()
        .filter_map(|message| message.reply_to)
        .collect();
    for (index, message) in messages.iter().enumerate() {
        match message.role {
            Role::User => {
                if answered.contains(&message.id) {
                    open.insert(message.id);
                }
            }
            Role::Assistant | Role::Marker => {
                if let Some(request) = message.reply_to {
                    open.remove(&request);
                }
                let next_is_request = messages
                    .get(index + 1)
                    .is_none_or(|next| next.role == Role::User);
                if open.is_empty() && next_is_request {
                    borders.push(index + 1);
                }
            }
        }
    }
    borders
}

#[cfg(test)]
mod tests {
    use fermix_store::MessageId;
    use fermix_types::UnixMillis;

    use super::*;

    fn message(id: i64, role: Role, reply_to: Option<i64>, bytes: usize) -> StoredMessage {
        StoredMessage {
            id: MessageId(id),
            role,
            text: "x".repeat(bytes),
            guest: false,
            at: UnixMillis(id),
            reply_to: reply_to.map(MessageId),
            work_note: None,
            provider: None,
            model: None,
        }
    }

    fn turns(count: i64, bytes: usize) -> Vec<StoredMessage> {
        (0..count)
            .flat_map(|turn| {
                [
                    message(2 * turn + 1, Role::User, None, bytes),
                    message(2 * turn + 2, Role::Assistant, Some(2 * turn + 1), bytes),
                ]
            })
            .collect()
    }

    fn room(kept: usize, is_forced: bool) -> Room {
        Room {
            kept,
            most: 2 * kept,
            is_forced,
        }
    }

    #[test]
    fn the_newest_turns_that_fit_stay_and_a_turn_is_never_parted() {
        let ten = turns(10, 100);
        assert_eq!(older(&ten, room(850, false)).len(), 12);
        assert_eq!(older(&ten, room(2_000, false)).len(), 0);
        assert_eq!(
            older(&ten, room(2_000, true)).len(),
            10,
            "half of it when forced"
        );
        // One turn always stays, unless it would fill the room twice over.
        assert_eq!(older(&ten, room(150, false)).len(), 18);
        assert_eq!(older(&ten, room(99, false)).len(), 20);
        assert_eq!(older(&turns(1, 100), room(1_000, true)).len(), 0);
        assert_eq!(older(&turns(150, 1), room(1_000, false)).len(), 200);
        assert_eq!(older(&[], room(10, true)).len(), 0);
    }

    #[test]
    fn merged_and_unanswered_requests_stay_with_their_turn() {
        let mut messages = turns(3, 100);
        messages.push(message(7, Role::User, None, 100));
        messages.push(message(8, Role::User, None, 100));
        messages.push(message(9, Role::Assistant, Some(8), 100));
        messages.push(message(10, Role::User, None, 100));
        // The last request waits for its answer: it is kept, whatever the room.
        for kept in [0, 1, 100, 350, 1_000] {
            let older = older(&messages, room(kept, false));
            assert!(older.len() <= 9, "{kept}: {}", older.len());
            assert!(
                older
                    .last()
                    .is_none_or(|message| message.role != Role::User)
            );
        }
        // Two requests and one answer, in any order of rows, are one turn.
        let crossed = [
            message(1, Role::User, None, 100),
            message(2, Role::User, None, 100),
            message(3, Role::Assistant, Some(2), 100),
            message(4, Role::User, None, 100),
            message(5, Role::Assistant, Some(1), 100),
            message(6, Role::Assistant, Some(4), 100),
        ];
        assert_eq!(borders(&crossed), [0, 6]);
    }
}
