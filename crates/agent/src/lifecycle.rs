//! One turn from message to stored answer.
//!
//! The order is what makes a crash harmless: the user's message is stored before anything runs,
//! the answer only after it was delivered, and a request that has no answer is closed by a marker,
//! so that no later turn takes it up by itself.

mod ending;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use fermix_capability::dispatch::Dispatcher;
use fermix_capability::{FrameId, OutsideSources, PromptOrigin, Registry, TurnScope, View};
use fermix_config::Compaction;
use fermix_providers::{Calls, ChatRequest, ErrorKind, ProviderError, Providers, SystemPart};
use fermix_store::{
    Appended, ConversationLog, HistoryLimits, LogError, MessageId, NewUserMessage, Replay, Role,
    StoredMessage, TurnRecord,
};
use fermix_types::{Clock, ConversationKey, Image, Message, TraceIds, TraceSink, Trust};
use futures_util::FutureExt as _;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::agent::is_blank;
use crate::calibration::Calibration;
use crate::compaction::{self, CompactOutcome, Compactor, Trigger};
use crate::history;
use crate::mailbox::{Mailbox, Pending};
use crate::prompt::{PromptFor, Prompts};
use crate::report::{TurnReport, TurnStatus};
use crate::spending::{Spending, TurnSpending};
use crate::traces::Traces;
use crate::turn::event::Events;
use crate::turn::{Progress, TurnEvent, TurnFailure, TurnLoop};
use crate::work_note;

pub(crate) use ending::DELIVERY_DEADLINE;

/// How long the prompt may take.
const PROMPT_DEADLINE: Duration = Duration::from_secs(30);
/// Where a provider takes one.
const TEMPERATURE: f32 = 0.7;

/// Runs turns.
pub(crate) struct Lifecycle {
    pub(crate) registry: Arc<Registry>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    /// A turn keeps those it began with.
    pub(crate) providers: Arc<ArcSwap<Providers>>,
    pub(crate) conversations: Arc<dyn ConversationLog>,
    pub(crate) prompts: Arc<Prompts>,
    pub(crate) spending: Arc<Spending>,
    pub(crate) calibration: Arc<Calibration>,
    pub(crate) compaction: Compaction,
    pub(crate) compactor: Compactor,
    pub(crate) max_iterations: u32,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) trace: Arc<dyn TraceSink>,
    pub(crate) mailbox: Arc<Mailbox>,
}

/// What a turn has come to so far. It outlives a panic of the turn.
#[derive(Default)]
struct Standing {
    session_id: String,
    /// The texts that are no repetition.
    accepted: Vec<String>,
    /// The last of them, as stored: the one that the turn answers.
    request: Option<MessageId>,
    progress: Progress,
    delivered: bool,
    /// The history has nearly reached its hard bound.
    is_near_bound: bool,
}

/// What is to be done in the lane once the turn's caller has been told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct After {
    /// The conversation is to be compacted.
    pub(crate) compacts: bool,
}

/// One turn.
struct Turn<'a> {
    key: &'a ConversationKey,
    pending: Pending,
    /// Cancelled by a stop, and by nothing else.
    stop: CancellationToken,
    /// Cancelled by a stop and when the time is up: ends what runs.
    cancel: CancellationToken,
    spending: TurnSpending,
    started: Instant,
}

impl Turn<'_> {
    fn trust(&self) -> Trust {
        self.pending.caller.trust()
    }

    fn ids(&self, standing: &Standing) -> TraceIds {
        TraceIds {
            session_id: standing.session_id.clone(),
            parent_session: None,
            turn_id: self.pending.turn_id.clone(),
        }
    }
}

/// How an unbroken turn ended.
enum End {
    Answered(String),
    /// A reply without words.
    Acted,
    /// Every message of the turn was a repetition.
    Duplicate,
}

impl Lifecycle {
    /// Runs one turn to its end. Never panics: a defect ends this turn and no other.
    pub(crate) async fn run(
        &self,
        key: &ConversationKey,
        pending: Pending,
        stop: CancellationToken,
    ) -> (TurnReport, After) {
        let turn = Turn {
            key,
            pending,
            cancel: stop.child_token(),
            stop,
            spending: self.spending.turn(),
            started: Instant::now(),
        };
        let mut standing = Standing::default();
        let work = AssertUnwindSafe(self.bounded(&turn, &mut standing)).catch_unwind();
        let end = match work.await {
            Ok(end) => end,
            Err(panic) => Err(TurnFailure::Crashed(panic_words(&*panic))),
        };
        let conclusion = AssertUnwindSafe(self.conclude(&turn, &mut standing, end)).catch_unwind();
        let report = match conclusion.await {
            Ok(report) => report,
            Err(panic) => {
                tracing::error!(conversation = %key, "ending a turn crashed: {}", panic_words(&*panic));
                TurnReport::unstarted(&turn.pending.turn_id, TurnStatus::Crashed, String::new())
            }
        };
        let peak = Some(report.tokens.context).filter(|peak| *peak > 0);
        let is_full = self.compactor.is_overfull(peak) || standing.is_near_bound;
        let after = After {
            compacts: report.status == TurnStatus::Completed
                && is_full
                && self.compactor.may_run(key),
        };
        (report, after)
    }

    /// Compacts the conversation of a turn that has ended. Nothing of it reaches the turn.
    pub(crate) async fn tidy_up(&self, key: &ConversationKey, cancel: &CancellationToken) {
        let work = self.compactor.run(key, Trigger::AfterTurn, cancel);
        if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
            tracing::error!(conversation = %key, "compaction crashed: {}", panic_words(&*panic));
        }
    }

    async fn bounded(&self, turn: &Turn<'_>, standing: &mut Standing) -> Result<End, TurnFailure> {
        let work = self.attempt(turn, standing);
        let Some(limit) = turn.pending.timeout else {
            return work.await;
        };
        tokio::pin!(work);
        if let Ok(end) = tokio::time::timeout(limit, &mut work).await {
            return end;
        }
        // The work ends by itself once it is cancelled; what it holds is released in order.
        turn.cancel.cancel();
        match work.await {
            Err(TurnFailure::Stopped) => Err(TurnFailure::TimedOut(limit)),
            end => end,
        }
    }

    async fn attempt(&self, turn: &Turn<'_>, standing: &mut Standing) -> Result<End, TurnFailure> {
        let caller = &turn.pending.caller;
        let number = self
            .conversations
            .next_session_number()
            .await
            .map_err(TurnFailure::of_log)?;
        standing.session_id = format!("main-{number}");
        let ids = turn.ids(standing);
        let traces = Traces::new(&*self.trace, &ids);
        traces.started(turn.key, caller);
        let events = Events::new(turn.pending.watchers.iter().cloned());
        events.send(&TurnEvent::SessionStarted {
            session_id: ids.session_id.clone(),
        });

        let view = Arc::new(self.registry.view(caller));
        traces.selected(&view);
        let providers = self.providers.load_full();
        let routes = providers.routes();
        // Without any route the call itself says what is missing.
        let (window, model) = routes.first().map_or((0, String::new()), |lead| {
            (lead.context_window, lead.model.clone())
        });
        let history = self.compacted(turn, window).await?;
        standing.progress.compaction_note =
            history.is_checkpoint_news().then_some(compaction::NOTE);
        standing.is_near_bound = history::is_near_bound(&history, self.limits(window));
        self.store_messages(turn, standing).await?;
        if standing.accepted.is_empty() {
            return Ok(End::Duplicate);
        }
        let said: Vec<String> = standing
            .accepted
            .iter()
            .map(|text| history::said(text))
            .collect();
        let said = said.join("\n\n");
        let request = |history: &Replay, system: Vec<SystemPart>, view: &View| {
            let mut messages = history::messages(turn.key, history, turn.trust());
            add_current(&mut messages, said.clone(), turn.pending.images.clone());
            ChatRequest {
                system,
                model: model.clone(),
                messages,
                tools: Arc::clone(view.definitions()),
                calls: Calls::Allowed,
                effort: None,
                max_output_tokens: None,
                temperature: Some(TEMPERATURE),
                cache_key: cache_key(turn.key, turn.trust()),
            }
        };
        let system = self.prompt(turn, &view, &model).await?;
        let mut running = TurnLoop {
            dispatcher: &self.dispatcher,
            providers: &providers,
            spending: &self.spending,
            turn_spending: &turn.spending,
            clock: &*self.clock,
            trace: &*self.trace,
            calibration: &self.calibration,
            compaction: self.compaction,
            scope: self.scope(turn, Arc::clone(&view), ids),
            events: &events,
            max_iterations: self.max_iterations,
        };
        let first = request(&history, system.clone(), &view);
        let mut end = running.run(&routes, first, &mut standing.progress).await;
        if let Err(TurnFailure::Provider(error)) = &end
            && is_refused_unread(error, &standing.progress)
            && let Some(shorter) = self.shortened(turn, window, &history).await?
        {
            standing.progress.compaction_note =
                shorter.is_checkpoint_news().then_some(compaction::NOTE);
            let again = request(&shorter, system, &view);
            end = running.run(&routes, again, &mut standing.progress).await;
        }
        let text = match end {
            // Some wires have an answer without words and some have no answer at all: the same
            // silence, unless there is more to tell of other routes.
            Err(TurnFailure::Provider(error))
                if error.kind == ErrorKind::EmptyResponse && error.details.tried.is_empty() =>
            {
                String::new()
            }
            end => end?,
        };
        self.finish(turn, standing, work_note::without_imitation(&text))
            .await
    }

    fn scope(&self, turn: &Turn<'_>, view: Arc<View>, ids: TraceIds) -> TurnScope {
        let is_owner = turn.trust() == Trust::Operator;
        TurnScope {
            view,
            ids,
            conversation: Some(turn.key.clone()),
            cwd: turn.pending.cwd.clone().filter(|_| is_owner),
            session_env: if is_owner {
                Arc::clone(&turn.pending.session_env)
            } else {
                Arc::default()
            },
            cancel: turn.cancel.clone(),
            outside_sources: OutsideSources::clean(),
            origin: is_owner.then(|| PromptOrigin {
                conversation: turn.key.clone(),
                user: turn
                    .pending
                    .sender
                    .clone()
                    .unwrap_or_else(|| "owner".to_owned()),
            }),
            approval: turn.pending.approval.clone().filter(|_| is_owner),
            frame: FrameId::random(),
        }
    }

    fn limits(&self, window: u64) -> HistoryLimits {
        history::limits(window, self.compaction.enabled)
    }

    /// The conversation so far. A request that a crash left without an end is closed first.
    async fn replayed(
        &self,
        turn: &Turn<'_>,
        limits: HistoryLimits,
    ) -> Result<Replay, TurnFailure> {
        let stored = self
            .conversations
            .replay(turn.key, limits)
            .await
            .map_err(TurnFailure::of_log)?;
        let Some(last) = stored
            .messages
            .last()
            .filter(|last| last.role == Role::User)
        else {
            return Ok(stored);
        };
        let record = TurnRecord {
            at: self.clock.now(),
            ..TurnRecord::default()
        };
        let marked = self
            .conversations
            .append_unfinished_marker(turn.key, last.id, record)
            .await;
        match marked {
            Ok(_) => {}
            // Only damaged rows have an end that is not found from the conversation.
            Err(LogError::AlreadyAnswered(_) | LogError::NoSuchRequest(_)) => {}
            Err(error) => return Err(TurnFailure::of_log(error)),
        }
        let mut stored = self
            .conversations
            .replay(turn.key, limits)
            .await
            .map_err(TurnFailure::of_log)?;
        without_open_requests(&mut stored);
        Ok(stored)
    }

    /// The conversation so far, compacted first when the turn before says that it is too long. That
    /// it could not be compacted stops no turn.
    async fn compacted(&self, turn: &Turn<'_>, window: u64) -> Result<Replay, TurnFailure> {
        let limits = self.limits(window);
        let stored = self.replayed(turn, limits).await?;
        if !self.compactor.is_due(turn.key, &stored) {
            return Ok(stored);
        }
        let outcome = self
            .compactor
            .run(turn.key, Trigger::BeforeTurn, &turn.cancel)
            .await;
        match outcome {
            CompactOutcome::Compacted { .. } => self.replayed(turn, limits).await,
            CompactOutcome::Stopped if turn.cancel.is_cancelled() => Err(TurnFailure::Stopped),
            _ => Ok(stored),
        }
    }

    /// A shorter history in place of one that a provider refused: compacted, or else cut to half.
    /// `None` when there is nothing to leave out.
    async fn shortened(
        &self,
        turn: &Turn<'_>,
        window: u64,
        refused: &Replay,
    ) -> Result<Option<Replay>, TurnFailure> {
        if refused.messages.is_empty() && refused.checkpoint.is_none() {
            return Ok(None);
        }
        let mut outcome = CompactOutcome::NothingToCompact;
        if self.compactor.may_run(turn.key) {
            outcome = self
                .compactor
                .run(turn.key, Trigger::Refused, &turn.cancel)
                .await;
        }
        let limits = match outcome {
            CompactOutcome::Compacted { .. } => self.limits(window),
            CompactOutcome::Stopped if turn.cancel.is_cancelled() => {
                return Err(TurnFailure::Stopped);
            }
            _ => HistoryLimits {
                max_bytes: history::bytes(refused) / 2,
                max_messages: refused.messages.len().max(1),
            },
        };
        let mut shorter = self
            .conversations
            .replay(turn.key, limits)
            .await
            .map_err(TurnFailure::of_log)?;
        // The turn's own request stands at the end, and is shown as the one that is asked.
        without_open_requests(&mut shorter);
        let is_shorter = history::bytes(&shorter) < history::bytes(refused);
        Ok(is_shorter.then_some(shorter))
    }

    /// Stores the turn's messages, all but those that were accepted before.
    async fn store_messages(
        &self,
        turn: &Turn<'_>,
        standing: &mut Standing,
    ) -> Result<(), TurnFailure> {
        for message in &turn.pending.messages {
            let text = if is_blank(&message.text) {
                match turn.pending.images.len() {
                    1 => "[an image]".to_owned(),
                    count => format!("[{count} images]"),
                }
            } else {
                message.text.clone()
            };
            let stored = NewUserMessage {
                text: text.clone(),
                guest: turn.trust() == Trust::Guest,
                at: self.clock.now(),
                platform_message_id: message.platform_message_id.clone(),
            };
            match self
                .conversations
                .append_user(turn.key, stored)
                .await
                .map_err(TurnFailure::of_log)?
            {
                Appended::Stored(id) => {
                    standing.request = Some(id);
                    standing.accepted.push(text);
                }
                Appended::Duplicate(_) => {}
            }
        }
        Ok(())
    }

    async fn prompt(
        &self,
        turn: &Turn<'_>,
        view: &Arc<View>,
        model: &str,
    ) -> Result<Vec<SystemPart>, TurnFailure> {
        let prompts = Arc::clone(&self.prompts);
        let (view, model) = (Arc::clone(view), model.to_owned());
        let channel = turn.key.channel.clone();
        let folder = turn.pending.working_folder.clone();
        let now = self.clock.now();
        let building = tokio::task::spawn_blocking(move || {
            prompts.assemble(&PromptFor {
                view: &view,
                channel: &channel,
                folder: folder.as_deref(),
                now,
                model: &model,
            })
        });
        let built = tokio::select! {
            biased;
            () = turn.cancel.cancelled() => return Err(TurnFailure::Stopped),
            built = tokio::time::timeout(PROMPT_DEADLINE, building) => built,
        };
        match built {
            Ok(Ok(parts)) => Ok(parts),
            Ok(Err(error)) => Err(TurnFailure::Crashed(error.to_string())),
            Err(_) => Err(TurnFailure::NotReady),
        }
    }
}

/// Takes away the requests at the end that have no answer: shown before the one that is asked, they
/// would be taken up with it.
fn without_open_requests(stored: &mut Replay) {
    let is_open = |last: &StoredMessage| last.role == Role::User;
    while stored.messages.last().is_some_and(is_open) {
        stored.messages.pop();
    }
}

/// Whether a provider refused the conversation for its length before anything came of it.
fn is_refused_unread(error: &ProviderError, progress: &Progress) -> bool {
    error.kind == ErrorKind::ContextLength
        && error.details.partial_text.is_empty()
        && progress.tool_calls == 0
}

/// Adds the turn's own message. After a request without an end it continues that one.
fn add_current(messages: &mut Vec<Message>, text: String, images: Vec<Image>) {
    history::add_user(messages, text);
    if let Some(Message::User(user)) = messages.last_mut() {
        user.images = images;
    }
}

/// Names the conversation to a provider without telling who it is with. A guest's requests begin
/// with other bytes than the owner's, so they have a key of their own.
fn cache_key(key: &ConversationKey, reader: Trust) -> String {
    hex::encode(&Sha256::digest(format!("{key}\n{}", reader.as_str()))[..16])
}

fn panic_words(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| {
            panic
                .downcast_ref::<&str>()
                .map(|words| (*words).to_owned())
        })
        .unwrap_or_else(|| "no words".to_owned())
}
