//! Why an operation was not carried out. Nothing was changed then, unless the text says so.

use std::path::PathBuf;

use fermix_config::{ConfigError, EditError};
use fermix_sandbox::{SandboxError, SessionGrantError, UnsafeRoot};

use crate::confirmations::ConfirmError;
use crate::shown::visible_path;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The folder may never be granted.
    #[error("unsafe_root: `{}` cannot be granted: {cause}{}", visible_path(path), advice(*cause))]
    UnsafeRoot {
        /// The folder.
        path: PathBuf,
        /// Why.
        cause: UnsafeRoot,
    },
    /// What the owner blocked stays closed whatever is granted.
    #[error(
        "`{}` stays closed because `[sandbox] blocked_roots` has `{}`; remove it there first",
        visible_path(path),
        visible_path(by)
    )]
    Blocked {
        /// The folder.
        path: PathBuf,
        /// The blocked root.
        by: PathBuf,
    },
    /// A path with no fixed meaning.
    #[error("`{}` is relative; write the whole path, starting with `/` or `~/`", visible_path(.0))]
    Relative(PathBuf),
    /// The path leads somewhere else than when the owner was asked.
    #[error(
        "`{}` now leads somewhere else than what was shown, so nothing was granted; ask again",
        visible_path(.0)
    )]
    PathChanged(PathBuf),
    /// The change would do more than the owner was shown.
    #[error("the settings changed since this was shown, so nothing was applied; ask again")]
    Stale,
    /// Somebody edited the file since its settings were taken over.
    #[error(
        "config.toml was edited since its settings were last read, and nothing was written; reload the settings (restart the daemon) and try again"
    )]
    ConfigChanged,
    /// The arguments make no sense.
    #[error("{0}")]
    Invalid(String),
    /// The file cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file cannot be changed.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The settings cannot be put in force.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The folder was not opened for the conversation.
    #[error(transparent)]
    Session(#[from] SessionGrantError),
    /// The record of a grant cannot be written.
    #[error("the record of the grant cannot be written to `{}`, so nothing was granted: {source}", path.display())]
    Record {
        /// The file or its folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Too much waits for an answer.
    #[error(transparent)]
    Confirm(#[from] ConfirmError),
    /// The thread that does the work is gone.
    #[error("fermix is shutting down; nothing was changed")]
    Stopped,
}

fn advice(cause: UnsafeRoot) -> &'static str {
    match cause {
        UnsafeRoot::NotADirectory => "; name a folder that exists",
        UnsafeRoot::System | UnsafeRoot::Home | UnsafeRoot::FermixHome => {
            "; name a specific project folder below it"
        }
        UnsafeRoot::Protected => "; nothing opens it",
    }
}
