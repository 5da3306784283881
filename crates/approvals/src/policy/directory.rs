//! The agent asks for a folder.

use std::collections::{BTreeSet, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fermix_capability::untrusted::OutsideSources;
use fermix_capability::{ApprovalPort, PromptOrigin};
use fermix_sandbox::{Access, DenialReason, Denied, Scope};
use fermix_types::TraceIds;

use super::error::PolicyError;
use super::operation::{GrantScope, Operation, State};
use super::pending::{PendingChange, title};
use super::{By, Intent, PolicyDesk, Provenance, blocking, lock};
use crate::confirmations::Parked;
use crate::shown::{one_line, visible, visible_path};

/// The longest reason, in characters.
const MAX_REASON: usize = 300;
/// How often the owner may be asked in one turn.
const MAX_PROMPTS: u32 = 3;
/// How many turns are remembered.
const MAX_TURNS: usize = 256;
/// How many outside sources a prompt names.
const MAX_SOURCES: usize = 3;

/// What the agent asks for, and for whom.
#[derive(Debug)]
pub struct DirectoryRequest<'a> {
    /// As the model wrote it.
    pub path: &'a str,
    /// Why, in the model's words.
    pub reason: &'a str,
    /// The turn, as the sandbox sees it.
    pub scope: Scope,
    /// The turn, for traces and for going on with it.
    pub turn: TraceIds,
    /// Who is asked.
    pub origin: &'a PromptOrigin,
    /// How they are asked.
    pub port: &'a dyn ApprovalPort,
    /// What the turn has read from outside.
    pub outside: &'a OutsideSources,
}

/// What the agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryAnswer {
    /// It is within reach.
    AlreadyAllowed {
        /// The canonical path.
        path: PathBuf,
    },
    /// The owner has been asked for it and has not answered.
    AlreadyPending {
        /// The folder.
        folder: PathBuf,
    },
    /// The owner is being asked.
    Requested {
        /// The folder.
        folder: PathBuf,
        /// Whether it was asked for as a file, and the folder around it is meant.
        is_widened: bool,
    },
}

/// Why the owner is not asked.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryRefusal {
    /// No grant may open it.
    #[error(
        "the sandbox refuses to grant `{}`, because {cause}; pick a specific project directory",
        visible_path(path)
    )]
    Unsafe {
        /// What was asked for.
        path: PathBuf,
        /// Why.
        cause: fermix_sandbox::UnsafeRoot,
    },
    /// It cannot be asked for.
    #[error("Cannot request access to {path}: {why}")]
    Cannot {
        /// What was asked for.
        path: String,
        /// Why.
        why: String,
    },
    /// The owner has said no in this turn.
    #[error(
        "the owner denied access to `{}` in this turn; do not ask again, go on without it",
        visible_path(.0)
    )]
    Denied(PathBuf),
    /// The owner has been asked often enough.
    #[error(
        "the owner has been asked {MAX_PROMPTS} times in this turn already; stop asking and report what is missing"
    )]
    TooMany,
    /// The prompt did not reach anybody.
    #[error("the owner could not be asked: {0}")]
    NotShown(String),
}

/// Names a turn.
pub(super) type TurnKey = (String, String);

/// What is remembered of the turns that asked, the newest last.
#[derive(Debug, Default)]
pub(super) struct Turns(VecDeque<(TurnKey, Turn)>);

#[derive(Debug, Default)]
struct Turn {
    prompts: u32,
    denied: BTreeSet<PathBuf>,
}

impl Turns {
    fn of(&mut self, key: &TurnKey) -> &mut Turn {
        let place = match self.0.iter().position(|(known, _)| known == key) {
            Some(place) => place,
            None => {
                if self.0.len() >= MAX_TURNS {
                    self.0.pop_front();
                }
                self.0.push_back((key.clone(), Turn::default()));
                self.0.len() - 1
            }
        };
        &mut self.0[place].1
    }

    pub(super) fn deny(&mut self, key: &TurnKey, folder: PathBuf) {
        self.of(key).denied.insert(folder);
    }
}

/// A request that passed every check.
struct Checked {
    folder: PathBuf,
    requested: PathBuf,
    is_widened: bool,
    diff: super::Diff,
}

impl PolicyDesk {
    /// Asks the owner for a folder, unless there is nothing to ask. Returns as soon as they have
    /// been asked; the answer comes as a message of its own.
    pub async fn request_directory(
        &self,
        request: DirectoryRequest<'_>,
    ) -> Result<DirectoryAnswer, DirectoryRefusal> {
        let key = (
            request.turn.session_id.clone(),
            request.turn.turn_id.clone(),
        );
        let checked = {
            let desk = self.clone();
            let (path, scope) = (request.path.to_owned(), request.scope.clone());
            let by = By::message(request.origin);
            let outcome = blocking(move || Ok(desk.check_directory(&path, &scope, &by))).await;
            outcome.map_err(|error| DirectoryRefusal::NotShown(error.to_string()))??
        };
        let checked = match checked {
            Err(path) => return Ok(DirectoryAnswer::AlreadyAllowed { path }),
            Ok(checked) => checked,
        };
        let is_spent = {
            let mut turns = lock(&self.inner.turns);
            let turn = turns.of(&key);
            if turn.denied.contains(&checked.folder) {
                return Err(DirectoryRefusal::Denied(checked.folder));
            }
            // Counted before it is shown, so that calls at the same time cannot share one place.
            let is_spent = turn.prompts >= MAX_PROMPTS;
            turn.prompts += u32::from(!is_spent);
            is_spent
        };
        let folder = checked.folder.clone();
        let is_widened = checked.is_widened;
        let body = body(&request, &checked);
        let pending = PendingChange {
            desk: self.clone(),
            operation: Operation::Grant {
                path: folder.clone(),
                scope: GrantScope::Always,
            },
            requested: Some(checked.requested),
            diff: checked.diff,
            requested_by: "agent".to_owned(),
            reason: one_line(request.reason, MAX_REASON),
            turn: Some((key.clone(), request.turn.clone())),
        };
        let title = title(&pending.operation);
        let (Parked { token, is_new, .. }, prompt) = pending
            .park(request.origin, title, body)
            .map_err(|error| DirectoryRefusal::NotShown(error.to_string()))?;
        if !is_new {
            let mut turns = lock(&self.inner.turns);
            let turn = turns.of(&key);
            turn.prompts = turn.prompts.saturating_sub(u32::from(!is_spent));
            return Ok(DirectoryAnswer::AlreadyPending { folder });
        }
        if is_spent {
            self.inner.prompts.withdraw(&token);
            return Err(DirectoryRefusal::TooMany);
        }
        if let Err(why) = request.port.show(&prompt).await {
            self.inner.prompts.withdraw(&token);
            return Err(DirectoryRefusal::NotShown(why));
        }
        Ok(DirectoryAnswer::Requested { folder, is_widened })
    }

    /// The inner error is the path that needs no grant. Blocks.
    fn check_directory(
        &self,
        path: &str,
        scope: &Scope,
        by: &By,
    ) -> Result<Result<Checked, PathBuf>, DirectoryRefusal> {
        let sandbox = &self.inner.sandbox;
        let cannot = |why: String| DirectoryRefusal::Cannot {
            path: visible(path),
            why,
        };
        let denied = match sandbox.would_allow(path, Access::Write, scope) {
            Ok(allowed) => return Ok(Err(allowed.path)),
            Err(denied) => denied,
        };
        // The owner has opened it for reading, and is not asked at once for more.
        if denied.reason == DenialReason::OutsideRoot
            && let Ok(allowed) = sandbox.would_allow(path, Access::Read, scope)
        {
            return Ok(Err(allowed.path));
        }
        let target = match denied.reason {
            // Within reach, and closed to writing for a reason that no grant of a folder changes.
            DenialReason::GuardedPath => return Ok(Err(denied.path)),
            DenialReason::OutsideRoot | DenialReason::ProtectedPath => denied.path,
            _ => return Err(cannot(lead(&denied))),
        };
        let is_file = std::fs::metadata(&target).is_ok_and(|found| !found.is_dir());
        let requested = match target.parent() {
            Some(parent) if is_file => parent.to_owned(),
            _ => target,
        };
        let operation = Operation::Grant {
            path: requested.clone(),
            scope: GrantScope::Always,
        };
        let provenance = Provenance {
            reason: "",
            requested_by: "",
            token: None,
        };
        let change = self
            .change(&operation, Intent::Try, by, &provenance)
            .map_err(|error| match error {
                PolicyError::UnsafeRoot {
                    path,
                    cause: cause @ fermix_sandbox::UnsafeRoot::NotADirectory,
                } => cannot(format!("`{}` does not exist: {cause}", visible_path(&path))),
                PolicyError::UnsafeRoot { path, cause } => DirectoryRefusal::Unsafe { path, cause },
                other => cannot(other.to_string()),
            })?;
        let Operation::Grant { path: folder, .. } = change.operation else {
            return Err(cannot("it is not a folder".to_owned()));
        };
        if change.state == State::Unchanged {
            return Ok(Err(folder));
        }
        Ok(Ok(Checked {
            folder,
            requested,
            is_widened: is_file,
            diff: change.diff,
        }))
    }
}

/// The refusal's own words, without the advice behind them.
fn lead(denied: &Denied) -> String {
    let words = denied.to_string();
    words.split(". ").next().unwrap_or_default().to_owned()
}

/// What stands between the title and the difference.
fn body(request: &DirectoryRequest<'_>, checked: &Checked) -> Vec<String> {
    let reason = one_line(request.reason, MAX_REASON);
    let mut lines = vec![format!(
        "The agent's words: \"{}\"",
        reason.replace('"', "'")
    )];
    if checked.is_widened {
        lines.push(format!(
            "It asked for the file {}; the grant is for the whole folder.",
            visible(request.path)
        ));
    }
    if is_foreign(&checked.folder) {
        lines.push("Note: this folder belongs to another user of this machine.".to_owned());
    }
    if request.outside.is_tainted() {
        let sources = request.outside.snapshot();
        let named: Vec<String> = sources
            .iter()
            .take(MAX_SOURCES)
            .map(|source| one_line(&source.label, 80))
            .collect();
        let named = match named.as_slice() {
            [] => "outside".to_owned(),
            named if sources.len() > named.len() => format!("{} and others", named.join(", ")),
            named => named.join(", "),
        };
        lines.push(format!(
            "Warning: this turn has read text from {named}, and that text may be what asks."
        ));
    }
    lines
}

/// Whether the folder is somebody else's.
pub(super) fn is_foreign(folder: &Path) -> bool {
    let owner = std::fs::metadata(folder).map(|found| found.uid());
    owner.is_ok_and(|owner| owner != rustix::process::geteuid().as_raw())
}
