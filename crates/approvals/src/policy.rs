//! The one place that changes what tools reach.
//!
//! Every change is tried on the current file first. What only takes away applies at once; what gives
//! something has to be confirmed by the owner. A change that was confirmed is saved, put in force
//! and recorded, in that order, under one lock.

mod chat;
mod diff;
mod directory;
mod edit;
mod error;
mod look;
mod operation;
mod pending;
mod records;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use fermix_capability::{Choice, PromptOrigin};
use fermix_config::{ConfigFile, Home, SandboxConfig};
use fermix_sandbox::{Sandbox, SandboxSettings, Scope};
use fermix_types::{Clock, ConversationKey, TraceIds, TraceKind, TraceRow, TraceSink};
use serde_json::json;

pub use chat::{Reply, Who};
pub use directory::{DirectoryAnswer, DirectoryRefusal, DirectoryRequest};
pub use error::PolicyError;
pub use operation::{GrantScope, Operation, Outcome, State};
pub use records::GrantRecord;

use self::diff::{Diff, Reach};
use self::directory::Turns;
use crate::confirmations::ConfirmError;
use crate::shown::visible_path;
use crate::waiting::{self, Monotonic, Prompts};

/// Turns the `[sandbox]` section into the settings of the running process.
pub type SettingsOf = Arc<dyn Fn(&SandboxConfig) -> SandboxSettings + Send + Sync>;
/// Registers the tools of `[sandbox.commands]` anew.
pub type CommandsChanged = Arc<dyn Fn(&SandboxConfig) + Send + Sync>;

/// What a desk is made of.
pub struct PolicyParts {
    /// Whose `config.toml`.
    pub home: Home,
    /// The policy that is in force. Changes reach it and all its clones.
    pub sandbox: Sandbox,
    /// The section the sandbox was built from.
    pub in_force: SandboxConfig,
    /// How the section becomes settings.
    pub settings_of: SettingsOf,
    /// What else follows the section.
    pub commands_changed: CommandsChanged,
    /// Where prompts wait.
    pub prompts: Arc<Prompts>,
    /// The time of day, for records.
    pub clock: Arc<dyn Clock>,
    /// The time that tokens run out by.
    pub monotonic: Monotonic,
    /// Takes a row for each change and each prompt.
    pub trace: Arc<dyn TraceSink>,
}

/// Sends a request again that led to a grant.
#[async_trait]
pub trait ResumePort: Send + Sync + fmt::Debug {
    /// Puts the message of the turn `resume.turn` into its conversation once more, under the id
    /// `resume.id`, through the usual authorisation, and returns without waiting for its turn. The
    /// error is for the log; the owner is told to ask again.
    async fn resume(&self, resume: Resume) -> Result<(), String>;
}

/// Which request goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// `grant-resume-<n>`: the id of the message that is sent again.
    pub id: String,
    /// Where it was asked, and by whom.
    pub origin: PromptOrigin,
    /// The turn that asked for the folder.
    pub turn: TraceIds,
}

/// Who asks for an operation, and from where.
#[derive(Clone, Debug)]
pub struct By {
    /// The channel's name.
    pub channel: String,
    /// The sender as the channel knows them.
    pub user: String,
    /// The conversation, where there is one.
    pub conversation: Option<ConversationKey>,
    /// The folder of a local request.
    pub cwd: Option<PathBuf>,
}

impl By {
    /// The owner on this machine: the command line or the daemon's socket.
    pub fn command_line(cwd: Option<PathBuf>) -> Self {
        Self {
            channel: "cli".to_owned(),
            user: "owner".to_owned(),
            conversation: None,
            cwd,
        }
    }

    /// The sender of a message.
    pub fn message(origin: &PromptOrigin) -> Self {
        Self {
            channel: origin.conversation.channel.clone(),
            user: origin.user.clone(),
            conversation: Some(origin.conversation.clone()),
            cwd: None,
        }
    }

    fn scope(&self) -> Scope {
        Scope {
            conversation: self.conversation.clone(),
            cwd: self.cwd.clone(),
            attended: true,
            ..Scope::default()
        }
    }
}

/// Looks at the policy and changes it. Cheap to clone.
#[derive(Clone)]
pub struct PolicyDesk {
    inner: Arc<Inner>,
}

struct Inner {
    home: Home,
    sandbox: Sandbox,
    /// The section the running process follows. Held while a change is made, so that changes come
    /// one after the other.
    in_force: Mutex<SandboxConfig>,
    settings_of: SettingsOf,
    commands_changed: CommandsChanged,
    prompts: Arc<Prompts>,
    clock: Arc<dyn Clock>,
    monotonic: Monotonic,
    trace: Arc<dyn TraceSink>,
    resume: Mutex<Option<Arc<dyn ResumePort>>>,
    resumed: AtomicU64,
    turns: Mutex<Turns>,
}

impl fmt::Debug for PolicyDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyDesk").finish_non_exhaustive()
    }
}

/// How far a change may go.
#[derive(Clone, Copy)]
enum Intent<'a> {
    /// Nothing is written.
    Try,
    /// Only what gives nothing.
    Unconfirmed,
    /// Everything; the owner has just seen the difference on their own terminal.
    Confirmed,
    /// What the owner saw when they were asked, and no more.
    AsShown(&'a BTreeSet<(&'static str, String)>),
}

/// What a change is, or was.
#[derive(Debug)]
struct Change {
    state: State,
    diff: Diff,
    /// With the canonical path of a grant.
    operation: Operation,
}

/// What a grant's record says besides the path.
struct Provenance<'a> {
    reason: &'a str,
    requested_by: &'a str,
    token: Option<&'a str>,
}

impl PolicyDesk {
    /// A desk over the given parts.
    pub fn new(parts: PolicyParts) -> Self {
        Self {
            inner: Arc::new(Inner {
                home: parts.home,
                sandbox: parts.sandbox,
                in_force: Mutex::new(parts.in_force),
                settings_of: parts.settings_of,
                commands_changed: parts.commands_changed,
                prompts: parts.prompts,
                clock: parts.clock,
                monotonic: parts.monotonic,
                trace: parts.trace,
                resume: Mutex::default(),
                resumed: AtomicU64::new(1),
                turns: Mutex::default(),
            }),
        }
    }

    /// Gives confirmed requests a way to go on. The port must not own what owns the desk.
    pub fn resume_through(&self, port: Arc<dyn ResumePort>) {
        *lock(&self.inner.resume) = Some(port);
    }

    /// Where prompts wait.
    pub fn prompts(&self) -> &Arc<Prompts> {
        &self.inner.prompts
    }

    /// The settings in force.
    pub fn in_force(&self) -> SandboxConfig {
        lock(&self.inner.in_force).clone()
    }

    /// Takes over settings that were read from the file anew. Until this is called after an edit
    /// from outside, the desk changes nothing. Blocks for a moment.
    pub fn reload(&self, config: SandboxConfig) -> Result<(), PolicyError> {
        let mut in_force = lock(&self.inner.in_force);
        self.put_in_force(&config)?;
        *in_force = config;
        Ok(())
    }

    /// Carries out an operation of the owner, who is known to be there in person unless it only
    /// looks. `confirmed` says that they have seen what it gives. Blocks: see [`Self::run`].
    pub fn run_blocking(
        &self,
        operation: &Operation,
        confirmed: bool,
        by: &By,
    ) -> Result<Outcome, PolicyError> {
        if operation.is_look() {
            return look::run(self, operation, by);
        }
        let intent = if confirmed {
            Intent::Confirmed
        } else {
            Intent::Unconfirmed
        };
        let provenance = Provenance {
            reason: "",
            requested_by: &by.user,
            token: None,
        };
        let change = self.change(operation, intent, by, &provenance)?;
        Ok(change.outcome())
    }

    /// The same off the executor.
    pub async fn run(
        &self,
        operation: Operation,
        confirmed: bool,
        by: By,
    ) -> Result<Outcome, PolicyError> {
        let desk = self.clone();
        blocking(move || desk.run_blocking(&operation, confirmed, &by)).await
    }

    /// Answers a prompt; `None` is the plain `/confirm TOKEN`. The caller knows that `origin` is the
    /// owner in person.
    pub async fn answer(
        &self,
        token: &str,
        choice: Option<Choice>,
        origin: &PromptOrigin,
    ) -> Result<String, ConfirmError> {
        let now = (self.inner.monotonic)();
        waiting::answer(&self.inner.prompts, token, choice, origin, now).await
    }

    /// Tries the change on the current file, and makes it when `intent` lets it.
    fn change(
        &self,
        operation: &Operation,
        intent: Intent<'_>,
        by: &By,
        provenance: &Provenance<'_>,
    ) -> Result<Change, PolicyError> {
        let mut in_force = lock(&self.inner.in_force);
        let operation = self.settled(operation)?;
        if let Operation::Grant {
            path,
            scope: GrantScope::Once,
        } = &operation
        {
            return self.grant_once(path.clone(), intent, by, provenance);
        }
        let mut file = match intent {
            Intent::Try => ConfigFile::open(&self.inner.home)?,
            Intent::Unconfirmed | Intent::Confirmed | Intent::AsShown(_) => {
                ConfigFile::open_locked(&self.inner.home)?
            }
        };
        let before = file.config()?.sandbox;
        if before != *in_force {
            return Err(PolicyError::ConfigChanged);
        }
        let untouched = file.text().to_owned();
        edit::apply(&operation, &mut file, &before)?;
        let after = file.config()?.sandbox;
        let diff = self.reach(&before)?.to(&self.reach(&after)?);
        let of = |state, diff| {
            Ok(Change {
                state,
                diff,
                operation: operation.clone(),
            })
        };
        // What was opened for this conversation alone goes with a revocation too.
        let revoked_here = match (&operation, &by.conversation) {
            (Operation::Revoke { path }, Some(conversation)) => self
                .inner
                .sandbox
                .revoke_for_conversation(conversation, path),
            _ => false,
        };
        if file.text() == untouched {
            let state = if revoked_here {
                State::Applied
            } else {
                State::Unchanged
            };
            return of(state, diff);
        }
        match intent {
            Intent::Try => return of(State::NeedsConfirmation, diff),
            Intent::Unconfirmed if !diff.gains.is_empty() => {
                return of(State::NeedsConfirmation, diff);
            }
            Intent::AsShown(shown) if !diff.gains.is_subset(shown) => {
                return Err(PolicyError::Stale);
            }
            Intent::Unconfirmed | Intent::Confirmed | Intent::AsShown(_) => {}
        }
        // Settings that cannot be put in force must not be saved.
        self.inner
            .sandbox
            .with_settings((self.inner.settings_of)(&after))?;
        let record = match &operation {
            Operation::Grant { path, scope } => {
                Some(self.write_record(path, *scope, by, provenance)?)
            }
            _ => None,
        };
        if let Err(error) = file.save() {
            if let Some(record) = record {
                // A record of a grant that did not happen would mislead.
                let _ = std::fs::remove_file(record);
            }
            return Err(error.into());
        }
        self.put_in_force(&after)?;
        *in_force = after;
        self.trace_change(&operation, &diff, by);
        of(State::Applied, diff)
    }

    /// A grant that lives in memory: no file changes, and the record is written all the same.
    fn grant_once(
        &self,
        path: PathBuf,
        intent: Intent<'_>,
        by: &By,
        provenance: &Provenance<'_>,
    ) -> Result<Change, PolicyError> {
        let Some(conversation) = &by.conversation else {
            return Err(PolicyError::Invalid(
                "`once` opens a folder for one conversation, and there is none here; ask in the \
                 conversation"
                    .to_owned(),
            ));
        };
        let entry = format!("{} (this conversation)", visible_path(&path));
        let diff = Diff {
            lines: vec![format!("effective_roots + {entry}")],
            gains: BTreeSet::from([("effective_roots", entry)]),
        };
        let operation = Operation::Grant {
            path: path.clone(),
            scope: GrantScope::Once,
        };
        let held = self.inner.sandbox.conversation_grants(conversation);
        let state = match intent {
            _ if held.contains(&path) => State::Unchanged,
            Intent::Try | Intent::Unconfirmed => State::NeedsConfirmation,
            Intent::Confirmed | Intent::AsShown(_) => {
                let record = self.write_record(&path, GrantScope::Once, by, provenance)?;
                if let Err(error) = self
                    .inner
                    .sandbox
                    .grant_for_conversation(conversation, &path)
                {
                    let _ = std::fs::remove_file(record);
                    return Err(error.into());
                }
                self.trace_change(&operation, &diff, by);
                State::Applied
            }
        };
        Ok(Change {
            state,
            diff,
            operation,
        })
    }

    /// The operation with the path it really means, when that may be granted.
    fn settled(&self, operation: &Operation) -> Result<Operation, PolicyError> {
        match operation {
            Operation::Grant { path, scope } => Ok(Operation::Grant {
                path: self.grantable(path)?,
                scope: *scope,
            }),
            Operation::Revoke { path } => {
                let path = self.absolute(path)?;
                Ok(Operation::Revoke {
                    path: path.canonicalize().unwrap_or(path),
                })
            }
            other => Ok(other.clone()),
        }
    }

    /// The canonical folder behind `path`, when it may be granted and the grant would open it.
    fn grantable(&self, path: &Path) -> Result<PathBuf, PolicyError> {
        let path = self.absolute(path)?;
        let folder = self
            .inner
            .sandbox
            .grantable_root(&path)
            .map_err(|cause| PolicyError::UnsafeRoot { path, cause })?;
        match self.inner.sandbox.blocking_root(&folder) {
            Some(by) => Err(PolicyError::Blocked { path: folder, by }),
            None => Ok(folder),
        }
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf, PolicyError> {
        let expanded = match (path.strip_prefix("~"), self.inner.home.os_home()) {
            (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_owned(),
        };
        if expanded.is_absolute() {
            Ok(expanded)
        } else {
            Err(PolicyError::Relative(path.to_owned()))
        }
    }

    /// What tools reach under `config`, for a turn without a folder of its own.
    fn reach(&self, config: &SandboxConfig) -> Result<Reach, PolicyError> {
        let settings = (self.inner.settings_of)(config);
        let roots = self
            .inner
            .sandbox
            .with_settings(settings)?
            .roots(&Scope::default());
        Ok(Reach::of(config, roots.iter().map(|root| &**root)))
    }

    fn put_in_force(&self, config: &SandboxConfig) -> Result<(), PolicyError> {
        let settings = (self.inner.settings_of)(config);
        self.inner.sandbox.reconfigure(settings)?;
        (self.inner.commands_changed)(config);
        Ok(())
    }

    fn trace_change(&self, operation: &Operation, diff: &Diff, by: &By) {
        let fields = json!({
            "event": "policy_change",
            "operation": operation.name(),
            "diff": diff.lines,
            "channel": by.channel,
            "user": by.user,
        });
        self.trace(&TraceIds::default(), fields);
    }

    fn trace(&self, ids: &TraceIds, fields: serde_json::Value) {
        let row = TraceRow::new(TraceKind::AgentEvent, ids, fields);
        self.inner.trace.record(row);
    }
}

impl Change {
    fn outcome(self) -> Outcome {
        let message = match self.state {
            State::Applied => format!("applied: {}", describe(&self.operation)),
            State::NeedsConfirmation => {
                format!("needs confirmation: {}", describe(&self.operation))
            }
            State::Unchanged | State::Shown => {
                format!("nothing to change: {}", unchanged(&self.operation))
            }
        };
        Outcome {
            state: self.state,
            diff: self.diff.lines,
            message,
            facts: None,
        }
    }
}

/// The change in words, without a verb of its own state.
fn describe(operation: &Operation) -> String {
    match operation {
        Operation::SetMode { mode } => format!("sandbox mode {mode}"),
        Operation::Grant { path, scope } => {
            let how = match scope {
                GrantScope::Always => "for reading and writing",
                GrantScope::Read => "for reading only",
                GrantScope::Once => "for this conversation",
            };
            format!("grant of `{}` {how}", visible_path(path))
        }
        Operation::Revoke { path } => format!("revocation of `{}`", visible_path(path)),
        Operation::EnvAllow { name } => format!("variable {name} is passed to commands"),
        Operation::EnvDeny { name } => format!("variable {name} is not passed to commands"),
        Operation::EnvSet { name, .. } => format!("variable {name} comes from a helper"),
        Operation::EnvUnset { name } => format!("variable {name} is forgotten"),
        Operation::CommandProfile { profile } => format!("command profile {profile}"),
        Operation::EnablePreset { name } => format!("preset {name} is on"),
        Operation::DisablePreset { name } => format!("preset {name} is off"),
        Operation::EnableCommand { name } => format!("command {name} is on"),
        Operation::DisableCommand { name } => format!("command {name} is off"),
        Operation::BindCommand { name, .. } => format!("command {name} is a tool"),
        look => look.name().to_owned(),
    }
}

/// Why there was nothing to do.
fn unchanged(operation: &Operation) -> String {
    match operation {
        Operation::Revoke { path } => format!(
            "`{}` is not a granted folder; `fermix sandbox explain` lists those that are",
            visible_path(path)
        ),
        other => format!("{} already", describe(other)),
    }
}

/// Work that waits for the disk, off the executor.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PolicyError> + Send + 'static,
) -> Result<T, PolicyError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(PolicyError::Stopped),
        },
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
