//! What can be wrong with a configuration, in words that name the key, the value and the fix.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

/// Why there is no configuration to work with.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file exists and could not be read. Nothing in it is trusted.
    #[error("cannot read `{}`: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why, with the fix where there is one.
        reason: String,
    },
    /// The file is not TOML.
    #[error("{}:{line}: not valid TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What the parser says. It never quotes the file, which may hold keys.
        message: String,
    },
    /// The file is TOML, but not a configuration. Every problem is listed, in file order.
    #[error("{}", listed(.0))]
    Invalid(Vec<Problem>),
}

fn listed(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(Problem::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where the value was read.
    pub place: Place,
    /// The section's name without brackets; empty at the top of the file.
    pub section: String,
    /// The key, or the name of the unknown section's last part.
    pub key: String,
    /// What is wrong, with the value (never a secret's) and the accepted ones.
    pub reason: String,
    /// The nearest accepted name or value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A line of the file, counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// An override of this invocation.
    Invocation,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File { path, line } => write!(f, "{}:{line}: ", path.display())?,
            Place::Variable(name) => write!(f, "environment variable {name}: ")?,
            Place::Invocation => f.write_str("command line: ")?,
        }
        if !self.section.is_empty() {
            write!(f, "[{}] ", self.section)?;
        }
        write!(f, "{}: {}", self.key, self.reason)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; did you mean `{suggestion}`?"),
            None => Ok(()),
        }
    }
}

/// Why a change to the file was not made. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text is not a dotted key.
    #[error("`{key}` is not a dotted key: {reason}")]
    NotAKey {
        /// What was given.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No such key.
    #[error("unknown key `{key}`{}{}", because(.reason), hint(.suggestion))]
    Unknown {
        /// What was given.
        key: String,
        /// What could stand there instead, when there is more to say than that it is unknown.
        reason: Option<String>,
        /// The nearest key.
        suggestion: Option<String>,
    },
    /// The key is a secret, and secrets do not go through this door.
    #[error(
        "`{key}` is a secret and is not written to config.toml; run `fermix secrets set {name}` instead"
    )]
    Secret {
        /// The key.
        key: String,
        /// What `fermix secrets` calls it.
        name: &'static str,
    },
    /// The value does not fit the key.
    #[error("`{key}`: {reason}{}", hint(.suggestion))]
    BadValue {
        /// The key.
        key: String,
        /// What is wrong, with the value and the accepted ones.
        reason: String,
        /// The nearest accepted value.
        suggestion: Option<String>,
    },
    /// The file is written in a way this edit cannot follow without touching other lines.
    #[error("cannot change `{key}` without touching other lines; edit `{}` by hand", path.display())]
    Unsupported {
        /// The key.
        key: String,
        /// The file.
        path: PathBuf,
    },
    /// The file, as it is or as it would become, is not a configuration.
    #[error(transparent)]
    Invalid(#[from] ConfigError),
    /// Someone else changed the file since it was opened.
    #[error("`{}` changed on disk since it was read, and nothing was written; reload it and make the change again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Another process is writing the file.
    #[error("another process is saving `{}`; try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be written.
    #[error("cannot {doing} `{}`: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

fn hint(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(suggestion) => format!("; did you mean `{suggestion}`?"),
        None => String::new(),
    }
}

fn because(reason: &Option<String>) -> String {
    match reason {
        Some(reason) => format!(": {reason}"),
        None => String::new(),
    }
}
