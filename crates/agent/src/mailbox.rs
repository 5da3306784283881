//! One queue a conversation: first come, first served, one turn at a time; conversations side by
//! side.
//!
//! The mailbox decides, the agent runs. Every decision about a turn (may it deliver, has it been
//! stopped) is made here under one lock, so that a stop and a delivery cannot both win. A lane
//! exists only while it has work.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fermix_capability::{ApprovalPort, Caller};
use fermix_types::{ConversationKey, Image, Trust};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::reply::ReplyPort;
use crate::report::TurnReport;
use crate::turn::TurnEvent;

/// The most messages that wait in one conversation.
pub(crate) const MAX_PENDING: usize = 20;
/// The most messages that wait in all conversations together.
pub(crate) const MAX_PENDING_TOTAL: usize = 500;

/// One message of a waiting turn.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) text: String,
    pub(crate) platform_message_id: Option<String>,
}

/// A turn that waits: one message, or several that were merged.
pub(crate) struct Pending {
    pub(crate) turn_id: String,
    pub(crate) caller: Arc<Caller>,
    pub(crate) sender: Option<String>,
    pub(crate) messages: Vec<Incoming>,
    pub(crate) images: Vec<Image>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) working_folder: Option<PathBuf>,
    pub(crate) session_env: Arc<[(String, String)]>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) reply: Arc<dyn ReplyPort>,
    pub(crate) is_alone: bool,
    pub(crate) approval: Option<Arc<dyn ApprovalPort>>,
    pub(crate) watchers: Vec<mpsc::Sender<TurnEvent>>,
    pub(crate) done: Vec<oneshot::Sender<TurnReport>>,
}

impl Pending {
    fn accepts(&self, later: &Self) -> bool {
        // Without a name two guests look like one; the owner is one person in any case.
        let is_one_person = self.sender == later.sender
            && (self.sender.is_some() || self.caller.trust() == Trust::Operator);
        is_one_person
            && !(self.is_alone || later.is_alone)
            && self.images.is_empty()
            && later.images.is_empty()
            && self.caller == later.caller
            && self.cwd == later.cwd
            && self.working_folder == later.working_folder
            && self.session_env == later.session_env
            && self.timeout == later.timeout
    }

    /// The newest message's way back is the one that is used; everybody is told how it ended.
    fn absorb(&mut self, later: Self) {
        self.messages.extend(later.messages);
        self.reply = later.reply;
        self.approval = later.approval;
        self.watchers.extend(later.watchers);
        self.done.extend(later.done);
    }
}

/// What became of a message.
pub(crate) enum Accepted {
    /// Its conversation was idle: the caller starts a lane.
    StartLane,
    /// It waits.
    Queued,
    /// It became part of this waiting turn.
    Merged(String),
    /// Too much waits already: this many requests.
    Busy(Box<Pending>, usize),
    /// The agent is shutting down.
    Closed(Box<Pending>),
}

/// What a stop took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopCounts {
    /// Turns that were running and not yet committed.
    pub turns: usize,
    /// Messages that waited.
    pub queued: usize,
}

/// What goes on right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxStatus {
    /// Conversations with a running turn.
    pub active_conversations: usize,
    /// Conversations with a waiting message.
    pub pending_conversations: usize,
    /// Messages that wait.
    pub pending_requests: usize,
}

impl MailboxStatus {
    /// Whether nothing runs and nothing waits.
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}

/// What one conversation has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    /// Which one.
    pub conversation: ConversationKey,
    /// Whether a turn runs; one that is about to start does not yet.
    pub is_running: bool,
    /// Messages that wait.
    pub waiting: usize,
}

struct Active {
    turn_id: String,
    cancel: CancellationToken,
    committed: bool,
    /// The turn is over; what runs is the tidying up after it.
    settled: bool,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Pending>,
    active: Option<Active>,
    task: Option<AbortHandle>,
}

impl Lane {
    fn waiting_messages(&self) -> usize {
        self.waiting.iter().map(|turn| turn.messages.len()).sum()
    }
}

#[derive(Default)]
struct State {
    lanes: HashMap<ConversationKey, Lane>,
    pending: usize,
    closed: bool,
}

/// The queues.
pub(crate) struct Mailbox {
    state: Mutex<State>,
    coalesce: bool,
    lane_gone: Notify,
}

impl Mailbox {
    pub(crate) fn new(coalesce: bool) -> Self {
        Self {
            state: Mutex::default(),
            coalesce,
            lane_gone: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message into its queue.
    pub(crate) fn push(&self, key: &ConversationKey, pending: Pending) -> Accepted {
        let mut state = self.state();
        if state.closed {
            return Accepted::Closed(Box::new(pending));
        }
        let total = state.pending;
        let Some(lane) = state.lanes.get_mut(key) else {
            if total >= MAX_PENDING_TOTAL {
                return Accepted::Busy(Box::new(pending), total);
            }
            let mut lane = Lane::default();
            lane.waiting.push_back(pending);
            state.lanes.insert(key.clone(), lane);
            state.pending += 1;
            return Accepted::StartLane;
        };
        let waiting = lane.waiting_messages();
        if waiting >= MAX_PENDING {
            let busy = waiting + usize::from(lane.active.is_some());
            return Accepted::Busy(Box::new(pending), busy);
        }
        if total >= MAX_PENDING_TOTAL {
            return Accepted::Busy(Box::new(pending), total);
        }
        // Only what waits behind a running turn is merged: a turn that is about to start is not
        // held open for more.
        let merges = self.coalesce && lane.active.is_some();
        let accepted = match lane.waiting.back_mut() {
            Some(last) if merges && last.accepts(&pending) => {
                last.absorb(pending);
                Accepted::Merged(last.turn_id.clone())
            }
            _ => {
                lane.waiting.push_back(pending);
                Accepted::Queued
            }
        };
        state.pending += 1;
        accepted
    }

    /// Remembers the task that serves a lane, so that a shutdown can end it.
    pub(crate) fn lane_started(&self, key: &ConversationKey, task: AbortHandle) {
        if let Some(lane) = self.state().lanes.get_mut(key) {
            lane.task = Some(task);
        }
    }

    /// The next turn of a lane, with the token that stops it. When nothing waits the lane is gone.
    pub(crate) fn next(&self, key: &ConversationKey) -> Option<(Pending, CancellationToken)> {
        let mut state = self.state();
        let lane = state.lanes.get_mut(key)?;
        lane.active = None;
        let Some(pending) = lane.waiting.pop_front() else {
            state.lanes.remove(key);
            if state.lanes.is_empty() && state.lanes.capacity() > MAX_PENDING_TOTAL {
                state.lanes.shrink_to_fit();
            }
            self.lane_gone.notify_waiters();
            return None;
        };
        let cancel = CancellationToken::new();
        lane.active = Some(Active {
            turn_id: pending.turn_id.clone(),
            cancel: cancel.clone(),
            committed: false,
            settled: false,
        });
        state.pending -= pending.messages.len();
        Some((pending, cancel))
    }

    /// Whether the turn is still its conversation's active one and was not stopped. Asked once,
    /// right before delivery.
    pub(crate) fn is_fresh(&self, key: &ConversationKey, turn_id: &str) -> bool {
        self.state()
            .lanes
            .get(key)
            .and_then(|lane| lane.active.as_ref())
            .is_some_and(|active| {
                active.turn_id == turn_id && !active.settled && !active.cancel.is_cancelled()
            })
    }

    /// Commits the turn: from here on a stop does not reach it. `false` when one came before.
    pub(crate) fn commit(&self, key: &ConversationKey, turn_id: &str) -> bool {
        let mut state = self.state();
        let active = state
            .lanes
            .get_mut(key)
            .and_then(|lane| lane.active.as_mut())
            .filter(|active| active.turn_id == turn_id && !active.cancel.is_cancelled());
        let Some(active) = active else { return false };
        active.committed = true;
        true
    }

    /// The turn is over and its caller has been told; what it leaves to be done in its lane runs
    /// under the token that is given back. `None` when the mailbox is closed.
    pub(crate) fn settle(&self, key: &ConversationKey) -> Option<CancellationToken> {
        let mut state = self.state();
        if state.closed {
            return None;
        }
        let active = state.lanes.get_mut(key)?.active.as_mut()?;
        active.settled = true;
        active.cancel = CancellationToken::new();
        Some(active.cancel.clone())
    }

    /// Stops one conversation, or all. Gives back the turns that waited, for their callers to be
    /// told.
    pub(crate) fn stop(&self, only: Option<&ConversationKey>) -> (StopCounts, Vec<Pending>) {
        let mut state = self.state();
        let mut counts = StopCounts::default();
        let mut dropped = Vec::new();
        for (key, lane) in &mut state.lanes {
            if only.is_some_and(|only| only != key) {
                continue;
            }
            if let Some(active) = &lane.active
                && active.settled
            {
                // No turn any more: nobody loses anything by it.
                active.cancel.cancel();
            } else if let Some(active) = &lane.active
                && !active.committed
                && !active.cancel.is_cancelled()
            {
                active.cancel.cancel();
                counts.turns += 1;
            }
            counts.queued += lane.waiting_messages();
            dropped.extend(lane.waiting.drain(..));
        }
        state.pending -= counts.queued;
        (counts, dropped)
    }

    /// Stops one turn. Gives it back if it had not begun.
    pub(crate) fn stop_turn(
        &self,
        key: &ConversationKey,
        turn_id: &str,
    ) -> (StopCounts, Vec<Pending>) {
        let mut state = self.state();
        let mut counts = StopCounts::default();
        let Some(lane) = state.lanes.get_mut(key) else {
            return (counts, Vec::new());
        };
        if let Some(active) = &lane.active
            && active.turn_id == turn_id
            && !active.committed
            && !active.cancel.is_cancelled()
        {
            active.cancel.cancel();
            counts.turns = 1;
        }
        let mut dropped = Vec::new();
        if let Some(place) = lane.waiting.iter().position(|turn| turn.turn_id == turn_id) {
            dropped.extend(lane.waiting.remove(place));
        }
        counts.queued = dropped.iter().map(|turn| turn.messages.len()).sum();
        state.pending -= counts.queued;
        (counts, dropped)
    }

    /// Whether a turn of the conversation runs or waits.
    pub(crate) fn is_busy(&self, key: &ConversationKey) -> bool {
        self.state().lanes.contains_key(key)
    }

    /// Takes no further message, and ends what tidies up after turns: the next turn sees to it.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let lanes = state.lanes.values().filter_map(|lane| lane.active.as_ref());
        for active in lanes.filter(|active| active.settled) {
            active.cancel.cancel();
        }
    }

    /// Ends every lane's task where it stands.
    pub(crate) fn abort(&self) -> usize {
        let mut state = self.state();
        let lanes = std::mem::take(&mut state.lanes);
        state.pending = 0;
        for lane in lanes.values() {
            if let Some(task) = &lane.task {
                task.abort();
            }
        }
        self.lane_gone.notify_waiters();
        lanes.len()
    }

    /// Resolves when no lane is left.
    pub(crate) async fn idle(&self) {
        loop {
            let gone = self.lane_gone.notified();
            tokio::pin!(gone);
            // Registered before looking, or a lane that ends in between would be missed.
            gone.as_mut().enable();
            if self.state().lanes.is_empty() {
                return;
            }
            gone.await;
        }
    }

    /// Every conversation with something to do, in the order of their keys.
    pub(crate) fn lanes(&self) -> Vec<LaneStatus> {
        let state = self.state();
        let mut lanes: Vec<_> = state
            .lanes
            .iter()
            .map(|(conversation, lane)| LaneStatus {
                conversation: conversation.clone(),
                is_running: lane.active.is_some(),
                waiting: lane.waiting_messages(),
            })
            .collect();
        lanes.sort_by(|left, right| left.conversation.cmp(&right.conversation));
        lanes
    }

    pub(crate) fn status(&self) -> MailboxStatus {
        let state = self.state();
        MailboxStatus {
            active_conversations: state
                .lanes
                .values()
                .filter(|lane| lane.active.is_some())
                .count(),
            pending_conversations: state
                .lanes
                .values()
                .filter(|lane| !lane.waiting.is_empty())
                .count(),
            pending_requests: state.pending,
        }
    }
}
