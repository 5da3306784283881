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
use fermix_providers::{Calls, ChatRequest, ErrorKind, Providers, SystemPart};
use fermix_store::{Appended, ConversationLog, MessageId, NewUserMessage, Role, TurnRecord};
use fermix_types::{Clock, ConversationKey, Image, Message, TraceIds, TraceSink, Trust};
use futures_util::FutureExt as _;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::agent::is_blank;
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
    pub(crate) providers: ArcSwap<Providers>,
    pub(crate) conversations: Arc<dyn ConversationLog>,
    pub(crate) prompts: Arc<Prompts>,
    pub(crate) spending: Spending,
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
    ) -> TurnReport {
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
        match conclusion.await {
            Ok(report) => report,
            Err(panic) => {
                tracing::error!(conversation = %key, "ending a turn crashed: {}", panic_words(&*panic));
                TurnReport::unstarted(&turn.pending.turn_id, TurnStatus::Crashed, String::new())
            }
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
        let mut messages = self.replayed(turn, window).await?;
        self.store_messages(turn, standing).await?;
        if standing.accepted.is_empty() {
            return Ok(End::Duplicate);
        }
        let said: Vec<String> = standing
            .accepted
            .iter()
            .map(|text| history::said(text))
            .collect();
        add_current(
            &mut messages,
            said.join("\n\n"),
            turn.pending.images.clone(),
        );
        let request = ChatRequest {
            system: self.prompt(turn, &view, &model).await?,
            model,
            messages,
            tools: Arc::clone(view.definitions()),
            calls: Calls::Allowed,
            effort: None,
            max_output_tokens: None,
            temperature: Some(TEMPERATURE),
            cache_key: cache_key(turn.key, turn.trust()),
        };
        let scope = self.scope(turn, view, ids);
        let running = TurnLoop {
            dispatcher: &self.dispatcher,
            providers: &providers,
            spending: &self.spending,
            turn_spending: &turn.spending,
            clock: &*self.clock,
            scope: &scope,
            events: &events,
            max_iterations: self.max_iterations,
        };
        let text = match running.run(&routes, request, &mut standing.progress).await {
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

    /// The conversation so far. A request that a crash left without an end is closed first.
    async fn replayed(&self, turn: &Turn<'_>, window: u64) -> Result<Vec<Message>, TurnFailure> {
        let limits = history::limits(window);
        let mut stored = self
            .conversations
            .history(turn.key, limits)
            .await
            .map_err(TurnFailure::of_log)?;
        if let Some(last) = stored.last()
            && last.role == Role::User
        {
            let record = TurnRecord {
                at: self.clock.now(),
                ..TurnRecord::default()
            };
            self.conversations
                .append_unfinished_marker(turn.key, last.id, record)
                .await
                .map_err(TurnFailure::of_log)?;
            stored = self
                .conversations
                .history(turn.key, limits)
                .await
                .map_err(TurnFailure::of_log)?;
        }
        Ok(history::messages(turn.key, &stored, turn.trust()))
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
