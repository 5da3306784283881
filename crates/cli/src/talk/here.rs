//! Answering in this process, with everything the daemon would build and no listener.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fermix_api::Event;
use fermix_config::Home;
use fermix_daemon::commands::{self, Asker, Standing};
use fermix_daemon::locks::{self, Held, LockError};
use fermix_daemon::{
    Answer, ApprovalPort, ApprovalPrompt, Engine, LocalPeer, PromptOrigin, Question, events,
};
use fermix_types::ConversationKey;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Message, Running, Tty};
use crate::start::Start;

/// How long to wait for another process that works on the same conversation.
const CONVERSATION_WAIT: Duration = Duration::from_secs(600);
/// How often a conversation that another process works on is tried again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Events that wait for the terminal.
const EVENT_QUEUE: usize = 256;

/// What a turn tells.
type Teller = mpsc::Sender<Result<Event, String>>;

/// Fermix in this process.
pub(super) struct Here {
    engine: Arc<Engine>,
    home: Home,
    cwd: Option<PathBuf>,
    peer: LocalPeer,
    _home_lock: Held,
}

impl Here {
    /// Builds everything. `roots` are folders of this invocation alone.
    pub(super) fn open(start: &Start, roots: &[PathBuf]) -> Result<Self, String> {
        let engine = start.engine(roots)?;
        Ok(Self {
            engine: Arc::new(engine),
            home: start.home.clone(),
            cwd: start.cwd.clone(),
            peer: start.peer(),
            _home_lock: locks::share_home(&start.home).map_err(|error| error.to_string())?,
        })
    }

    /// Starts a turn, or carries out a command.
    pub(super) fn ask(&self, message: Message) -> Running {
        let asker = Asker {
            origin: PromptOrigin {
                conversation: ConversationKey::root("cli", &message.session),
                user: commands::LOCAL_USER.to_owned(),
            },
            standing: Standing::local(self.peer, Tty::open().is_some()),
            bot_name: None,
        };
        let cancel = CancellationToken::new();
        let (teller, told) = mpsc::channel(EVENT_QUEUE);
        let session = message.session.clone();
        let turn = Turn {
            engine: Arc::clone(&self.engine),
            home: self.home.clone(),
            cwd: self.cwd.clone(),
            peer: self.peer,
            message,
            asker: asker.clone(),
            cancel: cancel.clone(),
        };
        tokio::spawn(turn.run(teller));
        Running {
            events: told,
            deadline: None,
            answers: super::Answers::Here(Answers {
                engine: Arc::clone(&self.engine),
                asker,
            }),
            session,
            _stops_when_dropped: cancel.clone().drop_guard(),
            cancel,
        }
    }
}

/// Takes answers to prompts, as the slash commands that they are.
pub(super) struct Answers {
    engine: Arc<Engine>,
    asker: Asker,
}

impl Answers {
    pub(super) async fn answer(&self, token: &str, choice: &str) -> Result<(), String> {
        let command = if choice == "deny" {
            format!("/deny {token}")
        } else {
            format!("/confirm {token} {choice}")
        };
        match self.engine.command(&command, &self.asker).await {
            Ok(Some(Ok(_))) => Ok(()),
            Ok(Some(Err(refused))) => Err(refused.0),
            Ok(None) => Err("nothing here waits for an answer".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct Turn {
    engine: Arc<Engine>,
    home: Home,
    cwd: Option<PathBuf>,
    peer: LocalPeer,
    message: Message,
    asker: Asker,
    cancel: CancellationToken,
}

impl Turn {
    async fn run(self, teller: Teller) {
        let end = self.end(&teller).await;
        // Who has gone away need not be told.
        let _ = teller.send(end).await;
    }

    async fn end(self, teller: &Teller) -> Result<Event, String> {
        let session = self.asker.origin.conversation.chat_id.clone();
        // Before the conversation's turn, so that no command waits for one.
        let command = self.engine.command(&self.message.text, &self.asker);
        if let Some(outcome) = command.await.map_err(|error| error.to_string())? {
            return Ok(Event::Done(Box::new(events::of_command(outcome, &session))));
        }
        if let Some(text) = self
            .engine
            .working_elsewhere(self.cwd.as_deref(), self.peer)
        {
            let _ = teller.send(Ok(Event::Notice { text })).await;
        }
        let Some(_conversation) = self.take_conversation().await? else {
            return Err("stopped".to_owned());
        };
        let (sender, mut receiver) = mpsc::channel(EVENT_QUEUE);
        let teller = teller.clone();
        let port: Option<Arc<dyn ApprovalPort>> = (self.message.can_approve
            && self.engine.takes_answers())
        .then(|| Arc::new(Shown(teller.clone())) as _);
        let forwarder = tokio::spawn(async move {
            while let Some(event) = receiver.recv().await {
                if let Some(event) = events::of_turn(event)
                    && teller.send(Ok(event)).await.is_err()
                {
                    return;
                }
            }
        });
        let question = Question {
            conversation: self.asker.origin.conversation.clone(),
            peer: self.peer,
            text: self.message.text,
            images: self
                .message
                .images
                .into_iter()
                .map(|attachment| attachment.image)
                .collect(),
            cwd: self.cwd,
            timeout: self.message.timeout,
            approval: port,
        };
        let answer = self
            .engine
            .ask(question, Some(sender), self.cancel)
            .await
            .map_err(|error| error.to_string())?;
        // The turn has let go of its end of the channel; what is left of its events comes first.
        let _ = forwarder.await;
        match answer {
            Answer::Interrupted => Err("stopped".to_owned()),
            Answer::Report(report) => {
                Ok(Event::Done(Box::new(events::of_report(&report, &session))))
            }
        }
    }

    /// Waits for other processes that work on the conversation. `None` when this turn was stopped
    /// meanwhile.
    async fn take_conversation(&self) -> Result<Option<Held>, String> {
        // A question that Fermix itself asks must not wait for the very turn that asked it.
        let wait = match self.peer {
            LocalPeer::InPerson => self.message.timeout.unwrap_or(CONVERSATION_WAIT),
            LocalPeer::StartedByFermix => Duration::ZERO,
        };
        let begun = Instant::now();
        let key = &self.asker.origin.conversation;
        loop {
            match locks::take_conversation(&self.home, key, Instant::now()) {
                Ok(held) => return Ok(Some(held)),
                Err(LockError::Busy { .. }) if begun.elapsed() < wait => {}
                Err(error) => return Err(error.to_string()),
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = self.cancel.cancelled() => return Ok(None),
            }
        }
    }
}

/// Shows prompts among the events of the turn.
#[derive(Debug)]
struct Shown(Teller);

#[async_trait]
impl ApprovalPort for Shown {
    /// A terminal is its owner's.
    fn is_private(&self) -> bool {
        true
    }

    async fn show(&self, prompt: &ApprovalPrompt) -> Result<(), String> {
        self.0
            .send(Ok(events::of_prompt(prompt)))
            .await
            .map_err(|_| "the terminal has gone away".to_owned())
    }
}
