//! The commands there are, and who may give them.

use super::Nearness;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Lists the commands.
    Help,
    /// Says who the sender is.
    Whoami,
    /// Begins a new session.
    New,
    /// Summarises what was said.
    Compact,
    /// Says what runs and waits.
    Tasks,
    /// Stops it.
    Stop,
    /// Takes back a change of a tool.
    Undo,
    /// Looks at the sandbox, or changes it.
    Sandbox,
    /// Opens a folder to tools.
    Grant,
    /// Closes it again.
    Revoke,
    /// Says yes to a prompt.
    Confirm,
    /// Says no to it.
    Deny,
}

/// Who may give a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Whoever is answered at all.
    Anyone,
    /// The owner, and guests in the channel's `command_allowlist`.
    OwnerOrListed,
    /// The owner. No list opens it.
    Owner,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    /// What it does.
    pub command: Command,
    /// Its name, without the slash.
    pub name: &'static str,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// How it is written.
    pub usage: &'static str,
    /// What it is for, in a line.
    pub summary: &'static str,
    /// Who may give it.
    pub who: Who,
    /// How near the owner has to be.
    pub needs: Nearness,
}

/// Every command, in the order of `/help`.
pub const ALL: &[CommandSpec] = &[
    CommandSpec {
        command: Command::Help,
        name: "help",
        aliases: &[],
        usage: "/help",
        summary: "list the commands you may give",
        who: Who::Anyone,
        needs: Nearness::Delegated,
    },
    CommandSpec {
        command: Command::Whoami,
        name: "whoami",
        aliases: &[],
        usage: "/whoami",
        summary: "show the id you are known by",
        who: Who::Anyone,
        needs: Nearness::Delegated,
    },
    CommandSpec {
        command: Command::New,
        name: "new",
        aliases: &["clear"],
        usage: "/new",
        summary: "begin afresh; what was said stays stored and is no longer read",
        who: Who::OwnerOrListed,
        needs: Nearness::Delegated,
    },
    CommandSpec {
        command: Command::Compact,
        name: "compact",
        aliases: &[],
        usage: "/compact",
        summary: "summarise this conversation now",
        who: Who::OwnerOrListed,
        needs: Nearness::Delegated,
    },
    CommandSpec {
        command: Command::Tasks,
        name: "tasks",
        aliases: &[],
        usage: "/tasks",
        summary: "show what runs and what waits",
        who: Who::OwnerOrListed,
        needs: Nearness::Delegated,
    },
    CommandSpec {
        command: Command::Stop,
        name: "stop",
        aliases: &[],
        usage: "/stop [here]",
        summary: "stop everything, or only this conversation",
        who: Who::Owner,
        needs: Nearness::Delegated,
    },
    CommandSpec {
        command: Command::Undo,
        name: "undo",
        aliases: &[],
        usage: "/undo [list|ID]",
        summary: "take back the last change of a tool, or list the changes",
        who: Who::Owner,
        needs: Nearness::Script,
    },
    CommandSpec {
        command: Command::Sandbox,
        name: "sandbox",
        aliases: &[],
        usage: "/sandbox status|explain|mode M|env …|commands …",
        summary: "show what tools can reach, or change it",
        who: Who::OwnerOrListed,
        needs: Nearness::Person,
    },
    CommandSpec {
        command: Command::Grant,
        name: "grant",
        aliases: &[],
        usage: "/grant path PATH",
        summary: "open a folder to tools",
        who: Who::Owner,
        needs: Nearness::Person,
    },
    CommandSpec {
        command: Command::Revoke,
        name: "revoke",
        aliases: &[],
        usage: "/revoke path PATH",
        summary: "close a folder to tools",
        who: Who::Owner,
        needs: Nearness::Person,
    },
    CommandSpec {
        command: Command::Confirm,
        name: "confirm",
        aliases: &[],
        usage: "/confirm TOKEN [once|always|read]",
        summary: "say yes to what you were asked",
        who: Who::Owner,
        needs: Nearness::Person,
    },
    CommandSpec {
        command: Command::Deny,
        name: "deny",
        aliases: &[],
        usage: "/deny TOKEN",
        summary: "say no to what you were asked",
        who: Who::Owner,
        needs: Nearness::Person,
    },
];

/// The command of this name, which is in lower case.
pub fn find(name: &str) -> Option<&'static CommandSpec> {
    ALL.iter()
        .find(|spec| spec.name == name || spec.aliases.contains(&name))
}
