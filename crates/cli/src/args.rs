//! The command line: verbs, flags and their help.

mod sandbox;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use fermix_types::{Kind, SandboxMode, SecretStore, TraceKind};

pub use self::sandbox::{
    SandboxCommandVerb, SandboxCommandsVerb, SandboxEnvVerb, SandboxGrantVerb, SandboxVerb,
};

/// A personal AI agent that runs on your own machine.
#[derive(Parser, Debug)]
#[command(
    name = "fermix",
    version,
    disable_help_subcommand = true,
    max_term_width = 100
)]
#[command(after_help = "Exit codes: 0 ok, 1 failed or refused, 2 usage, 3 no daemon is running.")]
pub struct Cli {
    /// The Fermix home [default: $FERMIX_HOME, else ~/.fermix]
    #[arg(long, global = true, value_name = "PATH")]
    pub home: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Ask the agent something and print its answer
    Ask(AskArgs),
    /// Talk with the agent; with a message, the same as `ask`
    Chat(AskArgs),
    /// Run the daemon in this terminal until it is told to end
    Run,
    /// Say whether the daemon runs, which version it is and since when
    Status {
        /// Also print what runs and what waits
        #[arg(long)]
        full: bool,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// End the daemon: running turns have 20 seconds to finish
    Stop {
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Put a changed config.toml in force without a restart
    Reload {
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Ask the daemon whether everything works
    Health {
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Print the end of the daemon's log
    Logs {
        /// Go on as it grows
        #[arg(short, long)]
        follow: bool,
        /// How many lines
        #[arg(short = 'n', long, default_value_t = 100, value_name = "LINES")]
        lines: usize,
    },
    /// Print every registered capability, hidden and owner-only ones included
    Capabilities(CapabilitiesArgs),
    /// See and call tools exactly as a caller of a given trust would
    #[command(subcommand)]
    Tools(ToolsVerb),
    /// Read, change and check config.toml
    #[command(subcommand)]
    Config(ConfigVerb),
    /// See what tools and commands reach, and change it
    #[command(subcommand)]
    Sandbox(SandboxVerb),
    /// Open a folder to the tools
    #[command(subcommand)]
    Grant(GrantVerb),
    /// Take a granted folder away again
    #[command(subcommand)]
    Revoke(RevokeVerb),
    /// Keep keys in the keyring or in encrypted files, out of config.toml
    #[command(subcommand)]
    Secrets(SecretsVerb),
    /// Print what happened: model calls, tool calls, decisions
    Traces(TracesArgs),
    /// Take back the last change that a tool made to a file
    Undo(UndoArgs),
    /// Print what answering cost in tokens
    Usage(UsageArgs),
    /// Check this installation and say what to do about what is wrong
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version {
        /// Print one JSON value.
        #[arg(long)]
        json: bool,
    },
    /// Print help for Fermix or for one of its verbs
    Help {
        /// A verb, and for a group the verb within it.
        verb: Vec<String>,
    },
}

/// Flags of `ask` and `chat`.
#[derive(Args, Debug)]
pub struct AskArgs {
    /// The message; several words are joined by spaces
    #[arg(value_name = "MESSAGE")]
    pub message: Vec<String>,
    /// Read the message, or more of it, from standard input
    #[arg(long)]
    pub stdin: bool,
    /// Go on with this conversation [default: `ask` starts a new one, `chat` and slash commands
    /// use `cli`]
    #[arg(short, long, value_name = "ID", value_parser = session_id)]
    pub session: Option<String>,
    /// Give up after this many milliseconds
    #[arg(short, long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<u64>,
    /// Print one JSON value
    #[arg(long)]
    pub json: bool,
    /// Attach an image: png, jpg, gif or webp, at most 20 MiB (repeatable)
    #[arg(long, value_name = "PATH")]
    pub attach: Vec<PathBuf>,
    /// Let this question reach a folder outside your home, as if it had been granted (repeatable);
    /// it is then answered without the daemon
    #[arg(long, value_name = "PATH", conflicts_with = "daemon")]
    pub root: Vec<PathBuf>,
    /// Let nobody but a running daemon answer
    #[arg(long)]
    pub daemon: bool,
}

/// Flags of `capabilities`.
#[derive(Args, Debug)]
pub struct CapabilitiesArgs {
    /// Only this kind
    #[arg(long, value_parser = kinds())]
    pub kind: Option<Kind>,
    /// Print one JSON value
    #[arg(long)]
    pub json: bool,
}

/// The `tools` group.
#[derive(Subcommand, Debug)]
pub enum ToolsVerb {
    /// Print the exact tools that a caller would have
    List {
        /// Whose view
        #[arg(long = "as", value_enum, default_value_t = As::Operator)]
        caller: As,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Send one call through the real dispatch
    Call {
        /// The tool
        name: String,
        /// A JSON object, @FILE, or - for standard input
        #[arg(long, default_value = "{}", value_name = "JSON|@FILE|-")]
        args: String,
        /// On whose behalf
        #[arg(long = "as", value_enum, default_value_t = As::Operator)]
        caller: As,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
}

/// The callers that `tools` can stand in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum As {
    /// You, on the command line
    Operator,
    /// A stranger whom a channel lets in
    Guest,
    /// A temporary helper of one of your turns
    Worker,
    /// A scheduled job that you created
    Job,
}

/// The `config` group.
#[derive(Subcommand, Debug)]
pub enum ConfigVerb {
    /// Print a value, or the whole file
    Get {
        /// A dotted key, for example fermix_core.agent.name
        key: Option<String>,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Change a value; comments and everything else stay as they are
    Set {
        /// A dotted key
        key: String,
        /// The value; lists are written [a, b]
        value: String,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Remove a value, so that its default applies
    Unset {
        /// A dotted key
        key: String,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Check the file and say what is wrong with it
    Validate {
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Print where the file is
    Path {
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
}

/// How a change is answered and printed.
#[derive(Args, Clone, Copy, Debug)]
pub struct ChangeArgs {
    /// Do not ask before widening what tools reach
    #[arg(short, long)]
    pub yes: bool,
    /// Print one JSON value
    #[arg(long)]
    pub json: bool,
}

/// How a look is printed.
#[derive(Args, Clone, Copy, Debug)]
pub struct LookArgs {
    /// Print one JSON value
    #[arg(long)]
    pub json: bool,
}

/// The `grant` group.
#[derive(Subcommand, Debug)]
pub enum GrantVerb {
    /// Open a folder, for reading and writing
    Path {
        /// The folder
        path: PathBuf,
        /// For reading only
        #[arg(long)]
        read: bool,
        #[command(flatten)]
        change: ChangeArgs,
    },
}

/// The `revoke` group.
#[derive(Subcommand, Debug)]
pub enum RevokeVerb {
    /// Take a folder away
    Path {
        /// The folder, as it was granted
        path: PathBuf,
        #[command(flatten)]
        change: ChangeArgs,
    },
}

/// The `secrets` group. No value is ever an argument: arguments are seen by every process.
#[derive(Subcommand, Debug)]
pub enum SecretsVerb {
    /// Store a secret; its value is asked for, or read with --stdin
    Set {
        /// A provider such as anthropic, or the name of its environment variable
        name: String,
        /// Read the value from standard input
        #[arg(long)]
        stdin: bool,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Print which secrets there are and where each is kept, without reading any
    List {
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Remove a secret from its store and from config.toml
    Unset {
        /// A provider such as anthropic, or the name of its environment variable
        name: String,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Move keys that stand in config.toml as plain text into a store
    Migrate {
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Move all stored secrets to the other store
    Move {
        /// Where they go
        #[arg(long, value_parser = secret_stores())]
        to: SecretStore,
        /// Print one JSON value
        #[arg(long)]
        json: bool,
    },
}

/// Flags of `traces`.
#[derive(Args, Debug)]
pub struct TracesArgs {
    /// Only this type
    #[arg(long = "type", value_parser = trace_kinds())]
    pub kind: Option<TraceKind>,
    /// Only rows since then: 15m, 2h, 3d, or a date such as 2026-01-31
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Only rows of this session or conversation
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// At most this many rows, the newest
    #[arg(short = 'n', long, default_value_t = 100, value_name = "ROWS")]
    pub limit: usize,
    /// Print one JSON value
    #[arg(long)]
    pub json: bool,
}

/// Flags of `undo`.
#[derive(Args, Debug)]
pub struct UndoArgs {
    /// The change to take back, by its number; the last one without it
    pub id: Option<i64>,
    /// Print the changes that can be taken back, newest first
    #[arg(long, conflicts_with = "id")]
    pub list: bool,
    /// Print one JSON value
    #[arg(long)]
    pub json: bool,
}

/// Flags of `usage`.
#[derive(Args, Debug)]
pub struct UsageArgs {
    /// Only turns since then: 15m, 2h, 3d, or a date such as 2026-01-31
    #[arg(long, value_name = "WHEN", default_value = "30d")]
    pub since: String,
    /// What a row stands for
    #[arg(long, value_enum, default_value_t = By::Day)]
    pub by: By,
    /// Print one JSON value
    #[arg(long)]
    pub json: bool,
}

/// What a row of `usage` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// One model on one day (UTC)
    Day,
    /// One model
    Model,
    /// One model in one conversation
    Conversation,
}

/// Flags of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Also ask the first provider, for one token
    #[arg(long)]
    pub full: bool,
    /// Print one JSON value
    #[arg(long)]
    pub json: bool,
}

/// The kinds by name, so that help and completions list them.
fn kinds() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.iter().map(|kind| kind.as_str())).map(|name| {
        name.parse()
            .expect("only the names of kinds are let through")
    })
}

/// The modes by name.
fn sandbox_modes() -> impl TypedValueParser<Value = SandboxMode> {
    let names = ["strict", "standard", "open"];
    PossibleValuesParser::new(names).map(|name| {
        name.parse()
            .expect("only the names of modes are let through")
    })
}

/// The stores by name.
fn secret_stores() -> impl TypedValueParser<Value = SecretStore> {
    PossibleValuesParser::new(SecretStore::ALL.iter().map(|store| store.as_str())).map(|name| {
        name.parse()
            .expect("only the names of stores are let through")
    })
}

/// The types of trace rows by name.
fn trace_kinds() -> impl TypedValueParser<Value = TraceKind> {
    PossibleValuesParser::new(TraceKind::ALL.iter().map(|kind| kind.as_str())).map(|name| {
        let named = TraceKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name);
        named.expect("only the names of types are let through")
    })
}

fn milliseconds(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give a whole number of milliseconds above 0, such as 30000".into()),
        Ok(millis) => Ok(millis),
    }
}

/// A session id becomes part of a lock file's name and of trace rows.
fn session_id(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('.') {
        Ok(text.to_owned())
    } else {
        Err("a session id has 1 to 64 ASCII letters, digits, `-`, `_` or `.` and does not start with `.`".into())
    }
}
