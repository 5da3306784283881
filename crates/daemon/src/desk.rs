//! Carries slash commands out, over the agent and the stored conversations.
//!
//! What a command needs beyond those comes as a [`Machinery`]; a command whose machinery is absent
//! does not exist.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use fermix_agent::Agent;
use fermix_channels::commands::{
    self, Asker, Command, CommandDesk, Invocation, NotDone, Outcome, Stopped, UndoRequest, Work,
};
use fermix_sandbox::Sandbox;
use fermix_store::ConversationLog;
use fermix_types::{Clock, ConversationKey, TraceIds, TraceKind, TraceRow, TraceSink};
use serde_json::json;

use crate::server::OwnerRequests;

/// Carries out `/sandbox`, `/grant`, `/revoke`, `/confirm` and `/deny`.
#[async_trait]
pub trait PolicyCommands: Send + Sync {
    /// Carries one out. That the sender may give it was checked; whether a token is theirs to
    /// answer was not.
    async fn run(&self, invocation: &Invocation, asker: &Asker) -> Outcome;
}

/// Takes back what tools changed.
#[async_trait]
pub trait UndoCommands: Send + Sync {
    /// Takes back one change, or lists them.
    async fn run(&self, request: UndoRequest, asker: &Asker) -> Outcome;
}

/// What some commands need. Absent machinery takes its commands away.
#[derive(Clone, Default)]
pub struct Machinery {
    /// For the commands about the sandbox and about prompts.
    pub policy: Option<Arc<dyn PolicyCommands>>,
    /// For `/undo`.
    pub undo: Option<Arc<dyn UndoCommands>>,
    /// For the requests `policy` and `undo` of the daemon's socket.
    pub owner: Option<Arc<dyn OwnerRequests>>,
}

/// What a desk works with.
pub struct Desk {
    /// Whose turns are listed and stopped; `None` in a process that has none running.
    pub agent: Option<Agent>,
    /// Whose grants for one conversation end with its session.
    pub sandbox: Sandbox,
    /// Where conversations are kept.
    pub conversations: Arc<dyn ConversationLog>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Takes one row a command.
    pub trace: Arc<dyn TraceSink>,
    /// The rest.
    pub machinery: Machinery,
}

impl Desk {
    /// Carries out the command that `text` is and records that it was given. `None` means that it
    /// is none.
    pub async fn carry_out(&self, text: &str, asker: &Asker) -> Option<Outcome> {
        let (spec, _) = commands::recognise(text, asker.bot_name.as_deref(), self)?;
        let outcome = commands::handle(text, asker, self).await?;
        // The words are left out: one of them may be a token.
        let fields = json!({
            "channel": asker.origin.conversation.channel,
            "conversation": asker.origin.conversation.to_string(),
            "direction": "in",
            "command": spec.name,
            "ok": outcome.is_ok(),
        });
        let ids = TraceIds {
            session_id: String::new(),
            turn_id: String::new(),
            parent_session: None,
        };
        self.trace
            .record(TraceRow::new(TraceKind::ChannelMsg, &ids, fields));
        Some(outcome)
    }
}

/// What is said when machinery is missing although its command was offered: never by [`Desk`],
/// which offers none of those.
fn missing(what: &str) -> NotDone {
    NotDone(format!("this Fermix has no {what}"))
}

#[async_trait]
impl CommandDesk for Desk {
    fn offers(&self, command: Command) -> bool {
        match command {
            Command::Help
            | Command::Whoami
            | Command::New
            | Command::Compact
            | Command::Tasks
            | Command::Stop => true,
            Command::Undo => self.machinery.undo.is_some(),
            Command::Sandbox
            | Command::Grant
            | Command::Revoke
            | Command::Confirm
            | Command::Deny => self.machinery.policy.is_some(),
        }
    }

    async fn new_session(&self, conversation: &ConversationKey) -> Outcome {
        self.sandbox.forget_conversation(conversation);
        match self
            .conversations
            .reset(conversation, self.clock.now())
            .await
        {
            Ok(true) => {
                Ok("New session. What was said before stays stored and is no longer read.".into())
            }
            Ok(false) => Ok("New session. Nothing had been said before.".into()),
            Err(error) => Err(NotDone(format!("cannot begin a new session: {error}"))),
        }
    }

    async fn compact(&self, conversation: &ConversationKey) -> Outcome {
        match &self.agent {
            Some(agent) => Ok(agent.compact(conversation).await.to_string()),
            None => Err(missing("agent to summarise with")),
        }
    }

    fn work(&self, only: Option<&ConversationKey>) -> Vec<Work> {
        let lanes = self.agent.as_ref().map(Agent::lanes).unwrap_or_default();
        lanes
            .into_iter()
            .filter(|lane| only.is_none_or(|only| *only == lane.conversation))
            .map(|lane| Work {
                conversation: lane.conversation,
                is_running: lane.is_running,
                waiting: lane.waiting,
            })
            .collect()
    }

    fn stop(&self, only: Option<&ConversationKey>) -> Stopped {
        let counts = match (&self.agent, only) {
            (None, _) => return Stopped::default(),
            (Some(agent), Some(conversation)) => agent.stop(conversation),
            (Some(agent), None) => agent.stop_all(),
        };
        Stopped {
            turns: counts.turns,
            queued: counts.queued,
        }
    }

    async fn undo(&self, request: UndoRequest, asker: &Asker) -> Outcome {
        match &self.machinery.undo {
            Some(undo) => undo.run(request, asker).await,
            None => Err(missing("checkpoints of changes")),
        }
    }

    async fn policy(&self, invocation: &Invocation, asker: &Asker) -> Outcome {
        match &self.machinery.policy {
            Some(policy) => policy.run(invocation, asker).await,
            None => Err(missing("settings that can be changed here")),
        }
    }
}
