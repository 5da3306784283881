//! Slash commands: recognised before the queue, so that `/stop` never waits for what it stops.
//!
//! [`handle`] reads the message, asks the [table] who may run the command, and only then the
//! [`CommandDesk`]. What is no command of this Fermix is words for the agent: `/etc/passwd is odd`
//! is a question.

mod desk;
mod parse;
pub mod table;

#[cfg(test)]
mod tests;

pub use desk::{CommandDesk, NotDone, Outcome, Stopped, UndoRequest, Work};
pub use parse::{Invocation, parse};
pub use table::{Command, CommandSpec, Who};

use std::fmt::Write as _;

use fermix_capability::PromptOrigin;
use fermix_types::Trust;

use crate::ingress::{ChannelRules, LocalPeer};

/// How the owner is called where the door knows of one person only.
pub const LOCAL_USER: &str = "owner";

/// How sure it is that the owner themself gave the command. The first is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// A process that Fermix started, or one whose ancestry could not be read.
    Delegated,
    /// A program of the owner's, without a terminal: it may have been set up long ago.
    Script,
    /// Somebody who can read what is shown and answer it.
    Person,
}

/// What the sender of a command may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    trust: Trust,
    nearness: Nearness,
    is_listed: bool,
}

impl Standing {
    /// The sender at a local door. `has_terminal` is about the client's process.
    pub fn local(peer: LocalPeer, has_terminal: bool) -> Self {
        let nearness = match (peer, has_terminal) {
            (LocalPeer::StartedByFermix, _) => Nearness::Delegated,
            (LocalPeer::InPerson, false) => Nearness::Script,
            (LocalPeer::InPerson, true) => Nearness::Person,
        };
        Self {
            trust: Trust::Operator,
            nearness,
            is_listed: false,
        }
    }

    /// The sender on a remote channel; `None` when the channel does not know them, in which case
    /// they get no answer at all.
    pub fn remote(sender: &str, rules: &ChannelRules) -> Option<Self> {
        let is_owner = !sender.is_empty()
            && rules
                .owner_user_id
                .as_deref()
                .is_some_and(|id| id == sender);
        let is_guest = !sender.is_empty() && rules.allowed_user_ids.contains(sender);
        (is_owner || is_guest).then(|| Self {
            trust: if is_owner {
                Trust::Operator
            } else {
                Trust::Guest
            },
            nearness: Nearness::Person,
            is_listed: !is_owner && rules.command_allowlist.contains(sender),
        })
    }

    /// Whether the sender is the owner.
    pub fn is_owner(self) -> bool {
        self.trust == Trust::Operator
    }

    /// Whether this sender may run the command at all. A `/sandbox` that changes something asks
    /// for more; see [`handle`].
    pub fn may_run(self, spec: &CommandSpec) -> bool {
        self.is_allowed(spec.who) && self.nearness >= spec.needs
    }

    fn is_allowed(self, who: Who) -> bool {
        match who {
            Who::Anyone => true,
            Who::OwnerOrListed => self.is_owner() || self.is_listed,
            Who::Owner => self.is_owner(),
        }
    }
}

/// Who gives a command, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The conversation, and the sender as the transport authenticated them.
    pub origin: PromptOrigin,
    /// What they may do.
    pub standing: Standing,
    /// How this Fermix is called where it writes, when it has a name there: a command to another
    /// bot of the same chat is not for us.
    pub bot_name: Option<String>,
}

/// The command that `text` is, when it is one that `desk` can carry out.
pub fn recognise(
    text: &str,
    bot_name: Option<&str>,
    desk: &dyn CommandDesk,
) -> Option<(&'static CommandSpec, Invocation)> {
    let invocation = parse(text, bot_name)?;
    let spec = table::find(&invocation.name)?;
    desk.offers(spec.command).then_some((spec, invocation))
}

/// Carries out the command that `text` is. `None` means that it is none: words for the agent.
pub async fn handle(text: &str, asker: &Asker, desk: &dyn CommandDesk) -> Option<Outcome> {
    let (spec, invocation) = recognise(text, asker.bot_name.as_deref(), desk)?;
    Some(match authorise(spec, &invocation, asker.standing) {
        Ok(()) => run(spec, &invocation, asker, desk).await,
        Err(refusal) => Err(refusal),
    })
}

/// Decided before anything of the command is looked at, a token included, so that a refused answer
/// leaves the prompt to the one who may answer it.
fn authorise(
    spec: &CommandSpec,
    invocation: &Invocation,
    standing: Standing,
) -> Result<(), NotDone> {
    let only_looks = matches!(
        invocation.words.first().map(String::as_str),
        None | Some("status" | "explain")
    );
    let who = match spec.command {
        Command::Sandbox if !only_looks => Who::Owner,
        _ => spec.who,
    };
    if !standing.is_allowed(who) {
        return Err(NotDone(format!(
            "/{} needs the permissions of the owner",
            spec.name
        )));
    }
    if standing.nearness < spec.needs {
        let why = match standing.nearness {
            Nearness::Delegated => "this was sent by a process that Fermix started",
            Nearness::Script | Nearness::Person => "this was sent by a program without a terminal",
        };
        return Err(NotDone(format!(
            "/{} is the owner's to give in person, and {why}; give it in your own terminal",
            spec.name
        )));
    }
    Ok(())
}

async fn run(
    spec: &CommandSpec,
    invocation: &Invocation,
    asker: &Asker,
    desk: &dyn CommandDesk,
) -> Outcome {
    let words: Vec<&str> = invocation.words.iter().map(String::as_str).collect();
    let conversation = &asker.origin.conversation;
    // A guest learns of nothing beyond their own conversation.
    let own = (!asker.standing.is_owner()).then_some(conversation);
    match (spec.command, words.as_slice()) {
        (Command::Help, []) => Ok(help(asker.standing, desk)),
        (Command::Whoami, []) => Ok(whoami(asker)),
        (Command::New, []) => desk.new_session(conversation).await,
        (Command::Compact, []) => desk.compact(conversation).await,
        (Command::Tasks, []) => Ok(tasks(&desk.work(own))),
        (Command::Stop, []) => Ok(desk.stop(None).to_string()),
        (Command::Stop, ["here"]) => Ok(desk.stop(Some(conversation)).to_string()),
        (Command::Undo, []) => desk.undo(UndoRequest::Last, asker).await,
        (Command::Undo, ["list"]) => desk.undo(UndoRequest::List, asker).await,
        (Command::Undo, [id]) => match id.parse() {
            Ok(id) => desk.undo(UndoRequest::Change(id), asker).await,
            Err(_) => Err(usage(spec)),
        },
        (
            Command::Sandbox | Command::Grant | Command::Revoke | Command::Confirm | Command::Deny,
            _,
        ) => desk.policy(invocation, asker).await,
        // Words after a command that takes none were meant for somebody: nothing is done, least of
        // all a conversation cleared, until it is clear what was meant.
        (
            Command::Help
            | Command::Whoami
            | Command::New
            | Command::Compact
            | Command::Tasks
            | Command::Stop
            | Command::Undo,
            _,
        ) => Err(usage(spec)),
    }
}

fn usage(spec: &CommandSpec) -> NotDone {
    NotDone(format!("nothing was done; usage: {}", spec.usage))
}

/// The commands that `standing` may run here, one a line.
fn help(standing: Standing, desk: &dyn CommandDesk) -> String {
    let mut text = String::new();
    for spec in offered(standing, desk) {
        let aliases: String = spec.aliases.iter().fold(String::new(), |mut all, alias| {
            let _ = write!(all, " (or /{alias})");
            all
        });
        let _ = writeln!(text, "{}{aliases}: {}", spec.usage, spec.summary);
    }
    text.truncate(text.trim_end().len());
    text
}

/// Exactly the commands that `standing` may run.
pub fn offered(
    standing: Standing,
    desk: &dyn CommandDesk,
) -> impl Iterator<Item = &'static CommandSpec> {
    table::ALL
        .iter()
        .filter(move |spec| desk.offers(spec.command) && standing.may_run(spec))
}

fn whoami(asker: &Asker) -> String {
    let role = match (asker.standing.is_owner(), asker.standing.nearness) {
        (true, Nearness::Person) => "the owner",
        (true, Nearness::Script) => "the owner, through a program without a terminal",
        (true, Nearness::Delegated) => "a process that Fermix started",
        (false, _) => "a guest",
    };
    format!(
        "{} on {}, in conversation {}: {role}.",
        asker.origin.user, asker.origin.conversation.channel, asker.origin.conversation.chat_id
    )
}

fn tasks(work: &[Work]) -> String {
    if work.is_empty() {
        return "Nothing is running or waiting.".to_owned();
    }
    let mut text = String::new();
    for lane in work {
        let running = if lane.is_running {
            "a turn is running"
        } else {
            "a turn is about to start"
        };
        let _ = write!(
            text,
            "{} {}: {running}",
            lane.conversation.channel, lane.conversation.chat_id
        );
        if lane.waiting > 0 {
            let _ = write!(text, ", {} waiting", desk::count(lane.waiting, "message"));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}
