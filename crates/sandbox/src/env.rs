//! What a child's environment holds.
//!
//! Values reach the child through its environment and never through an argument list, which every
//! user of the machine can read. What a helper prints never appears in an error: it may be the secret.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use fermix_types::ToolError;
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::runner::{CommandSpec, Ending, RunError, Stderr};
use crate::sandbox::{Inner, Sandbox};
use crate::settings::{EnvMode, EnvSource, Scope, Surroundings};
use crate::spawn::find_executable;
use crate::workdir::WorkingDir;

/// Passed on whenever they are set.
const BASE: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "SHELL",
    "TMPDIR",
    "TZ",
    "XDG_RUNTIME_DIR",
];
/// The search path of a process that was started without one.
const FALLBACK_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The longest value a helper may print, in bytes.
const MAX_HELPER_OUTPUT: usize = 8192;

/// The environment of one command.
#[derive(Clone, Debug, Default)]
pub struct ChildEnv {
    /// Sorted by name.
    pub vars: Vec<(OsString, OsString)>,
    /// One sentence for each allowed variable that has no value, with the remedy. Belongs before the
    /// command's output.
    pub notes: Vec<String>,
    /// Their names, for the trace.
    pub unresolved: Vec<String>,
}

/// Why a variable has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// Not on the allow list.
    #[error("variable {0} is not passed to commands. Allow it with `fermix sandbox env allow {0}`")]
    NotAllowed(String),
    /// On the deny list.
    #[error("variable {0} is denied. Allow it with `fermix sandbox env allow {0}`")]
    Denied(String),
    /// Not set where Fermix was started.
    #[error(
        "variable {0} is not set. Set it where Fermix is started, or name a helper with `fermix sandbox env set {0} -- COMMAND`"
    )]
    Missing(String),
    /// The helper does not exist.
    #[error(
        "the helper of variable {name} was not found: {command}. Change it with `fermix sandbox env set {name} -- COMMAND`"
    )]
    HelperNotFound {
        /// The variable.
        name: String,
        /// The helper as configured.
        command: String,
    },
    /// The helper failed.
    #[error(
        "the helper of variable {name} failed with exit code {exit}. Run it by hand, or change it with `fermix sandbox env set {name} -- COMMAND`"
    )]
    HelperFailed {
        /// The variable.
        name: String,
        /// Its exit code.
        exit: i32,
    },
    /// The helper took too long.
    #[error("the helper of variable {name} took longer than {} ms. Raise `[sandbox.env.{name}] timeout_ms`, or change it with `fermix sandbox env set {name} -- COMMAND`", timeout.as_millis())]
    HelperTimeout {
        /// The variable.
        name: String,
        /// What it was given.
        timeout: Duration,
    },
    /// The helper printed something that is not a value.
    #[error(
        "the helper of variable {name} printed {problem}; it must print one line of at most 8192 bytes. Change it with `fermix sandbox env set {name} -- COMMAND`"
    )]
    HelperOutput {
        /// The variable.
        name: String,
        /// What was wrong with it, without quoting it.
        problem: &'static str,
    },
    /// The helper could not be run.
    #[error("the helper of variable {name} could not be run: {problem}")]
    HelperNotRun {
        /// The variable.
        name: String,
        /// The runner's words.
        problem: String,
    },
}

impl EnvError {
    /// The tag of the tool's answer and of the readiness advisory.
    pub const fn tag(&self) -> &'static str {
        match self {
            Self::NotAllowed(_) => "env_not_allowed",
            Self::Denied(_) => "env_denied",
            Self::Missing(_) => "missing_env",
            Self::HelperNotFound { .. } => "env_command_not_found",
            Self::HelperFailed { .. } | Self::HelperNotRun { .. } => "env_command_failed",
            Self::HelperTimeout { .. } => "env_command_timeout",
            Self::HelperOutput { .. } => "env_command_output",
        }
    }
}

impl From<EnvError> for ToolError {
    fn from(error: EnvError) -> Self {
        Self::new(error.tag(), error.to_string())
    }
}

impl Sandbox {
    /// The environment of a command of this turn. A variable without a value never stops the
    /// command: it becomes a note.
    pub async fn child_env(&self, scope: &Scope) -> ChildEnv {
        // Nothing is required, so nothing can be missing.
        self.now().child_env(&[], scope).await.unwrap_or_default()
    }

    /// The environment of a command that cannot work without the variables `required`.
    pub async fn require(&self, required: &[&str], scope: &Scope) -> Result<ChildEnv, EnvError> {
        self.now().child_env(required, scope).await
    }

    /// Those of the variables `names` that are set for this process, for a program whose whole
    /// environment its caller makes. `PATH` always has a value. No helper is asked.
    pub fn variables(&self, names: &[&str]) -> Vec<(OsString, OsString)> {
        let inner = self.now();
        let value = |name: &str| match name {
            "PATH" => Some(inner.search_path()),
            _ => inner.surroundings.variable(name).map(OsStr::to_owned),
        };
        names
            .iter()
            .filter_map(|name| Some(((*name).into(), value(name)?)))
            .collect()
    }

    /// The executable called `name`, on the search path commands get.
    pub fn executable(&self, name: &str) -> Option<std::path::PathBuf> {
        find_executable(OsStr::new(name), &self.now().search_path())
    }
}

impl Inner {
    fn search_path(&self) -> OsString {
        search_path(&self.surroundings)
    }

    async fn child_env(&self, required: &[&str], scope: &Scope) -> Result<ChildEnv, EnvError> {
        let policy = &self.settings.env;
        for name in required {
            if policy.deny.contains(*name) {
                return Err(EnvError::Denied((*name).to_owned()));
            }
            if policy.mode == EnvMode::Selected && !policy.allow.contains(*name) {
                return Err(EnvError::NotAllowed((*name).to_owned()));
            }
        }
        let names: Vec<&str> = required
            .iter()
            .copied()
            .chain(
                policy
                    .allow
                    .iter()
                    .map(String::as_str)
                    .filter(|name| !required.contains(name)),
            )
            .filter(|name| !policy.deny.contains(*name))
            .collect();
        // Denying the one allowed name leaves the base, not everything: a name was asked for.
        let takes_everything =
            policy.mode == EnvMode::All && policy.allow.is_empty() && required.is_empty();
        let mut vars = if takes_everything {
            self.surroundings.environment.clone()
        } else {
            self.base()
        };
        vars.retain(|name, _| !policy.deny.contains(name.to_string_lossy().as_ref()));
        vars.insert("TERM".into(), "dumb".into());

        let base = self.base();
        let values = join_all(names.iter().map(|name| self.value(name, &base, scope))).await;
        let mut env = ChildEnv::default();
        for (name, value) in names.iter().zip(values) {
            match value {
                Ok(value) => {
                    vars.insert((*name).into(), value);
                }
                Err(error) if required.contains(name) => return Err(error),
                Err(error) => {
                    tracing::debug!(name, tag = error.tag(), "an allowed variable has no value");
                    env.notes.push(format!("note: {error}"));
                    env.unresolved.push((*name).to_owned());
                }
            }
        }
        for (name, value) in &scope.session_env {
            vars.insert(name.into(), value.into());
        }
        env.vars = vars.into_iter().collect();
        Ok(env)
    }

    /// The variables every child gets.
    pub(crate) fn base(&self) -> BTreeMap<OsString, OsString> {
        let mut vars: BTreeMap<OsString, OsString> = self
            .surroundings
            .environment
            .iter()
            .filter(|(name, _)| {
                name.to_str()
                    .is_some_and(|name| BASE.contains(&name) || name.starts_with("LC_"))
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        vars.insert("PATH".into(), self.search_path());
        vars
    }

    async fn value(
        &self,
        name: &str,
        base: &BTreeMap<OsString, OsString>,
        scope: &Scope,
    ) -> Result<OsString, EnvError> {
        let missing = || EnvError::Missing(name.to_owned());
        match self.settings.env.sources.get(name) {
            None => self
                .surroundings
                .variable(name)
                .map(OsStr::to_owned)
                .ok_or_else(missing),
            Some(EnvSource::Env { name: other }) => self
                .surroundings
                .variable(other)
                .map(OsStr::to_owned)
                .ok_or_else(missing),
            Some(EnvSource::Command {
                command,
                args,
                timeout,
            }) => {
                let base = base
                    .iter()
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                self.ask_helper(name, command, args, *timeout, base, &scope.cancel)
                    .await
            }
        }
    }

    async fn ask_helper(
        &self,
        name: &str,
        command: &str,
        args: &[String],
        timeout: Duration,
        env: Vec<(OsString, OsString)>,
        cancel: &CancellationToken,
    ) -> Result<OsString, EnvError> {
        let not_run = |problem: String| EnvError::HelperNotRun {
            name: name.to_owned(),
            problem,
        };
        let not_found = || EnvError::HelperNotFound {
            name: name.to_owned(),
            command: command.to_owned(),
        };
        let program = self.expanded(Path::new(command));
        let program =
            find_executable(program.as_os_str(), &self.search_path()).ok_or_else(not_found)?;
        let cwd = WorkingDir::unchecked(&self.surroundings.home)
            .map_err(|error| not_run(error.to_string()))?;
        let spec = CommandSpec {
            timeout,
            // More than the longest value, so that one that is too long is seen to be.
            output_cap: MAX_HELPER_OUTPUT * 2,
            stderr: Stderr::Discarded,
            private_files: true,
            jail: crate::jail::Jail::open(),
            ..CommandSpec::new("env helper", program, args, cwd, env)
        };
        let outcome = match self.runner.run(spec, cancel).await {
            Ok(outcome) => outcome,
            Err(RunError::ExecutableNotFound(_)) => return Err(not_found()),
            Err(error) => return Err(not_run(error.to_string())),
        };
        match outcome.ending {
            Ending::TimedOut => {
                return Err(EnvError::HelperTimeout {
                    name: name.to_owned(),
                    timeout,
                });
            }
            Ending::Cancelled => return Err(not_run("it was stopped".to_owned())),
            Ending::Exited | Ending::OutputLimit => {}
        }
        if outcome.exit != 0 {
            return Err(EnvError::HelperFailed {
                name: name.to_owned(),
                exit: outcome.exit,
            });
        }
        one_line(&outcome.stdout, outcome.truncated).map_err(|problem| EnvError::HelperOutput {
            name: name.to_owned(),
            problem,
        })
    }
}

/// The search path commands get.
pub(crate) fn search_path(surroundings: &Surroundings) -> OsString {
    surroundings
        .variable("PATH")
        .map_or_else(|| FALLBACK_PATH.into(), OsStr::to_owned)
}

/// The single line in a helper's output.
fn one_line(output: &[u8], is_truncated: bool) -> Result<OsString, &'static str> {
    use std::os::unix::ffi::OsStrExt as _;
    if is_truncated || output.len() > MAX_HELPER_OUTPUT {
        return Err("too much");
    }
    let line = output.strip_suffix(b"\n").unwrap_or(output);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err("nothing");
    }
    if line.contains(&b'\n') || line.contains(&b'\r') {
        return Err("several lines");
    }
    if line.contains(&0) {
        return Err("a null byte");
    }
    Ok(OsStr::from_bytes(line).to_owned())
}
