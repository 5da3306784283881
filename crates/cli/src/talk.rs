//! Talking to the agent: through the daemon when one runs, in this process when none does.
//!
//! Both tell the same events, so that whoever shows them need not know who answers.

pub mod attach;
mod follow;
mod here;
mod preview;
pub mod print;
mod prompts;
mod tty;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fermix_api::{Event, Request};
use fermix_daemon::LocalPeer;
use fermix_daemon::commands;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::{ClientError, Daemon};
use crate::output;
use crate::start::Start;

pub use attach::Attachment;
pub use follow::{Ended, follow};
use here::Here;
pub use tty::{Restore, Tty};

/// The conversation of a terminal: what `chat` goes on with, and what a slash command given with
/// `ask` is about.
pub const TERMINAL_SESSION: &str = "cli";
/// How long a turn through the daemon may take when nobody says: as long as in this process,
/// where nothing ends it but its end.
const UNLIMITED: Duration = Duration::from_secs(24 * 60 * 60);
/// How much longer than its turn a client waits.
const CLIENT_WAIT: Duration = Duration::from_secs(1);

/// A message of the owner.
pub struct Message {
    /// The words: for the agent, or a slash command.
    pub text: String,
    /// What is shown.
    pub images: Vec<Attachment>,
    /// The conversation.
    pub session: String,
    /// How long the turn may take.
    pub timeout: Option<Duration>,
    /// Whether prompts can be shown and answered.
    pub can_approve: bool,
}

/// Why nothing was asked.
#[derive(Debug)]
pub enum NotAsked {
    /// The daemon was insisted on, and none runs.
    NotRunning,
    /// Something else, in words.
    Failed(String),
}

impl From<String> for NotAsked {
    fn from(words: String) -> Self {
        Self::Failed(words)
    }
}

/// A message on its way.
pub struct Running {
    /// What it tells; the last is `done`, or why there is none.
    pub events: mpsc::Receiver<Result<Event, String>>,
    /// When to give up, whatever the other side does.
    pub deadline: Option<Instant>,
    answers: Answers,
    session: String,
    cancel: CancellationToken,
    _stops_when_dropped: DropGuard,
}

/// Who takes the answer to a prompt.
enum Answers {
    Daemon(Daemon),
    Here(here::Answers),
}

impl Running {
    /// Stops the turn and waits until it has put its things away.
    pub async fn stop(mut self) {
        self.cancel.cancel();
        while self.events.recv().await.is_some() {}
    }

    /// Gives the owner's answer to a prompt.
    pub async fn answer(&self, token: &str, choice: &str) -> Result<(), String> {
        match &self.answers {
            Answers::Daemon(daemon) => {
                let request = Request::Answer {
                    token: token.to_owned(),
                    choice: Some(choice.to_owned()),
                    session_id: self.session.clone(),
                };
                match daemon.request(&request).await {
                    Ok(_) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            }
            Answers::Here(answers) => answers.answer(token, choice).await,
        }
    }
}

/// Who answers now; a change is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Daemon,
    Here,
}

/// The way to the agent.
pub struct Talker<'a> {
    start: &'a Start,
    daemon: Daemon,
    insists: bool,
    roots: Vec<PathBuf>,
    here: Option<Here>,
    told: Option<Place>,
}

impl<'a> Talker<'a> {
    /// `insists`: nobody but the daemon may answer. `roots` are folders of this invocation alone.
    pub fn new(start: &'a Start, insists: bool, roots: Vec<PathBuf>) -> Result<Self, String> {
        if !roots.is_empty() && start.peer() == LocalPeer::StartedByFermix {
            return Err(
                "--root is the owner's to give, and this process was started by Fermix; \
                 ask in your own terminal"
                    .to_owned(),
            );
        }
        Ok(Self {
            start,
            daemon: Daemon::of(&start.home),
            insists,
            roots,
            here: None,
            told: None,
        })
    }

    /// Whether the daemon takes connections.
    pub async fn is_daemon_there(&self) -> bool {
        self.daemon.is_there().await
    }

    /// Says something. The daemon is looked for each time: it may have come or gone meanwhile.
    pub async fn say(&mut self, message: Message) -> Result<Running, NotAsked> {
        if self.roots.is_empty() {
            match self.ask_daemon(&message).await {
                Ok(running) => {
                    if self.told == Some(Place::Here) {
                        output::notice("a daemon is running now, and answers");
                    }
                    self.told = Some(Place::Daemon);
                    return Ok(running);
                }
                Err(ClientError::NotRunning) if self.insists => return Err(NotAsked::NotRunning),
                Err(ClientError::NotRunning) => {}
                Err(error) => return Err(NotAsked::Failed(error.to_string())),
            }
        }
        self.say_here(message).await
    }

    /// Gets ready to answer in this process, and says so once.
    async fn say_here(&mut self, message: Message) -> Result<Running, NotAsked> {
        if self.told != Some(Place::Here) {
            let words = if self.told.is_some() {
                "the daemon is gone; answering in this process"
            } else if !self.roots.is_empty() && self.daemon.is_there().await {
                "--root is for this command alone, so it is answered here and not by the daemon"
            } else {
                "no daemon is running; answering in this process"
            };
            output::notice(words);
            self.told = Some(Place::Here);
        }
        let here = match &self.here {
            Some(here) => here,
            None => self.here.insert(Here::open(self.start, &self.roots)?),
        };
        Ok(here.ask(message))
    }

    async fn ask_daemon(&self, message: &Message) -> Result<Running, ClientError> {
        let images = attach::parts(&message.images).map_err(ClientError::Broken)?;
        let timeout = message.timeout.unwrap_or(UNLIMITED);
        let request = Request::AgentMessage {
            content: message.text.clone(),
            session_id: Some(message.session.clone()),
            timeout_ms: Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            // Paths are text in a request.
            cwd: self.start.cwd.clone().filter(|cwd| cwd.to_str().is_some()),
            images,
            stream: true,
            can_approve: message.can_approve,
        };
        let cancel = CancellationToken::new();
        let events = self.daemon.stream(&request, cancel.clone()).await?;
        Ok(Running {
            events,
            deadline: message
                .timeout
                .and_then(|timeout| Instant::now().checked_add(timeout + CLIENT_WAIT)),
            answers: Answers::Daemon(self.daemon.clone()),
            session: message.session.clone(),
            _stops_when_dropped: cancel.clone().drop_guard(),
            cancel,
        })
    }
}

/// Whether the text has the name of a slash command.
pub fn is_command(text: &str) -> bool {
    commands::parse(text, None)
        .is_some_and(|invocation| commands::table::find(&invocation.name).is_some())
}

/// Whether the owner can be asked here: they are in person, at a terminal that this process may
/// read from.
pub fn can_approve(start: &Start) -> bool {
    Tty::open().is_some_and(|tty| tty.is_ours()) && start.peer() == LocalPeer::InPerson
}
