//! From settings to running parts. Nothing here starts a task or opens a connection.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fermix_approvals::PolicyDesk;
use fermix_approvals::commands::{ApprovalRules, ApprovedCommands, CallApprovals};
use fermix_capability::dispatch::Dispatcher;
use fermix_capability::{Catalog, Deferral, RegistrationError, Registry};
use fermix_config::{
    Config, ConfineConfig, ConfineMode, EnvLookup, EnvMode, Environment, Home, NetworkAccess,
    Routing, SandboxConfig, SshAccess,
};
use fermix_providers::ConfigProblem;
use fermix_sandbox::{
    ConfineSettings, EnvPolicy, EnvSource, Network, Sandbox, SandboxError, SandboxSettings,
    Surroundings, UnsafeRoot,
};
use fermix_secrets::{Redactor, StoredSecret, TooManySecrets};
use fermix_store::StoreError;
use fermix_tools::ToolDeps;
use fermix_tools::config::model_routing_config::RoutingAccess;
use fermix_tools::document::DocumentReader;
use fermix_types::{Clock, TraceRow, TraceSink};
use fermix_undo::UndoLog;

use crate::clock::SystemClock;
use crate::lazy_store::LazyStore;
use crate::logs;
use fermix_approvals::policy::CommandsChanged;

use crate::policy::{Following, desk_over};
use crate::routes::LazyProviders;
use crate::secrets::{self, KnownSecrets};
use crate::traces::{ContentCapture, TraceFiles};

/// This very program, even after its file was replaced by an upgrade.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What an engine is built from.
#[derive(Clone)]
pub struct Parts {
    /// Where everything is kept.
    pub home: Home,
    /// The environment of this process.
    pub environment: Environment,
    /// The configuration.
    pub config: Config,
    /// This program's own file.
    pub executable: PathBuf,
    /// The folder Fermix was started in.
    pub launch_dir: Option<PathBuf>,
    /// Folders the owner grants for this invocation alone; relative ones start at the launch
    /// folder. The rules of every grant apply to them.
    pub extra_roots: Vec<PathBuf>,
    /// Learns every secret that is read, for all that is written.
    pub redactor: Arc<Redactor>,
}

/// Why Fermix cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A built-in tool is wrong; a defect of ours.
    #[error("a built-in tool cannot be registered: {0}")]
    Registration(#[from] RegistrationError),
    /// The sandbox's settings are unusable.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The provider blocks are unusable.
    #[error(transparent)]
    Providers(#[from] ConfigProblem),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keys could not be kept out of what is written.
    #[error(transparent)]
    Secrets(#[from] TooManySecrets),
    /// The workspace folder cannot be made.
    #[error("cannot make the workspace `{}`: {source}", path.display())]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The settings do not go together.
    #[error("{0}")]
    Settings(String),
    /// A folder given for this invocation may not be granted.
    #[error("`{}` cannot be given to a question: {cause}", path.display())]
    UnsafeRoot {
        /// The folder.
        path: PathBuf,
        /// Why.
        cause: UnsafeRoot,
    },
    /// Without `HOME` there is no telling what a path such as `~/notes` means.
    #[error("HOME is not set, so the sandbox does not know which folders are yours; set it")]
    NoHome,
}

/// Everything that is built before the first turn.
pub(crate) struct Assembled {
    pub(crate) sandbox: Sandbox,
    pub(crate) policy: PolicyDesk,
    pub(crate) registry: Arc<Registry>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) approvals: Arc<CallApprovals>,
    pub(crate) providers: Arc<LazyProviders>,
    pub(crate) routing: Arc<Mutex<Routing>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) trace: Arc<dyn TraceSink>,
    pub(crate) store: LazyStore,
    pub(crate) undo: UndoLog,
    /// What the stores of secrets keep, read when it is needed.
    pub(crate) secrets: Vec<StoredSecret>,
}

pub(crate) fn assemble(parts: &Parts) -> Result<Assembled, BuildError> {
    let problems = problems(parts)?;
    if !problems.is_empty() {
        return Err(BuildError::Settings(problems.join("\n")));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    secrets::announce(&parts.config, &parts.redactor)?;
    let vault = secrets::vault(&parts.home, &parts.config, Arc::clone(&parts.redactor));
    let stored = secrets::stored(&parts.config, &vault);
    let trace = trace_files(parts, &clock);
    let (sandbox, extra_roots) = sandbox(parts, &trace)?;
    let providers = Arc::new(LazyProviders::new(
        parts.config.clone(),
        parts.home.auth_file(),
        vault,
        Arc::clone(&clock),
        Arc::clone(&trace),
    ));
    let routing = Arc::new(Mutex::new(parts.config.routing.clone()));
    let deferral = if parts.config.tool_search {
        Deferral::On
    } else {
        Deferral::Off
    };
    let registry = Arc::new(Registry::new(deferral));
    let store = LazyStore::new(parts.home.database());
    let undo = {
        let store = store.clone();
        UndoLog::new(
            parts.home.undo(),
            Arc::new(move || store.open(false)),
            Arc::clone(&clock),
        )
    };
    let policy = desk_over(
        &parts.home,
        parts.config.sandbox.clone(),
        Following {
            sandbox: sandbox.clone(),
            extra_roots,
            commands_changed: commands_follow(&registry, &sandbox),
            clock: Arc::clone(&clock),
            trace: Arc::clone(&trace),
        },
    );
    fermix_tools::register_all(
        &registry,
        ToolDeps {
            sandbox: sandbox.clone(),
            catalog: Arc::new(Catalog::new()),
            documents: DocumentReader {
                program: Some(OWN_PROGRAM.into()),
            },
            routing: routing_access(&parts.home, &providers, &routing, &trace),
            undo: undo.clone(),
            policy: policy.clone(),
            trace: Arc::clone(&trace),
        },
    )?;
    let commands =
        fermix_tools::register_commands(&registry, &sandbox, &parts.config.sandbox.commands)?;
    for warning in &commands.warnings {
        tracing::warn!("{warning}");
    }
    let approvals = Arc::new(CallApprovals::new(
        sandbox.clone(),
        ApprovalRules::of(&parts.config),
        ApprovedCommands::in_home(parts.home.root()),
        Arc::clone(policy.prompts()),
        Arc::clone(&clock),
    ));
    let guard = Arc::clone(&approvals);
    let mut dispatcher = Dispatcher::new(Arc::clone(&trace)).with_guard(guard);
    if parts.config.redact_tool_results {
        let known = KnownSecrets(Arc::clone(&parts.redactor));
        dispatcher = dispatcher.screening_results(Arc::new(known));
    }
    Ok(Assembled {
        sandbox,
        policy,
        registry,
        dispatcher: Arc::new(dispatcher),
        approvals,
        providers,
        routing,
        clock,
        trace,
        store,
        undo,
        secrets: stored,
    })
}

pub(crate) fn trace_files(parts: &Parts, clock: &Arc<dyn Clock>) -> Arc<dyn TraceSink> {
    let capture = if parts.environment.trace_content() {
        ContentCapture::On
    } else {
        ContentCapture::Off
    };
    Arc::new(TraceFiles::new(
        parts.home.traces().to_owned(),
        Arc::clone(clock),
        Arc::clone(&parts.redactor),
        capture,
    ))
}

/// Makes the configured commands tools anew, in one swap. A tool of the registry asks the desk that
/// calls this, so it must not keep the registry alive.
fn commands_follow(registry: &Arc<Registry>, sandbox: &Sandbox) -> CommandsChanged {
    let (registry, sandbox) = (Arc::downgrade(registry), sandbox.clone());
    Arc::new(move |config| {
        let Some(registry) = registry.upgrade() else {
            return;
        };
        match fermix_tools::register_commands(&registry, &sandbox, &config.commands) {
            Ok(registered) => {
                for warning in &registered.warnings {
                    tracing::warn!("{warning}");
                }
            }
            Err(error) => tracing::error!(%error, "the configured commands stay as they were"),
        }
    })
}

fn routing_access(
    home: &Home,
    providers: &Arc<LazyProviders>,
    routing: &Arc<Mutex<Routing>>,
    trace: &Arc<dyn TraceSink>,
) -> RoutingAccess {
    let (providers, catalog) = (Arc::clone(providers), Arc::clone(providers));
    let routing = Arc::clone(routing);
    RoutingAccess {
        home: home.clone(),
        primary: Arc::new(move || providers.primary()),
        owner_of: Arc::new(move |model| catalog.owner_of(model)),
        apply: Arc::new(move |changed| {
            *routing.lock().unwrap_or_else(PoisonError::into_inner) = changed.clone();
        }),
        trace: Arc::clone(trace),
    }
}

/// What is wrong with settings that are valid one by one: folders that tools must not be given, a
/// model that another provider owns. Each names its key.
pub fn problems(parts: &Parts) -> Result<Vec<String>, BuildError> {
    let catalog = fermix_providers::Catalog::new(parts.config.models.clone());
    let routing = fermix_config::validate_routing(
        &parts.config.routing,
        parts.config.named_primary(),
        &|model| catalog.owner_of(model),
    );
    let mut problems = unsafe_folders(parts)?;
    problems.extend(
        routing
            .err()
            .map(|error| format!("[fermix_core.routing] {error}")),
    );
    Ok(problems)
}

/// Folders in `[sandbox]` that tools must not be given. One that does not exist opens nothing and
/// is no problem.
fn unsafe_folders(parts: &Parts) -> Result<Vec<String>, BuildError> {
    let settings = settings(parts);
    let sandbox = Sandbox::new(settings.clone(), surroundings(parts)?, Arc::new(Unrecorded))?;
    let granted = settings
        .allowed_roots
        .iter()
        .map(|path| ("allowed_roots", path))
        .chain(settings.read_roots.iter().map(|path| ("read_roots", path)));
    let workspace = Some(("workspace_root", &settings.workspace_root))
        .filter(|(_, path)| **path != parts.home.workspace());
    let confine = &settings.confine;
    let read = confine.extra_read.iter();
    let written = confine.extra_write.iter();
    let named = granted
        .chain(workspace)
        .chain(read.map(|path| ("confine.extra_read", path)))
        .chain(written.map(|path| ("confine.extra_write", path)))
        .chain(
            settings
                .trusted_repos
                .iter()
                .map(|path| ("git.trusted_repos", path)),
        );
    let linked = sandbox.linked_grants();
    Ok(named
        // A grant that leads through a link opens nothing, whatever it leads to.
        .filter(|(_, path)| !linked.iter().any(|(named, _)| named == *path))
        .filter_map(|(key, path)| match sandbox.grantable_root(path) {
            Ok(_) | Err(UnsafeRoot::NotADirectory) => None,
            Err(cause) => Some(format!(
                "[sandbox] {key} `{}` cannot be opened to tools: {cause}; name a folder below it",
                path.display()
            )),
        })
        .collect())
}

/// Takes no rows: looking at settings is not a decision.
struct Unrecorded;

impl TraceSink for Unrecorded {
    fn record(&self, _row: TraceRow) {}
}

/// The sandbox of the configuration alone.
pub(crate) fn plain_sandbox(
    parts: &Parts,
    trace: &Arc<dyn TraceSink>,
) -> Result<Sandbox, BuildError> {
    guarded(parts, settings(parts), Arc::clone(trace))
}

/// The sandbox with the folders of this invocation, and those folders.
fn sandbox(
    parts: &Parts,
    trace: &Arc<dyn TraceSink>,
) -> Result<(Sandbox, Vec<PathBuf>), BuildError> {
    for folder in [parts.home.workspace(), parts.home.skills()] {
        std::fs::create_dir_all(&folder).map_err(|source| BuildError::Workspace {
            path: folder,
            source,
        })?;
    }
    let mut settings = settings(parts);
    let sandbox = guarded(parts, settings.clone(), Arc::clone(trace))?;
    if parts.extra_roots.is_empty() {
        return Ok((sandbox, Vec::new()));
    }
    let mut extra_roots = Vec::new();
    for path in &parts.extra_roots {
        let path = parts
            .launch_dir
            .as_deref()
            .unwrap_or(Path::new("/"))
            .join(path);
        let folder = sandbox
            .grantable_root(&path)
            .map_err(|cause| BuildError::UnsafeRoot {
                path: path.clone(),
                cause,
            })?;
        if let Some(blocked) = blocking(parts, &folder) {
            return Err(BuildError::Settings(format!(
                "`{}` cannot be given to a question: [sandbox] blocked_roots closes `{}`; remove it there first",
                path.display(),
                blocked.display()
            )));
        }
        extra_roots.push(folder);
    }
    settings.allowed_roots.extend(extra_roots.iter().cloned());
    Ok((sandbox.with_settings(settings)?, extra_roots))
}

/// The blocked root that `folder`, a canonical path, lies in.
pub(crate) fn blocking(parts: &Parts, folder: &Path) -> Option<PathBuf> {
    let blocked = parts.config.sandbox.blocked_roots.iter();
    blocked
        .filter_map(|root| root.canonicalize().ok())
        .find(|root| folder.starts_with(root))
}

/// A sandbox that keeps the traces and the log closed wherever they are.
fn guarded(
    parts: &Parts,
    settings: SandboxSettings,
    trace: Arc<dyn TraceSink>,
) -> Result<Sandbox, BuildError> {
    let sandbox = Sandbox::new(settings, surroundings(parts)?, trace)?;
    let mut private = logs::parts(parts.home.log_file());
    private.push(parts.home.traces().to_owned());
    Ok(sandbox.protecting(private)?)
}

pub(crate) fn settings(parts: &Parts) -> SandboxSettings {
    settings_of(&parts.config.sandbox)
}

/// The section as settings of the sandbox.
pub(crate) fn settings_of(config: &SandboxConfig) -> SandboxSettings {
    SandboxSettings {
        mode: config.mode,
        workspace_root: config.workspace_root.clone(),
        allowed_roots: config.allowed_roots.clone(),
        read_roots: config.read_roots.clone(),
        blocked_roots: config.blocked_roots.clone(),
        env: env_policy(config),
        confine: confine_settings(&config.confine),
        trusted_repos: config.trusted_repos.clone(),
    }
}

fn confine_settings(config: &ConfineConfig) -> ConfineSettings {
    ConfineSettings {
        mode: match config.mode {
            ConfineMode::Auto => fermix_sandbox::ConfineMode::Auto,
            ConfineMode::Require => fermix_sandbox::ConfineMode::Require,
            ConfineMode::Off => fermix_sandbox::ConfineMode::Off,
        },
        network: match config.network {
            NetworkAccess::Allow => Network::Allowed,
            NetworkAccess::Deny => Network::Denied,
        },
        extra_read: config.extra_read.clone(),
        extra_write: config.extra_write.clone(),
        ssh: match config.ssh {
            SshAccess::Off => fermix_sandbox::SshAccess::Off,
            SshAccess::Agent => fermix_sandbox::SshAccess::Agent,
        },
        // The table of keys holds the number below this.
        max_pids: u32::try_from(config.max_pids).unwrap_or(ConfineSettings::MAX_PIDS),
        max_memory_mb: config.max_memory_mb,
        allow_nested: config.allow_nested,
    }
}

fn surroundings(parts: &Parts) -> Result<Surroundings, BuildError> {
    Ok(Surroundings {
        home: parts.home.os_home().ok_or(BuildError::NoHome)?.to_owned(),
        fermix_home: parts.home.root().to_owned(),
        launch_dir: parts.launch_dir.clone(),
        executable: parts.executable.clone(),
        launcher: Some(OWN_PROGRAM.into()),
        environment: parts.environment.pairs().clone(),
    })
}

fn env_policy(config: &SandboxConfig) -> EnvPolicy {
    let env = &config.env;
    let source = |name: &str| match env.lookup(name) {
        EnvLookup::Variable(variable) => EnvSource::Env {
            name: variable.to_owned(),
        },
        EnvLookup::Command {
            command,
            args,
            timeout_ms,
        } => EnvSource::Command {
            command: command.to_owned(),
            args: args.to_vec(),
            timeout: Duration::from_millis(timeout_ms),
        },
    };
    EnvPolicy {
        mode: match env.mode {
            EnvMode::Selected => fermix_sandbox::EnvMode::Selected,
            EnvMode::All => fermix_sandbox::EnvMode::All,
        },
        allow: env.allow.iter().cloned().collect(),
        deny: env.deny.iter().cloned().collect(),
        sources: env
            .sources
            .keys()
            .map(|name| (name.clone(), source(name)))
            .collect(),
    }
}
