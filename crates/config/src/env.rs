//! The process environment, captured once. The names Fermix reads are all in this file.
//!
//! Nothing else reads the environment, so a test hands in its own and two tests never disturb
//! each other.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The folder that holds everything Fermix keeps.
pub const FERMIX_HOME: &str = "FERMIX_HOME";
/// The folder of the traces, when it is not `traces` in the home.
pub const FERMIX_TRACE_DIR: &str = "FERMIX_TRACE_DIR";
/// `0` keeps message bodies out of the traces.
pub const FERMIX_TRACE_CONTENT: &str = "FERMIX_TRACE_CONTENT";
/// The file of the daemon's log, when it is not `logs/fermix.log` in the home.
pub const FERMIX_LOG_FILE: &str = "FERMIX_LOG_FILE";
/// Where a service manager listens for "ready" (`sd_notify`). It sets this by itself.
pub const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// Where programs are looked for.
pub const PATH: &str = "PATH";
/// How `anthropic` signs in.
pub const FERMIX_ANTHROPIC_AUTH_MODE: &str = "FERMIX_ANTHROPIC_AUTH_MODE";
/// How `xai` signs in.
pub const FERMIX_XAI_AUTH_MODE: &str = "FERMIX_XAI_AUTH_MODE";
/// The key of `openai`.
pub const OPENAI_API_KEY: &str = "OPENAI_API_KEY";
/// The key of `anthropic`.
pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";
/// The key of `xai`.
pub const XAI_API_KEY: &str = "XAI_API_KEY";
/// The base URL of `xai`.
pub const XAI_BASE_URL: &str = "XAI_BASE_URL";
/// The key of `openrouter`.
pub const OPENROUTER_API_KEY: &str = "OPENROUTER_API_KEY";
/// The key of `mistral`.
pub const MISTRAL_API_KEY: &str = "MISTRAL_API_KEY";
/// The base URL of `ollama`.
pub const OLLAMA_BASE_URL: &str = "OLLAMA_BASE_URL";
/// The key of `openai_compatible`.
pub const OPENAI_COMPATIBLE_API_KEY: &str = "OPENAI_COMPATIBLE_API_KEY";
/// The operating system's home folder.
pub const HOME: &str = "HOME";
/// Any value turns colours off (<https://no-color.org>).
pub const NO_COLOR: &str = "NO_COLOR";

/// One environment variable as the reference documents it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvDoc {
    /// The variable.
    pub name: &'static str,
    /// What it does.
    pub effect: &'static str,
}

/// The variables that do not stand for a configuration key. Those that do are in the key table.
pub const VARIABLES: &[EnvDoc] = &[
    EnvDoc {
        name: FERMIX_HOME,
        effect: "the Fermix home; blank counts as unset",
    },
    EnvDoc {
        name: FERMIX_TRACE_DIR,
        effect: "the folder of the traces",
    },
    EnvDoc {
        name: FERMIX_TRACE_CONTENT,
        effect: "`0` keeps message bodies out of the traces",
    },
    EnvDoc {
        name: FERMIX_LOG_FILE,
        effect: "the file of the daemon's log",
    },
    EnvDoc {
        name: HOME,
        effect: "the home folder: `~` in paths, and the default Fermix home",
    },
    EnvDoc {
        name: NO_COLOR,
        effect: "any value turns colours off",
    },
];

/// The environment of this process, or the one a test made up.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pairs: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// Reads the environment of this process. Called once, at start.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    pub fn capture() -> Self {
        Self {
            pairs: std::env::vars_os().collect(),
        }
    }

    /// An environment with exactly these variables.
    pub fn from_pairs<N, V>(pairs: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        Self {
            pairs: pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        }
    }

    /// The value of `name`. Absent, blank and not UTF-8 are all `None`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_os(name)?.to_str()
    }

    /// The value of `name` as the system gave it. Absent and blank are `None`.
    pub fn get_os(&self, name: &str) -> Option<&OsStr> {
        let value = self.pairs.get(OsStr::new(name))?;
        let is_blank = value.to_str().is_some_and(|text| text.trim().is_empty());
        (!is_blank).then_some(value.as_os_str())
    }

    /// The same environment with one variable set otherwise.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.pairs.insert(name.into(), value.into());
        self
    }

    /// Every variable, for the part of the sandbox that decides what a child may see.
    pub fn pairs(&self) -> &BTreeMap<OsString, OsString> {
        &self.pairs
    }

    /// Whether the person asked for output without colours.
    pub fn no_color(&self) -> bool {
        self.pairs
            .get(OsStr::new(NO_COLOR))
            .is_some_and(|value| !value.is_empty())
    }

    /// Whether traces may hold message bodies.
    pub fn trace_content(&self) -> bool {
        // The documented switch is `0`. The other spellings of "no" are honoured as well, because
        // whoever types one wants less recorded, not more.
        !matches!(
            self.get(FERMIX_TRACE_CONTENT)
                .map(|value| value.trim().to_ascii_lowercase())
                .as_deref(),
            Some("0" | "false" | "off" | "no")
        )
    }
}

impl std::fmt::Debug for Environment {
    /// Names only: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.pairs.keys()).finish()
    }
}
