//! The agent's face: take messages, stop turns, say what goes on, shut down.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use fermix_capability::Registry;
use fermix_capability::dispatch::Dispatcher;
use fermix_providers::Providers;
use fermix_store::{ConversationLog, LogError};
use fermix_types::{Clock, ConversationKey, TraceSink};
use futures_util::FutureExt as _;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::calibration::Calibration;
use crate::compaction::{CompactOutcome, Compactor, CompactorParts, Trigger};
use crate::lifecycle::Lifecycle;
use crate::mailbox::{Accepted, Incoming, LaneStatus, Mailbox, MailboxStatus, Pending, StopCounts};
use crate::prompt::Prompts;
use crate::reply::ReplyPort;
use crate::report::{
    MAX_IMAGE_BYTES, MAX_IMAGES, MAX_MESSAGE, Submitted, TurnReport, TurnRequest, TurnStatus,
};
use crate::settings::AgentSettings;
use crate::spending::Spending;
use crate::turn::TurnEvent;

/// How many answers to refused messages are on their way at once. More are not sent.
const MAX_REFUSALS: usize = 32;
/// How long stopped turns are waited for at shutdown: the grace of their tools, and a little.
const STOP_WAIT: Duration = Duration::from_secs(6);

/// What an agent is made of.
pub struct AgentParts {
    /// Everything that can be called.
    pub registry: Arc<Registry>,
    /// Runs the calls.
    pub dispatcher: Arc<Dispatcher>,
    /// The models.
    pub providers: Arc<Providers>,
    /// Where conversations are kept.
    pub conversations: Arc<dyn ConversationLog>,
    /// The agent's settings and folders.
    pub settings: AgentSettings,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Takes the trace rows.
    pub trace: Arc<dyn TraceSink>,
}

/// The agent. Cheap to clone; every clone is the same agent.
#[derive(Clone)]
pub struct Agent(Arc<Inner>);

struct Inner {
    mailbox: Arc<Mailbox>,
    lifecycle: Lifecycle,
    refusals: Arc<Semaphore>,
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// What was stopped because it did not end in time.
    pub stopped: StopCounts,
    /// Conversations whose turn did not even end after it was stopped, and was dropped.
    pub abandoned: usize,
}

impl Agent {
    /// Puts an agent together. Nothing runs until a message comes.
    pub fn new(parts: AgentParts) -> Self {
        let settings = Arc::new(parts.settings);
        let mailbox = Arc::new(Mailbox::new(settings.coalesce));
        let spending = Arc::new(Spending::new(
            settings.daily_token_budget,
            Arc::clone(&parts.conversations),
        ));
        let calibration = Arc::new(Calibration::default());
        let providers = Arc::new(ArcSwap::new(parts.providers));
        let compactor = Compactor::new(CompactorParts {
            settings: settings.compaction,
            providers: Arc::clone(&providers),
            conversations: Arc::clone(&parts.conversations),
            spending: Arc::clone(&spending),
            calibration: Arc::clone(&calibration),
            clock: Arc::clone(&parts.clock),
            trace: Arc::clone(&parts.trace),
        });
        let lifecycle = Lifecycle {
            registry: parts.registry,
            dispatcher: parts.dispatcher,
            providers,
            spending,
            calibration,
            compaction: settings.compaction,
            compactor,
            conversations: parts.conversations,
            prompts: Arc::new(Prompts::new(Arc::clone(&settings))),
            max_iterations: settings.max_iterations,
            clock: parts.clock,
            trace: parts.trace,
            mailbox: Arc::clone(&mailbox),
        };
        Self(Arc::new(Inner {
            mailbox,
            lifecycle,
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
        }))
    }

    /// Takes a message. It is answered through `reply`, after the messages of its conversation
    /// that came before it. `events` previews the turn. Must be called within a Tokio runtime.
    pub fn submit(
        &self,
        request: TurnRequest,
        reply: Arc<dyn ReplyPort>,
        events: Option<mpsc::Sender<TurnEvent>>,
    ) -> Submitted {
        let turn_id = new_turn_id();
        let (done, receiver) = oneshot::channel();
        let problem = unacceptable(&request);
        let key = request.conversation;
        let pending = Pending {
            turn_id: turn_id.clone(),
            caller: request.caller,
            sender: request.sender,
            messages: vec![Incoming {
                text: request.text,
                platform_message_id: request.platform_message_id,
            }],
            images: request.images,
            cwd: request.cwd,
            working_folder: request.working_folder,
            session_env: request.session_env,
            timeout: request.timeout,
            reply,
            is_alone: request.is_alone,
            approval: request.approval,
            watchers: events.into_iter().collect(),
            done: vec![done],
        };
        let mut submitted = Submitted {
            turn_id,
            done: receiver,
        };
        if let Some(problem) = problem {
            self.refuse(pending, problem);
            return submitted;
        }
        match self.0.mailbox.push(&key, pending) {
            Accepted::StartLane => self.start_lane(key),
            Accepted::Queued => {}
            Accepted::Merged(turn_id) => submitted.turn_id = turn_id,
            Accepted::Busy(pending, requests) => self.refuse(
                *pending,
                format!("Still busy with {requests} requests. Please send that again later."),
            ),
            Accepted::Closed(pending) => self.refuse(
                *pending,
                "Fermix is shutting down. Please send that again later.".to_owned(),
            ),
        }
        submitted
    }

    /// Stops one conversation: its running turn, unless committed, and everything that waits.
    /// Returns at once; the turn is gone within seconds.
    pub fn stop(&self, conversation: &ConversationKey) -> StopCounts {
        self.stop_some(Some(conversation))
    }

    /// Stops one turn, whether it runs or still waits. What else waits in its conversation stays.
    pub fn stop_turn(&self, conversation: &ConversationKey, turn_id: &str) -> StopCounts {
        let (counts, dropped) = self.0.mailbox.stop_turn(conversation, turn_id);
        tell_stopped(dropped);
        counts
    }

    /// Whether a turn of the conversation runs or waits.
    pub fn is_busy(&self, conversation: &ConversationKey) -> bool {
        self.0.mailbox.is_busy(conversation)
    }

    /// Lets the turns that begin from now on ask other providers.
    pub fn use_providers(&self, providers: Arc<Providers>) {
        self.0.lifecycle.providers.store(providers);
    }

    /// Stops every conversation.
    pub fn stop_all(&self) -> StopCounts {
        self.stop_some(None)
    }

    fn stop_some(&self, only: Option<&ConversationKey>) -> StopCounts {
        let (counts, dropped) = self.0.mailbox.stop(only);
        tell_stopped(dropped);
        counts
    }

    /// Summarises the older part of a conversation now, whether or not it is long (`/compact`). What
    /// runs in it meanwhile is not disturbed.
    pub async fn compact(&self, conversation: &ConversationKey) -> CompactOutcome {
        let never = CancellationToken::new();
        let compactor = &self.0.lifecycle.compactor;
        compactor.run(conversation, Trigger::Asked, &never).await
    }

    /// Begins a new session of a conversation (`/new`): nothing said before is shown to the model
    /// again, and all of it stays stored. Says whether there was a conversation.
    pub async fn new_session(&self, conversation: &ConversationKey) -> Result<bool, LogError> {
        let lifecycle = &self.0.lifecycle;
        lifecycle
            .conversations
            .reset(conversation, lifecycle.clock.now())
            .await
    }

    /// What runs and what waits.
    pub fn status(&self) -> MailboxStatus {
        self.0.mailbox.status()
    }

    /// What runs and what waits, conversation by conversation.
    pub fn lanes(&self) -> Vec<LaneStatus> {
        self.0.mailbox.lanes()
    }

    /// Takes no further message, lets what runs and waits end for `grace`, then stops it.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.0.mailbox.close();
        self.0.lifecycle.compactor.closing.cancel();
        let mut report = ShutdownReport::default();
        if tokio::time::timeout(grace, self.0.mailbox.idle())
            .await
            .is_ok()
        {
            return report;
        }
        report.stopped = self.stop_all();
        if tokio::time::timeout(STOP_WAIT, self.0.mailbox.idle())
            .await
            .is_err()
        {
            report.abandoned = self.0.mailbox.abort();
        }
        report
    }

    fn start_lane(&self, key: ConversationKey) {
        let inner = Arc::clone(&self.0);
        let lane = key.clone();
        let task = tokio::spawn(async move {
            while let Some((mut pending, cancel)) = inner.mailbox.next(&lane) {
                let done = std::mem::take(&mut pending.done);
                let (report, after) = inner.lifecycle.run(&lane, pending, cancel).await;
                // Whoever waits for the answer does not wait for what follows it.
                tell(done, &report);
                if after.compacts
                    && let Some(cancel) = inner.mailbox.settle(&lane)
                {
                    inner.lifecycle.tidy_up(&lane, &cancel).await;
                }
            }
        });
        self.0.mailbox.lane_started(&key, task.abort_handle());
    }

    /// Answers a message that starts no turn. Under a flood of them most get no answer.
    fn refuse(&self, pending: Pending, words: String) {
        let report = TurnReport::unstarted(&pending.turn_id, TurnStatus::Refused, words.clone());
        if let Ok(permit) = Arc::clone(&self.0.refusals).try_acquire_owned() {
            let reply = pending.reply;
            tokio::spawn(async move {
                let delivery = AssertUnwindSafe(reply.deliver(&words, None)).catch_unwind();
                let delivered =
                    tokio::time::timeout(crate::lifecycle::DELIVERY_DEADLINE, delivery).await;
                if !matches!(delivered, Ok(Ok(Ok(())))) {
                    tracing::warn!("a refusal could not be delivered");
                }
                drop(permit);
            });
        } else {
            tracing::warn!("a message was refused without an answer: too many are on their way");
        }
        tell(pending.done, &report);
    }
}

/// Why a message starts no turn.
fn unacceptable(request: &TurnRequest) -> Option<String> {
    let image_bytes: usize = request.images.iter().map(|image| image.data.len()).sum();
    if is_blank(&request.text) && request.images.is_empty() {
        Some("The message is empty. Please send some words or an image.".to_owned())
    } else if request.text.len() > MAX_MESSAGE {
        Some(format!(
            "The message has {} bytes; {MAX_MESSAGE} are taken. Please put the text into a file and name it.",
            request.text.len()
        ))
    } else if request.images.len() > MAX_IMAGES || image_bytes > MAX_IMAGE_BYTES {
        Some(format!(
            "Too many or too large images: {MAX_IMAGES} images and {} MiB are taken. Please send fewer.",
            MAX_IMAGE_BYTES >> 20
        ))
    } else {
        None
    }
}

/// What looks blank to a reader is blank: neither providers nor the store take it.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|character| character.is_whitespace() || character.is_control())
}

/// Tells whoever waits for turns that will not begin.
fn tell_stopped(dropped: Vec<Pending>) {
    for pending in dropped {
        let report = TurnReport::unstarted(&pending.turn_id, TurnStatus::Stopped, String::new());
        tell(pending.done, &report);
    }
}

fn tell(done: Vec<oneshot::Sender<TurnReport>>, report: &TurnReport) {
    for sender in done {
        // Who no longer waits need not be told.
        let _ = sender.send(report.clone());
    }
}

fn new_turn_id() -> String {
    let mut bytes = [0_u8; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    hex::encode(bytes)
}
