//! The command line: verbs, flags and their help.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use fermix_types::{Kind, SecretStore, TraceKind};

/// A personal AI agent that runs on your own machine.
#[derive(Parser, Debug)]
#[command(
    name = "fermix",
    version,
    disable_help_subcommand = true,
    max_term_width = 100
)]
#[command(after_help = "Exit codes: 0 ok, 1 failed or refused, 2 usage.")]
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
    #[command(visible_alias = "chat")]
    Ask(AskArgs),
    /// Print every registered capability, hidden and owner-only ones included
    Capabilities(CapabilitiesArgs),
    /// See and call tools exactly as a caller of a given trust would
    #[command(subcommand)]
    Tools(ToolsVerb),
    /// Read, change and check config.toml
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Keep keys in the keyring or in encrypted files, out of config.toml
    #[command(subcommand)]
    Secrets(SecretsVerb),
    /// Print what happened: model calls, tool calls, decisions
    Traces(TracesArgs),
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

/// Flags of `ask`.
#[derive(Args, Debug)]
pub struct AskArgs {
    /// The message; several words are joined by spaces
    #[arg(value_name = "MESSAGE")]
    pub message: Vec<String>,
    /// Read the message, or more of it, from standard input
    #[arg(long)]
    pub stdin: bool,
    /// Go on with this conversation; without it, each call starts a new one
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
    /// Let this question reach a folder outside your home, as if it had been granted (repeatable)
    #[arg(long, value_name = "PATH")]
    pub root: Vec<PathBuf>,
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

/// The kinds by name, so that help and completions list them.
fn kinds() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.iter().map(|kind| kind.as_str())).map(|name| {
        name.parse()
            .expect("only the names of kinds are let through")
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
