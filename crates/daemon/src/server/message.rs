//! `agent_message`: words for the agent, or a slash command, from the owner or from a process that
//! Fermix started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fermix_agent::{TurnEvent, TurnReport, TurnStatus};
use fermix_api::{Done, Event, ImagePart};
use fermix_capability::{ApprovalPort, ApprovalPrompt, PromptOrigin};
use fermix_channels::LocalPeer;
use fermix_channels::commands::{self, Asker, Standing};
use fermix_types::ConversationKey;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::Server;
use super::outlet::{Gone, Outlet};
use super::peer::Peer;
use crate::engine::{Question, Turn};
use crate::locks::Share;
use crate::{events, images};

/// The conversation of a message that names none.
pub(super) const DEFAULT_SESSION: &str = "cli";
/// How long a turn may take when the message does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest a turn may take whatever the message says.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a turn whose client is gone is waited for, so that its rows are written.
const STOP_GRACE: Duration = Duration::from_secs(8);
/// Events that wait for a client.
const EVENT_QUEUE: usize = 256;
/// Prompts that wait for a client: one conversation's turn shows one at a time.
const PROMPT_QUEUE: usize = 8;

/// A message as it was asked.
pub(super) struct Asked {
    pub(super) content: String,
    pub(super) session_id: Option<String>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) images: Vec<ImagePart>,
    pub(super) stream: bool,
    pub(super) can_approve: bool,
}

/// How a message ended.
pub(super) struct Ended {
    pub(super) done: Done,
    /// The name of the failure, for programs; unused when there is an answer.
    pub(super) reason: &'static str,
}

/// What a message came to before anything ran.
enum Started {
    /// A turn.
    Turn(Box<Running>),
    /// An end without one.
    Ended(Ended),
}

struct Running {
    turn: Turn,
    events: mpsc::Receiver<TurnEvent>,
    prompts: mpsc::Receiver<Event>,
    _conversation: Share,
}

impl Server {
    /// Answers a message. A client that goes away stops its turn.
    pub(super) async fn agent_message(
        &self,
        asked: Asked,
        peer: Peer,
        mut reader: OwnedReadHalf,
        writer: &mut OwnedWriteHalf,
    ) {
        let session = asked
            .session_id
            .clone()
            .unwrap_or_else(|| DEFAULT_SESSION.to_owned());
        let mut outlet = Outlet::new(writer, asked.stream);
        let started = tokio::select! {
            started = self.start(asked, &session, peer, &mut outlet) => started,
            () = closed(&mut reader) => return,
        };
        let mut running = match started {
            Ok(Started::Turn(running)) => running,
            Ok(Started::Ended(ended)) => return outlet.end(ended).await,
            Err(Gone) => return,
        };
        let report = tokio::select! {
            report = outlet.follow(&mut running) => report,
            () = closed(&mut reader) => Err(Gone),
        };
        match report {
            Ok(report) => outlet.end(of_report(report, &session)).await,
            Err(Gone) => {
                running.turn.stop();
                let _ = tokio::time::timeout(STOP_GRACE, running.turn.end()).await;
            }
        }
    }

    async fn start(
        &self,
        asked: Asked,
        session: &str,
        peer: Peer,
        outlet: &mut Outlet<'_>,
    ) -> Result<Started, Gone> {
        let begun = Instant::now();
        let failed = |reason, words: String| Ok(Started::Ended(failure(reason, words, session)));
        if !is_session_id(session) {
            let words = "a session id has 1 to 64 ASCII letters, digits, `-`, `_` or `.` and does not start with `.`";
            return failed("invalid_session", words.to_owned());
        }
        let timeout = asked
            .timeout_ms
            .map_or(DEFAULT_TIMEOUT, Duration::from_millis)
            .min(MAX_TIMEOUT);
        let conversation = ConversationKey::root("cli", session);
        let asker = Asker {
            origin: origin(session),
            standing: Standing::local(peer.local, peer.has_terminal),
            bot_name: None,
        };
        self.engine.read_secrets().await;
        // Before the conversation's turn, so that `/stop` does not wait for what it stops.
        match self.engine.command(&asked.content, &asker).await {
            Ok(None) => {}
            Ok(Some(outcome)) => {
                return Ok(Started::Ended(Ended {
                    done: events::of_command(outcome, session),
                    reason: "refused",
                }));
            }
            Err(error) => return failed("unavailable", error.to_string()),
        }
        if is_blank(&asked.content) && asked.images.is_empty() {
            return failed("empty_input", "there is no message".to_owned());
        }
        let is_in_person = peer.local == LocalPeer::InPerson;
        let parts = asked.images;
        let images = tokio::task::spawn_blocking(move || images::read_all(&parts, is_in_person));
        let images = match images.await {
            Ok(Ok(images)) => images,
            Ok(Err(words)) => return failed("invalid_image_payload", words),
            Err(_) => return failed("crashed", "the images could not be read".to_owned()),
        };
        if self.engine.agent_so_far().is_none() {
            let engine = Arc::clone(&self.engine);
            match tokio::task::spawn_blocking(move || engine.agent().map(drop)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return failed("unavailable", error.to_string()),
                Err(_) => return failed("crashed", "the agent could not be made".to_owned()),
            }
        }
        // What a turn itself asks must not wait for that turn, which waits for it.
        let wait = if is_in_person {
            timeout
        } else {
            Duration::ZERO
        };
        let share = match self.locks.share(&conversation, wait).await {
            Ok(share) => share,
            Err(error) => return failed("busy", error.to_string()),
        };
        let is_busy = || {
            let agent = self.engine.agent_so_far();
            agent.is_some_and(|agent| agent.is_busy(&conversation))
        };
        if !is_in_person && is_busy() {
            let words = format!("the conversation `{session}` has a running turn; use another one");
            return failed("busy", words);
        }
        if let Some(text) = self
            .engine
            .working_elsewhere(asked.cwd.as_deref(), peer.local)
        {
            outlet.event(&Event::Notice { text }).await?;
        }
        let (shows, prompts) = mpsc::channel(PROMPT_QUEUE);
        let can_approve =
            asked.stream && asked.can_approve && peer.can_answer() && self.engine.takes_answers();
        let approval = can_approve.then(|| Arc::new(StreamPrompts(shows)) as Arc<dyn ApprovalPort>);
        let (watcher, events) = mpsc::channel(EVENT_QUEUE);
        let question = Question {
            conversation,
            peer: peer.local,
            text: asked.content,
            images,
            cwd: asked.cwd,
            timeout: Some(timeout.saturating_sub(begun.elapsed())),
            approval,
        };
        match self.engine.begin(question, asked.stream.then_some(watcher)) {
            Ok(turn) => Ok(Started::Turn(Box::new(Running {
                turn,
                events,
                prompts,
                _conversation: share,
            }))),
            Err(error) => failed("unavailable", error.to_string()),
        }
    }
}

impl Outlet<'_> {
    /// Tells the turn's events until it ends. `None`: a shutdown ended it by force.
    async fn follow(&mut self, running: &mut Running) -> Result<Option<TurnReport>, Gone> {
        loop {
            tokio::select! {
                biased;
                Some(event) = running.events.recv() => self.turn_event(event).await?,
                Some(prompt) = running.prompts.recv() => self.event(&prompt).await?,
                report = running.turn.end() => {
                    while let Ok(event) = running.events.try_recv() {
                        self.turn_event(event).await?;
                    }
                    return Ok(report);
                }
            }
        }
    }

    async fn turn_event(&mut self, event: TurnEvent) -> Result<(), Gone> {
        match events::of_turn(event) {
            Some(event) => self.event(&event).await,
            None => Ok(()),
        }
    }
}

/// Shows prompts among the events of a stream.
#[derive(Debug)]
struct StreamPrompts(mpsc::Sender<Event>);

#[async_trait]
impl ApprovalPort for StreamPrompts {
    /// The socket is the owner's alone.
    fn is_private(&self) -> bool {
        true
    }

    async fn show(&self, prompt: &ApprovalPrompt) -> Result<(), String> {
        self.0
            .send(events::of_prompt(prompt))
            .await
            .map_err(|_| "the client has gone away".to_owned())
    }
}

/// Where prompts of a conversation of this socket are shown, and who answers them.
pub(super) fn origin(session: &str) -> PromptOrigin {
    PromptOrigin {
        conversation: ConversationKey::root("cli", session),
        user: commands::LOCAL_USER.to_owned(),
    }
}

/// Resolves when the client has closed its side. It has nothing more to say, so what it still says
/// is passed over.
async fn closed(reader: &mut OwnedReadHalf) {
    let mut rest = [0; 256];
    while matches!(reader.read(&mut rest).await, Ok(count) if count > 0) {}
}

fn of_report(report: Option<TurnReport>, session: &str) -> Ended {
    let stopped = || "the turn was stopped before it had an answer".to_owned();
    let Some(report) = report else {
        return failure("stopped", stopped(), session);
    };
    let mut done = events::of_report(&report, session);
    if done.error.as_deref().is_some_and(is_blank) {
        done.error = Some(stopped());
    }
    Ended {
        done,
        reason: match report.status {
            TurnStatus::Completed | TurnStatus::Failed => "failed",
            TurnStatus::Stopped => "stopped",
            TurnStatus::TimedOut => "timeout",
            TurnStatus::Crashed => "crashed",
            TurnStatus::Refused => "refused",
            TurnStatus::Duplicate => "duplicate",
        },
    }
}

fn failure(reason: &'static str, words: String, session: &str) -> Ended {
    Ended {
        done: Done {
            status: "error".to_owned(),
            error: Some(words),
            session_id: session.to_owned(),
            ..Done::default()
        },
        reason,
    }
}

/// A session id becomes part of trace rows and of what is shown.
pub(super) fn is_session_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=64).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('.')
}

fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|character| character.is_whitespace() || character.is_control())
}
