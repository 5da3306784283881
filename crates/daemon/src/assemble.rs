//! From settings to running parts. Nothing here starts a task or opens a connection.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use fermix_capability::dispatch::Dispatcher;
use fermix_capability::{Catalog, Deferral, RegistrationError, Registry};
use fermix_config::{Config, EnvLookup, EnvMode, Environment, Home, Routing, SandboxConfig};
use fermix_net::Net;
use fermix_providers::offline::OfflineAdapter;
use fermix_providers::{ConfigProblem, Providers};
use fermix_sandbox::{
    EnvPolicy, EnvSource, Sandbox, SandboxError, SandboxSettings, Surroundings, UnsafeRoot,
};
use fermix_secrets::{AuthFile, Redactor, SecretString};
use fermix_store::StoreError;
use fermix_tools::ToolDeps;
use fermix_tools::config::model_routing_config::{PrimaryRoute, RoutingAccess};
use fermix_tools::document::DocumentReader;
use fermix_types::{Clock, TraceRow, TraceSink};

use crate::clock::SystemClock;
use crate::traces::{ContentCapture, TraceFiles};

/// How Fermix names itself to servers.
const IDENTITY: &str = concat!("fermix/", env!("CARGO_PKG_VERSION"));
/// This very program, even after its file was replaced by an upgrade.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What an engine is built from.
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

/// The providers, built when they are first asked for: listing tools needs none.
pub(crate) struct LazyProviders {
    config: Config,
    auth_file: PathBuf,
    clock: Arc<dyn Clock>,
    trace: Arc<dyn TraceSink>,
    built: OnceLock<Result<Arc<Providers>, ConfigProblem>>,
}

impl LazyProviders {
    pub(crate) fn get(&self) -> Result<Arc<Providers>, ConfigProblem> {
        self.built
            .get_or_init(|| {
                let providers = Providers::from_config(
                    &self.config,
                    Net::new(IDENTITY),
                    AuthFile::open(&self.auth_file),
                    Arc::clone(&self.clock),
                    Arc::clone(&self.trace),
                )?;
                Ok(Arc::new(providers.with_offline(Arc::new(OfflineAdapter))))
            })
            .clone()
    }

    fn primary(&self) -> PrimaryRoute {
        match self.get() {
            Ok(providers) => {
                let routes = providers.routes();
                let lead = routes.first();
                PrimaryRoute {
                    provider: lead
                        .map_or_else(|| "none".to_owned(), |route| route.provider.to_string()),
                    model: lead.map(|route| route.model.clone()).unwrap_or_default(),
                    reasoning_effort: lead.and_then(|route| route.effort),
                }
            }
            Err(problem) => PrimaryRoute {
                provider: format!("unusable: {problem}"),
                model: String::new(),
                reasoning_effort: None,
            },
        }
    }
}

/// Everything that is built before the first turn.
pub(crate) struct Assembled {
    pub(crate) sandbox: Sandbox,
    pub(crate) registry: Arc<Registry>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) providers: Arc<LazyProviders>,
    pub(crate) routing: Arc<Mutex<Routing>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) trace: Arc<dyn TraceSink>,
}

pub(crate) fn assemble(parts: &Parts) -> Result<Assembled, BuildError> {
    let problems = problems(parts)?;
    if !problems.is_empty() {
        return Err(BuildError::Settings(problems.join("\n")));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let trace = trace_files(parts, &clock);
    let sandbox = sandbox(parts, &trace)?;
    let providers = Arc::new(LazyProviders {
        config: parts.config.clone(),
        auth_file: parts.home.auth_file(),
        clock: Arc::clone(&clock),
        trace: Arc::clone(&trace),
        built: OnceLock::new(),
    });
    let routing = Arc::new(Mutex::new(parts.config.routing.clone()));
    let deferral = if parts.config.tool_search {
        Deferral::On
    } else {
        Deferral::Off
    };
    let registry = Arc::new(Registry::new(deferral));
    fermix_tools::register_all(
        &registry,
        ToolDeps {
            sandbox: sandbox.clone(),
            catalog: Arc::new(Catalog::new()),
            documents: DocumentReader {
                program: Some(OWN_PROGRAM.into()),
            },
            routing: routing_access(&parts.home, &providers, &routing, &trace),
            trace: Arc::clone(&trace),
        },
    )?;
    let dispatcher = Arc::new(Dispatcher::new(Arc::clone(&trace)));
    Ok(Assembled {
        sandbox,
        registry,
        dispatcher,
        providers,
        routing,
        clock,
        trace,
    })
}

fn trace_files(parts: &Parts, clock: &Arc<dyn Clock>) -> Arc<dyn TraceSink> {
    let keys: Vec<SecretString> = parts
        .config
        .providers
        .iter()
        .filter_map(|(_, block)| block.api_key.as_ref())
        .map(|key| key.expose().to_owned().into())
        .collect();
    let redactor = Redactor::with_values(&keys)
        .expect("a handful of keys, each within what a header holds, fits a redactor");
    let capture = if parts.environment.trace_content() {
        ContentCapture::On
    } else {
        ContentCapture::Off
    };
    Arc::new(TraceFiles::new(
        parts.home.traces().to_owned(),
        Arc::clone(clock),
        Arc::new(redactor),
        capture,
    ))
}

fn routing_access(
    home: &Home,
    providers: &Arc<LazyProviders>,
    routing: &Arc<Mutex<Routing>>,
    trace: &Arc<dyn TraceSink>,
) -> RoutingAccess {
    let catalog = fermix_providers::Catalog::new(providers.config.models.clone());
    let providers = Arc::clone(providers);
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
        .map(|path| ("allowed_roots", path));
    let workspace = Some(("workspace_root", &settings.workspace_root))
        .filter(|(_, path)| **path != parts.home.workspace());
    let named = granted.chain(workspace);
    Ok(named
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

fn sandbox(parts: &Parts, trace: &Arc<dyn TraceSink>) -> Result<Sandbox, BuildError> {
    for folder in [parts.home.workspace(), parts.home.skills()] {
        std::fs::create_dir_all(&folder).map_err(|source| BuildError::Workspace {
            path: folder,
            source,
        })?;
    }
    let mut settings = settings(parts);
    let sandbox = guarded(parts, settings.clone(), Arc::clone(trace))?;
    if parts.extra_roots.is_empty() {
        return Ok(sandbox);
    }
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
        settings.allowed_roots.push(folder);
    }
    Ok(sandbox.with_settings(settings)?)
}

/// The blocked root that `folder`, a canonical path, lies in.
pub(crate) fn blocking(parts: &Parts, folder: &Path) -> Option<PathBuf> {
    let blocked = parts.config.sandbox.blocked_roots.iter();
    blocked
        .filter_map(|root| root.canonicalize().ok())
        .find(|root| folder.starts_with(root))
}

/// A sandbox that keeps the traces closed wherever they are.
fn guarded(
    parts: &Parts,
    settings: SandboxSettings,
    trace: Arc<dyn TraceSink>,
) -> Result<Sandbox, BuildError> {
    let sandbox = Sandbox::new(settings, surroundings(parts)?, trace)?;
    Ok(sandbox.protecting(vec![parts.home.traces().to_owned()])?)
}

fn settings(parts: &Parts) -> SandboxSettings {
    let config = &parts.config.sandbox;
    SandboxSettings {
        mode: config.mode,
        workspace_root: config.workspace_root.clone(),
        allowed_roots: config.allowed_roots.clone(),
        blocked_roots: config.blocked_roots.clone(),
        env: env_policy(config),
        trusted_repos: config.trusted_repos.clone(),
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
