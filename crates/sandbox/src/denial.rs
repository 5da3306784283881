//! Why the sandbox said no, in the words the model and the owner read.

use std::fmt;
use std::path::{Path, PathBuf};

use fermix_types::{EnforcementDecision, PolicyClass, ToolError};

use crate::remedy::Remedy;

/// What a caller wants to do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read a file or list a folder.
    Read,
    /// Create or change a file.
    Write,
    /// Run a command in a folder.
    Execute,
}

impl Access {
    /// The word the trace uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        }
    }

    /// The class the decision is recorded under.
    pub const fn policy_class(self) -> PolicyClass {
        match self {
            Self::Read => PolicyClass::ReadOnly,
            Self::Write => PolicyClass::ReadWrite,
            Self::Execute => PolicyClass::Exec,
        }
    }
}

/// The rule that refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DenialReason {
    /// Credentials, Fermix's own state or the operating system.
    ProtectedPath,
    /// Another name of a protected file.
    ProtectedAlias,
    /// A folder the owner blocked.
    BlockedRoot,
    /// Not inside any effective root.
    OutsideRoot,
    /// More symbolic links than a path may hold.
    TooManySymlinks,
    /// Not a path, or one that cannot be resolved.
    InvalidPath,
    /// The path became another object between the check and the use, again and again.
    PathChanged,
    /// A file that makes later commands run something.
    GuardedPath,
    /// The working directory is not a directory.
    MissingWorkingDir,
    /// The working directory cannot be resolved.
    InvalidWorkingDir,
    /// The request itself makes no sense.
    InvalidRequest,
    /// The command matched the accident guard.
    Hardline,
}

impl DenialReason {
    /// The name used in traces and in tests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ProtectedPath => "protected_path",
            Self::ProtectedAlias => "protected_alias",
            Self::BlockedRoot => "blocked_root",
            Self::OutsideRoot => "outside_root",
            Self::TooManySymlinks => "too_many_symlinks",
            Self::InvalidPath => "invalid_path",
            Self::PathChanged => "path_changed",
            Self::GuardedPath => "guarded_path",
            Self::MissingWorkingDir => "missing_working_dir",
            Self::InvalidWorkingDir => "invalid_working_dir",
            Self::InvalidRequest => "invalid_request",
            Self::Hardline => "hardline",
        }
    }

    /// Whether this is a decision of the policy, taken before anything was opened or run.
    const fn is_policy(self) -> bool {
        matches!(
            self,
            Self::ProtectedPath | Self::BlockedRoot | Self::OutsideRoot
        )
    }
}

impl fmt::Display for DenialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct Denied {
    /// The rule.
    pub reason: DenialReason,
    /// What the caller wanted.
    pub access: Access,
    /// The object the rule looked at: canonical where it could be resolved, as given elsewhere.
    pub path: PathBuf,
    /// More about it where the reason alone does not say enough.
    pub detail: Option<String>,
    pub(crate) remedy: Remedy,
}

impl Denied {
    pub(crate) fn new(reason: DenialReason, access: Access, path: impl Into<PathBuf>) -> Self {
        Self {
            reason,
            access,
            path: path.into(),
            detail: None,
            remedy: Remedy::default(),
        }
    }

    #[must_use]
    pub(crate) fn with_remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = remedy;
        self
    }

    #[must_use]
    pub(crate) fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The folder whose grant would allow this: the path itself, or its parent when the path is (or
    /// would be) a file. Nothing when no grant could.
    pub fn grantable(&self) -> Option<&Path> {
        self.remedy.folder.as_deref()
    }

    fn message(&self) -> String {
        let path = self.path.display();
        let detail = self.detail.as_deref().unwrap_or_default();
        let with_remedy = |lead: &str| match self.remedy.words.as_str() {
            "" => format!("{lead}: {path}"),
            words => format!("{lead}: {path}. {words}"),
        };
        match self.reason {
            DenialReason::OutsideRoot => with_remedy("Path is outside the sandbox roots"),
            DenialReason::ProtectedPath | DenialReason::ProtectedAlias => {
                with_remedy("Path is protected by the sandbox")
            }
            DenialReason::BlockedRoot => with_remedy("Path is under a blocked root"),
            DenialReason::TooManySymlinks => {
                format!("Path resolved through too many symlinks: {path}")
            }
            DenialReason::InvalidPath if detail.is_empty() => format!("Invalid path: {path}"),
            DenialReason::InvalidPath | DenialReason::InvalidRequest | DenialReason::Hardline => {
                detail.to_owned()
            }
            DenialReason::PathChanged => format!(
                "Path changed while it was being opened: {path}. Try again when nothing else is changing it"
            ),
            DenialReason::GuardedPath => format!("Path is guarded: {path}. {detail}"),
            DenialReason::MissingWorkingDir => format!("Working directory does not exist: {path}"),
            DenialReason::InvalidWorkingDir => {
                format!("Invalid working directory: {path}. {detail}")
            }
        }
    }
}

impl From<Denied> for ToolError {
    fn from(denied: Denied) -> Self {
        let tag = match denied.reason {
            DenialReason::InvalidPath => "invalid_path",
            DenialReason::GuardedPath => "guarded_path",
            DenialReason::InvalidRequest => "invalid_request",
            DenialReason::Hardline => "sandbox_hardline",
            DenialReason::MissingWorkingDir | DenialReason::InvalidWorkingDir => {
                "invalid_working_dir"
            }
            DenialReason::ProtectedPath
            | DenialReason::ProtectedAlias
            | DenialReason::BlockedRoot
            | DenialReason::OutsideRoot
            | DenialReason::TooManySymlinks
            | DenialReason::PathChanged => "sandbox_denied",
        };
        let error = Self::new(tag, denied.message());
        match denied.reason {
            DenialReason::Hardline => error.denied(EnforcementDecision::Hardline),
            reason if reason.is_policy() => error.denied(EnforcementDecision::Deny),
            _ => error,
        }
    }
}
