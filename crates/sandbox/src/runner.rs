//! The command runner: the only place that starts processes, and the owner of all of them.
//!
//! A run has a deadline, a bounded output and a place in two limits. However it ends, everything it
//! started ends with it. Dropping the future of [`Runner::run`] stops the run as a cancellation does.

mod capture;
mod direct;
mod launched;
mod machine;
mod supervise;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use fermix_types::ConversationKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::confine::probe::Machine;
use crate::confine::view::ViewPolicy;
use crate::confine::{Confinement, Step};
use crate::jail::Jail;
use crate::plan::is_passable;
use crate::workdir::WorkingDir;

/// The deadline of a run unless its caller sets another.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The bytes of output kept unless the caller sets another number: three quarters from the start,
/// one quarter from the end.
pub const DEFAULT_OUTPUT_CAP: usize = 1024 * 1024;
/// A run that prints more than this is killed.
pub const MAX_PRODUCED: u64 = 256 * 1024 * 1024;
/// The most runs at once.
pub const MAX_RUNS: usize = 32;
/// The most runs at once for one conversation.
pub const MAX_RUNS_PER_CONVERSATION: usize = 8;
/// The longest standard input, in bytes: the largest document that is read as one.
pub const MAX_STDIN: usize = 20 * 1024 * 1024;

/// What to run.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// Absolute; see [`crate::find_executable`].
    pub program: PathBuf,
    /// Without the program's own name.
    pub args: Vec<OsString>,
    /// Where it runs.
    pub cwd: WorkingDir,
    /// The whole environment. The run's marker is added to it.
    pub env: Vec<(OsString, OsString)>,
    /// How long it may take, waiting for its turn included.
    pub timeout: Duration,
    /// Bytes of output kept, for each stream when they are apart.
    pub output_cap: usize,
    /// What it reads; nothing means `/dev/null`. At most [`MAX_STDIN`] bytes.
    pub stdin: Option<Vec<u8>>,
    /// What becomes of standard error.
    pub stderr: Stderr,
    /// Whether files it creates are readable by this user only (umask 077 instead of 022).
    pub private_files: bool,
    /// What the kernel lets it reach.
    pub jail: Jail,
    /// The conversation whose limit it counts against.
    pub conversation: Option<ConversationKey>,
    /// What it is, for the log. Never an argument or a value.
    pub label: &'static str,
}

impl CommandSpec {
    /// A command with the usual limits, nothing to read, its two streams merged, and the narrowest
    /// view of the disk: set [`CommandSpec::jail`] for one that has to reach something.
    pub fn new(
        label: &'static str,
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
        cwd: WorkingDir,
        env: Vec<(OsString, OsString)>,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            cwd,
            env,
            timeout: DEFAULT_TIMEOUT,
            output_cap: DEFAULT_OUTPUT_CAP,
            stdin: None,
            stderr: Stderr::Merged,
            private_files: false,
            jail: Jail::closed(),
            conversation: None,
            label,
        }
    }
}

/// What becomes of a command's standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stderr {
    /// It goes into `stdout` in the order of arrival.
    #[default]
    Merged,
    /// It is kept apart.
    Separate,
    /// It is thrown away.
    Discarded,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The command ended by itself.
    Exited,
    /// The deadline passed.
    TimedOut,
    /// It printed more than [`MAX_PRODUCED`] bytes.
    OutputLimit,
    /// The turn was stopped.
    Cancelled,
}

/// What a run left behind.
#[derive(Clone, Debug)]
pub struct CommandOutcome {
    /// How it ended.
    pub ending: Ending,
    /// The exit code; 128 and the signal's number for a command ended by a signal.
    pub exit: i32,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// Output until the end, or until it was told to end.
    pub stdout: Vec<u8>,
    /// Filled with [`Stderr::Separate`] only.
    pub stderr: Vec<u8>,
    /// Whether the middle of the output is missing. A marker stands in its place.
    pub truncated: bool,
    /// How many bytes are missing.
    pub omitted_bytes: u64,
    /// From the start of the process to its end.
    pub duration: Duration,
    /// How it was confined.
    pub confined: Confinement,
    /// Whether everything the run had started is proven to be gone.
    pub is_clean: bool,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No such program.
    #[error("executable not found: {}", .0.display())]
    ExecutableNotFound(PathBuf),
    /// Too many others run; none ended within the deadline.
    #[error("busy: too many commands are running, and none ended within {} ms. Wait for one or stop it", .0.as_millis())]
    Busy(Duration),
    /// Stopped before it started.
    #[error("cancelled before the command started")]
    Cancelled,
    /// The request itself cannot be run.
    #[error("invalid command: {0}")]
    Invalid(&'static str),
    /// The system refused to start it.
    #[error("could not start {}: {source}", program.display())]
    NotStarted {
        /// The program.
        program: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A step of its confinement failed, so it was not run.
    #[error(
        "the command was not run, because it could not be confined ({step}: {source}). `fermix doctor` says what this machine offers"
    )]
    NotConfined {
        /// The step.
        step: Step,
        /// The system's words.
        source: io::Error,
    },
    /// The configuration demands a layer this machine lacks.
    #[error(
        "no command is run, because `[sandbox.confine] mode` is \"require\" and this machine lacks: {missing}. Enable it in the kernel, or have the owner set the mode to \"auto\""
    )]
    Unconfined {
        /// The layers, with the reasons.
        missing: String,
    },
    /// Its launcher died; what became of the command is unknown. Its tree was killed.
    #[error("the command's launcher died, so its result is lost. Run it again")]
    Lost,
}

impl RunError {
    /// The tag of the tool's answer.
    pub const fn tag(&self) -> &'static str {
        match self {
            Self::ExecutableNotFound(_) => "executable_not_found",
            Self::Busy(_) => "busy",
            Self::Cancelled => "cancelled",
            Self::Invalid(_) => "invalid_command",
            Self::NotStarted { .. } => "start_failed",
            Self::NotConfined { .. } => "not_confined",
            Self::Unconfined { .. } => "confinement_required",
            Self::Lost => "lost",
        }
    }
}

/// Starts processes and ends them. Clones share the limits.
#[derive(Clone)]
pub struct Runner {
    shared: Arc<Shared>,
    /// Clones follow a change of it.
    policy: Arc<ArcSwap<ViewPolicy>>,
}

struct Shared {
    launcher: Option<PathBuf>,
    places: Arc<Semaphore>,
    by_conversation: Mutex<HashMap<ConversationKey, Arc<Semaphore>>>,
    /// The processes started from here that are not reaped yet.
    leaders: Mutex<HashSet<i32>>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    machine: Mutex<Option<(Instant, Arc<Machine>)>>,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}

impl Runner {
    pub(crate) fn new(launcher: Option<PathBuf>, policy: ViewPolicy) -> io::Result<Self> {
        if launcher.is_some() {
            // If a command manages to kill its launcher, its orphans come here and not to init.
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        }
        Ok(Self {
            shared: Arc::new(Shared {
                launcher,
                places: Arc::new(Semaphore::new(MAX_RUNS)),
                by_conversation: Mutex::default(),
                leaders: Mutex::default(),
                tasks: TaskTracker::new(),
                shutdown: CancellationToken::new(),
                machine: Mutex::new(None),
            }),
            policy: Arc::new(ArcSwap::from_pointee(policy)),
        })
    }

    /// The same runner, with its limits and live runs, under another policy.
    pub(crate) fn under(&self, policy: ViewPolicy) -> Self {
        Self {
            shared: self.shared.clone(),
            policy: Arc::new(ArcSwap::from_pointee(policy)),
        }
    }

    /// Takes over another runner's policy, for all clones.
    pub(crate) fn follow(&self, other: &Self) {
        self.policy.store(other.policy());
    }

    /// Runs one command to its end. A timeout and a cancellation during the run are outcomes, with
    /// the output until then.
    pub async fn run(
        &self,
        spec: CommandSpec,
        cancel: &CancellationToken,
    ) -> Result<CommandOutcome, RunError> {
        validate(&spec)?;
        let stop = self.shared.shutdown.child_token();
        // Dropping this future drops the guard, and the run stops.
        let _guard = stop.clone().drop_guard();
        let deadline = tokio::time::Instant::now() + spec.timeout;
        let places = tokio::select! {
            places = self.places(spec.conversation.as_ref()) => places,
            () = tokio::time::sleep_until(deadline) => return Err(RunError::Busy(spec.timeout)),
            () = cancel.cancelled() => return Err(RunError::Cancelled),
            () = stop.cancelled() => return Err(RunError::Cancelled),
        };
        if cancel.is_cancelled() || stop.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        let (answer, outcome) = tokio::sync::oneshot::channel();
        let run = supervise::Run {
            runner: self.clone(),
            spec,
            deadline,
            stop: stop.clone(),
        };
        self.shared.tasks.spawn(async move {
            let _places = places;
            run.supervise(answer).await;
        });
        tokio::pin!(outcome);
        let outcome = tokio::select! {
            outcome = &mut outcome => outcome,
            () = cancel.cancelled() => {
                stop.cancel();
                outcome.await
            }
        };
        outcome.unwrap_or(Err(RunError::Lost))
    }

    /// How many runs there are now.
    pub fn live(&self) -> usize {
        MAX_RUNS - self.shared.places.available_permits().min(MAX_RUNS)
    }

    /// Ends every run and starts no more. Whether all were gone before `deadline`.
    pub async fn shutdown(&self, deadline: Duration) -> bool {
        self.shared.shutdown.cancel();
        self.shared.tasks.close();
        tokio::time::timeout(deadline, self.shared.tasks.wait())
            .await
            .is_ok()
    }

    async fn places(&self, conversation: Option<&ConversationKey>) -> Places {
        let own = match conversation {
            Some(conversation) => {
                let semaphore = self.shared.places_of(conversation);
                semaphore.acquire_owned().await.ok()
            }
            None => None,
        };
        let any = self.shared.places.clone().acquire_owned().await.ok();
        Places {
            _own: own,
            _any: any,
        }
    }
}

/// A run's place in both limits.
struct Places {
    _own: Option<OwnedSemaphorePermit>,
    _any: Option<OwnedSemaphorePermit>,
}

impl Shared {
    fn places_of(&self, conversation: &ConversationKey) -> Arc<Semaphore> {
        let mut all = self
            .by_conversation
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A limit nobody holds or waits for is forgotten, so that the list stays short.
        all.retain(|_, places| Arc::strong_count(places) > 1);
        all.entry(conversation.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(MAX_RUNS_PER_CONVERSATION)))
            .clone()
    }

    fn leaders(&self) -> std::sync::MutexGuard<'_, HashSet<i32>> {
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn validate(spec: &CommandSpec) -> Result<(), RunError> {
    if !spec.program.is_absolute() {
        return Err(RunError::Invalid("the program must be an absolute path"));
    }
    if spec.timeout.is_zero() {
        return Err(RunError::Invalid("the timeout must be longer than nothing"));
    }
    if spec
        .stdin
        .as_ref()
        .is_some_and(|bytes| bytes.len() > MAX_STDIN)
    {
        return Err(RunError::Invalid(
            "the standard input is longer than 20 MiB",
        ));
    }
    let texts = spec
        .args
        .iter()
        .chain(spec.env.iter().flat_map(|(name, value)| [name, value]));
    if !texts
        .chain([&spec.program.as_os_str().to_owned()])
        .all(|text| is_passable(text))
    {
        return Err(RunError::Invalid(
            "arguments and variables cannot hold null bytes",
        ));
    }
    let is_name = |name: &OsString| !name.is_empty() && !name.to_string_lossy().contains('=');
    if !spec.env.iter().all(|(name, _)| is_name(name)) {
        return Err(RunError::Invalid(
            "a variable's name cannot be empty or hold `=`",
        ));
    }
    Ok(())
}
