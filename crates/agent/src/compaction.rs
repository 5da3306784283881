//! Compaction between turns: the older part of a conversation becomes a record that stands in its
//! place.
//!
//! What triggers it is measured, not estimated: the largest prompt a provider reported for the turn
//! against the window of the first route, or a history that no longer fits the hard limits of what
//! is replayed. It runs after the answer was delivered, and before the next turn where that did not
//! come to an end. Whatever goes wrong leaves the conversation as it was: the record is stored in
//! one transaction, and the messages it stands for are never removed.

mod plan;
mod summary;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use fermix_config::Compaction;
use fermix_providers::{ProviderId, Providers, Route};
use fermix_store::{
    ConversationLog, HistoryLimits, LogError, NewCheckpoint, Replay, StoredMessage, TokenCounts,
};
use fermix_types::{Clock, ConversationKey, TraceIds, TraceSink, UnixMillis};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::calibration::Calibration;
use crate::spending::{Spending, costs_nothing};
use crate::traces::Traces;
use summary::{Failure, Written};

/// What the person is told, once, after older messages were summarised.
pub(crate) const NOTE: &str =
    "Older parts of this conversation were summarised to make room; long-term memory is kept.";

/// How long compaction after a turn, or on request, may take.
const DEADLINE: Duration = Duration::from_secs(180);
/// How long somebody who waits for an answer waits for compaction first.
const DEADLINE_BEFORE_TURN: Duration = Duration::from_secs(60);
/// After a failure a conversation is left alone for this long, in milliseconds.
const BACKOFF_MILLIS: i64 = 60_000;
/// The most conversations whose failure is remembered.
const MAX_REMEMBERED: usize = 512;
/// The most of a conversation that goes into one record. What is older than that is left out of it.
const MATERIAL: HistoryLimits = HistoryLimits {
    max_messages: 5_000,
    max_bytes: 4 << 20,
};
/// Fewer bytes than this are not worth a call.
const SMALLEST: usize = 4_000;

/// What became of a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CompactOutcome {
    /// A record stands in the place of older messages.
    Compacted {
        /// How many messages it stands for.
        messages: usize,
        /// What they and the record before took, in bytes.
        bytes_before: usize,
        /// What the record takes, in bytes.
        bytes_after: usize,
    },
    /// There is nothing old enough.
    NothingToCompact,
    /// The conversation is being compacted already.
    Busy,
    /// Somebody stopped it; nothing changed.
    Stopped,
    /// It did not work; nothing changed.
    Failed {
        /// Why, for the owner.
        reason: String,
    },
}

impl fmt::Display for CompactOutcome {
    /// One line for the person who asked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compacted {
                messages,
                bytes_before,
                bytes_after,
            } => write!(
                f,
                "{messages} older messages were summarised ({bytes_before} bytes became {bytes_after}); they stay \
                 stored, and long-term memory is kept"
            ),
            Self::NothingToCompact => {
                f.write_str("there is nothing to compact yet: the conversation is short")
            }
            Self::Busy => f.write_str("this conversation is being compacted already"),
            Self::Stopped => f.write_str("stopped; the conversation is as it was"),
            Self::Failed { reason } => {
                write!(
                    f,
                    "the conversation could not be compacted and is as it was: {reason}"
                )
            }
        }
    }
}

/// Why a conversation is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// A turn has ended and filled too much of the window.
    AfterTurn,
    /// The same, found before the next turn.
    BeforeTurn,
    /// A provider refused the conversation for its length.
    Refused,
    /// Somebody asked for it.
    Asked,
}

impl Trigger {
    const fn as_str(self) -> &'static str {
        match self {
            Self::AfterTurn => "after_turn",
            Self::BeforeTurn => "before_turn",
            Self::Refused => "refused",
            Self::Asked => "asked",
        }
    }

    /// Whether somebody waits for an answer meanwhile.
    const fn deadline(self) -> Duration {
        match self {
            Self::AfterTurn | Self::Asked => DEADLINE,
            Self::BeforeTurn | Self::Refused => DEADLINE_BEFORE_TURN,
        }
    }

    /// Whether a conversation that is not too long by any measure is compacted all the same.
    const fn is_forced(self) -> bool {
        matches!(self, Self::Refused | Self::Asked)
    }
}

/// Compacts conversations.
pub(crate) struct Compactor {
    pub(crate) settings: Compaction,
    pub(crate) providers: Arc<ArcSwap<Providers>>,
    pub(crate) conversations: Arc<dyn ConversationLog>,
    pub(crate) spending: Arc<Spending>,
    pub(crate) calibration: Arc<Calibration>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) trace: Arc<dyn TraceSink>,
    /// Cancelled when the agent shuts down.
    pub(crate) closing: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: HashSet<ConversationKey>,
    failed: HashMap<ConversationKey, UnixMillis>,
}

/// What a compactor is made of.
pub(crate) struct CompactorParts {
    pub(crate) settings: Compaction,
    pub(crate) providers: Arc<ArcSwap<Providers>>,
    pub(crate) conversations: Arc<dyn ConversationLog>,
    pub(crate) spending: Arc<Spending>,
    pub(crate) calibration: Arc<Calibration>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) trace: Arc<dyn TraceSink>,
}

impl Compactor {
    pub(crate) fn new(parts: CompactorParts) -> Self {
        Self {
            settings: parts.settings,
            providers: parts.providers,
            conversations: parts.conversations,
            spending: parts.spending,
            calibration: parts.calibration,
            clock: parts.clock,
            trace: parts.trace,
            closing: CancellationToken::new(),
            state: Mutex::default(),
        }
    }

    /// Whether a prompt of `peak` tokens fills too much of the first route's window. What nobody
    /// measured is not guessed at.
    pub(crate) fn is_overfull(&self, peak: Option<u64>) -> bool {
        let routes = self.providers.load().routes();
        let window = routes.first().map_or(0, |lead| lead.context_window);
        window > 0 && peak.is_some_and(|peak| peak as f64 > window as f64 * self.settings.threshold)
    }

    /// Whether a conversation is to be compacted before it is replayed.
    pub(crate) fn is_due(&self, key: &ConversationKey, replay: &Replay) -> bool {
        self.may_run(key) && (self.is_overfull(replay.peak_tokens) || replay.left_out > 0)
    }

    /// Whether compaction is on, has a model to ask, and did not fail a moment ago.
    pub(crate) fn may_run(&self, key: &ConversationKey) -> bool {
        let now = self.clock.now();
        self.settings.enabled
            && self.has_model()
            && self
                .state()
                .failed
                .get(key)
                .is_none_or(|at| now.0.saturating_sub(at.0) >= BACKOFF_MILLIS)
    }

    /// The embedded assistant is no language model: it has nothing to write a record with.
    fn has_model(&self) -> bool {
        let routes = self.providers.load().routes();
        routes.iter().any(|route| !costs_nothing(route.provider))
    }

    /// Compacts a conversation. Never panics for what is stored, and changes all or nothing.
    pub(crate) async fn run(
        &self,
        key: &ConversationKey,
        trigger: Trigger,
        cancel: &CancellationToken,
    ) -> CompactOutcome {
        let Some(_claim) = self.claim(key) else {
            return CompactOutcome::Busy;
        };
        let started = Instant::now();
        let ids = TraceIds {
            session_id: format!(
                "compaction:{}",
                hex::encode(&Sha256::digest(key.to_string())[..8])
            ),
            ..TraceIds::default()
        };
        let work = tokio::time::timeout(trigger.deadline(), self.attempt(key, trigger, &ids));
        let attempt = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(Err(Failure::Stopped)),
            () = self.closing.cancelled() => Ok(Err(Failure::Stopped)),
            attempt = work => attempt,
        };
        let (outcome, answered_by) = match attempt {
            Ok(Ok((outcome, route))) => (outcome, route),
            Ok(Err(Failure::Stopped)) => (CompactOutcome::Stopped, None),
            Ok(Err(failure)) => (self.failed(key, failure.to_string()), None),
            Err(_) => {
                let seconds = trigger.deadline().as_secs();
                let reason = format!("it took longer than {seconds} s; try `/compact` later");
                (self.failed(key, reason), None)
            }
        };
        if !matches!(outcome, CompactOutcome::NothingToCompact) {
            Traces::new(&*self.trace, &ids).compacted(
                key,
                trigger.as_str(),
                &outcome,
                answered_by.as_ref(),
                started.elapsed(),
            );
        }
        outcome
    }

    async fn attempt(
        &self,
        key: &ConversationKey,
        trigger: Trigger,
        ids: &TraceIds,
    ) -> Result<(CompactOutcome, Option<(ProviderId, String)>), Failure> {
        let routes: Vec<Route> = self
            .providers
            .load()
            .routes()
            .iter()
            .filter(|route| !costs_nothing(route.provider))
            .cloned()
            .collect();
        let Some(lead) = routes.first() else {
            return Err(Failure::NoModel);
        };
        let replay = self.conversations.replay(key, MATERIAL).await?;
        let bytes_per_token = self.calibration.bytes_per_token(lead);
        let room = plan::Room::of(lead.context_window, bytes_per_token, trigger.is_forced());
        let older = plan::older(&replay.messages, room);
        let before = plan::bytes(older)
            + replay
                .checkpoint
                .as_ref()
                .map_or(0, |checkpoint| checkpoint.text.len());
        let Some(last) = older.last() else {
            return Ok((CompactOutcome::NothingToCompact, None));
        };
        // What the hard limits leave out of the replay needs a record, however little is left of it.
        if before < SMALLEST && trigger != Trigger::Asked {
            return Ok((CompactOutcome::NothingToCompact, None));
        }
        let written = self
            .write(&routes, replay.checkpoint.as_ref(), older, ids)
            .await?;
        if written.text.len() >= before {
            return Err(Failure::NoShorter);
        }
        let after = written.text.len();
        let checkpoint = self.checkpoint(&replay, older, last, &written);
        self.conversations
            .append_checkpoint(key, checkpoint)
            .await?;
        self.state().failed.remove(key);
        let outcome = CompactOutcome::Compacted {
            messages: older.len(),
            bytes_before: before,
            bytes_after: after,
        };
        Ok((outcome, Some((written.provider, written.model))))
    }

    fn checkpoint(
        &self,
        replay: &Replay,
        older: &[StoredMessage],
        last: &StoredMessage,
        written: &Written,
    ) -> NewCheckpoint {
        let standing = replay.checkpoint.as_ref();
        // What the material leaves out is of unknown origin.
        let unknown = replay.left_out > 0;
        NewCheckpoint {
            covers_through: last.id,
            replaces: standing.map(|checkpoint| checkpoint.id),
            text: written.text.clone(),
            guest: unknown
                || standing.is_some_and(|checkpoint| checkpoint.guest)
                || older.iter().any(|message| message.guest),
            tells_of_owner: unknown
                || standing.is_some_and(|checkpoint| checkpoint.tells_of_owner)
                || older.iter().any(|message| !message.guest),
            at: self.clock.now(),
            provider: Some(written.provider.as_str().to_owned()),
            model: Some(written.model.clone()),
            tokens: TokenCounts {
                prompt: Some(written.prompt_tokens),
                completion: Some(written.completion_tokens),
                cached: None,
                cache_creation: None,
            },
        }
    }

    fn failed(&self, key: &ConversationKey, reason: String) -> CompactOutcome {
        tracing::warn!(conversation = %key, reason, "a conversation was not compacted");
        let now = self.clock.now();
        let mut state = self.state();
        if state.failed.len() >= MAX_REMEMBERED && !state.failed.contains_key(key) {
            let oldest = state
                .failed
                .iter()
                .min_by_key(|(_, at)| **at)
                .map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                state.failed.remove(&oldest);
            }
        }
        state.failed.insert(key.clone(), now);
        CompactOutcome::Failed { reason }
    }

    /// The right to compact a conversation; nobody else has it meanwhile.
    fn claim(&self, key: &ConversationKey) -> Option<Claim<'_>> {
        self.state().running.insert(key.clone()).then(|| Claim {
            compactor: self,
            key: key.clone(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Claim<'a> {
    compactor: &'a Compactor,
    key: ConversationKey,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.compactor.state().running.remove(&self.key);
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Self::Log(error.to_string())
    }
}
