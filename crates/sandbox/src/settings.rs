//! What the sandbox is told when it is built, and what each call tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use fermix_types::{ConversationKey, SandboxMode, TraceIds};
use tokio_util::sync::CancellationToken;

use crate::confine::ConfineSettings;

/// The `[sandbox]` section, with `~` already expanded.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// How much of the disk the tools reach.
    pub mode: SandboxMode,
    /// The folder every mode admits.
    pub workspace_root: PathBuf,
    /// The owner's grants.
    pub allowed_roots: Vec<PathBuf>,
    /// The owner's grants for reading only.
    pub read_roots: Vec<PathBuf>,
    /// Folders that win over mode roots and grants.
    pub blocked_roots: Vec<PathBuf>,
    /// What a child's environment holds.
    pub env: EnvPolicy,
    /// How commands are confined.
    pub confine: ConfineSettings,
    /// Repositories whose own hooks, filters and programs the owner lets `git_write` run.
    pub trusted_repos: Vec<PathBuf>,
}

/// What the machine around Fermix looks like. Read once, by the composition root.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The OS home of the user Fermix runs as.
    pub home: PathBuf,
    /// Where Fermix keeps its own state.
    pub fermix_home: PathBuf,
    /// The folder Fermix was started in. It becomes a root only strictly inside the home.
    pub launch_dir: Option<PathBuf>,
    /// The running executable, which no tool may touch.
    pub executable: PathBuf,
    /// A program whose `main` hands over to [`crate::launcher::main`] when its first argument is
    /// [`crate::launcher::ARGUMENT`]; `/proc/self/exe` survives an upgrade of the file on disk.
    /// Without one, commands are started directly and their tree is not tied to the life of this
    /// process.
    pub launcher: Option<PathBuf>,
    /// The environment of this process.
    pub environment: BTreeMap<OsString, OsString>,
}

impl Surroundings {
    /// A variable of this process. A blank value counts as unset.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !is_blank(value))
    }
}

fn is_blank(value: &OsStr) -> bool {
    value.to_string_lossy().trim().is_empty()
}

/// Who asks, from where, and what came with the turn. The default is the narrowest.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The turn, for the trace.
    pub ids: TraceIds,
    /// The agent's name, for the trace.
    pub agent: Option<String>,
    /// The conversation: for the trace, for the limit of concurrent commands, and for the folders
    /// that are open to it alone.
    pub conversation: Option<ConversationKey>,
    /// The request's folder. Only a local turn of the owner carries one.
    pub cwd: Option<PathBuf>,
    /// Whether the owner is there to see what happens.
    pub attended: bool,
    /// Variables an editor session brings; they win over everything else.
    pub session_env: Vec<(String, String)>,
    /// Fires when the turn is stopped.
    pub cancel: CancellationToken,
}

/// The `[sandbox.env]` section.
#[derive(Clone, Debug, Default)]
pub struct EnvPolicy {
    /// Whether a child starts from the base variables or from everything.
    pub mode: EnvMode,
    /// Names passed on.
    pub allow: BTreeSet<String>,
    /// Names never passed on; wins over everything else in this policy.
    pub deny: BTreeSet<String>,
    /// Where the value of a name comes from when it is not the variable of the same name.
    pub sources: BTreeMap<String, EnvSource>,
}

/// `[sandbox.env] mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnvMode {
    /// The base variables and the allowed names.
    #[default]
    Selected,
    /// Everything less the denied names, as long as no name is allowed or required.
    All,
}

/// `[sandbox.env.<NAME>]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvSource {
    /// A variable of this process under another name.
    Env {
        /// The variable's name.
        name: String,
    },
    /// The single line a helper prints. It is run afresh for each command.
    Command {
        /// The helper: an absolute path, or a name on this process's `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// How long it may take; [`EnvSource::HELPER_TIMEOUT`] unless configured.
        timeout: Duration,
    },
}

impl EnvSource {
    /// How long a helper may take unless configured otherwise.
    pub const HELPER_TIMEOUT: Duration = Duration::from_secs(3);
}
