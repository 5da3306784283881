//! The configuration as plain typed data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use fermix_types::{Effort, SandboxMode, SecretStore, UnknownName};

use crate::commands::CommandsConfig;
use crate::confine::ConfineConfig;
use crate::home::Home;
use crate::providers::{ProviderBlocks, ProviderId};
use crate::routing::Routing;

/// Everything the file, the environment and the command line say.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[fermix_core] timezone`: IANA name for jobs and events; `None` = the host's.
    pub timezone: Option<String>,
    /// `[fermix_core] profile`: the namespace of this home's secrets.
    pub profile: String,
    /// `[fermix_core] secret_store`: where new secrets go; `None` = what the machine has.
    pub secret_store: Option<SecretStore>,
    /// `[fermix_core] redact_tool_results`.
    pub redact_tool_results: bool,
    /// `[fermix_core.agent]`.
    pub agent: Agent,
    /// `[fermix_core.compaction]`.
    pub compaction: Compaction,
    /// `[fermix_core.personalization]`.
    pub personalization: Personalization,
    /// `[fermix_core.providers.*]`.
    pub providers: ProviderBlocks,
    /// `[fermix_core.routing]`.
    pub routing: Routing,
    /// `[fermix_core.models.*]`: corrections to the model catalog, by model id.
    pub models: BTreeMap<String, ModelOverride>,
    /// `[fermix_core.tools.tool_search] enabled`.
    pub tool_search: bool,
    /// `[sandbox]`.
    pub sandbox: SandboxConfig,
    /// `[fermix_channels]`.
    pub channels: Channels,
    /// What the owner should know although the configuration works.
    pub warnings: Vec<String>,
}

/// The main agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// What it is called.
    pub name: String,
    /// Whether guests meet the owner's persona instead of a neutral one.
    pub guest_persona: bool,
    /// The older way to name the primary provider; read only when no block says `primary`.
    pub provider: Option<ProviderId>,
    /// Tokens a day over all conversations; `None` = no limit.
    pub daily_token_budget: Option<u64>,
    /// Whether a turn that has read outside content asks before it acts.
    pub ask_when_tainted: bool,
}

/// When and how the text a model is shown again is shortened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compaction {
    /// Whether the older part of a long conversation is summarised.
    pub enabled: bool,
    /// The share of the model's window that may be in use, 0.1 to 1.
    pub threshold: f64,
    /// How hard the model thinks when it shortens.
    pub reasoning_effort: Effort,
}

impl Default for Compaction {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold: 0.85,
            reasoning_effort: Effort::Medium,
        }
    }
}

/// What the agent knows of its owner from setup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Personalization {
    /// How to address the owner.
    pub user_name: Option<String>,
    /// The owner's IANA time zone.
    pub timezone: Option<String>,
    /// How to talk, in the owner's words.
    pub communication_style: Option<String>,
}

/// Corrections to one model of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelOverride {
    /// The window in tokens.
    pub context_window: Option<u64>,
    /// The longest answer in tokens.
    pub max_output: Option<u64>,
    /// The highest effort the model takes.
    pub effort_ceiling: Option<Effort>,
    /// Whether the model takes images.
    pub vision: Option<bool>,
}

/// How far the tools reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Which roots there are without a grant.
    pub mode: SandboxMode,
    /// The workspace, absolute.
    pub workspace_root: PathBuf,
    /// The grants, absolute.
    pub allowed_roots: Vec<PathBuf>,
    /// The grants for reading only, absolute.
    pub read_roots: Vec<PathBuf>,
    /// What wins over every root, absolute.
    pub blocked_roots: Vec<PathBuf>,
    /// `[sandbox.env]`.
    pub env: EnvConfig,
    /// Which commands the owner is asked about.
    pub approve: ApproveMode,
    /// `[sandbox.commands]`.
    pub commands: CommandsConfig,
    /// `[sandbox.confine]`.
    pub confine: ConfineConfig,
    /// `[sandbox.git] trusted_repos`: repositories whose own programs may run, absolute.
    pub trusted_repos: Vec<PathBuf>,
}

/// `[sandbox] approve`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApproveMode {
    /// None.
    #[default]
    Never,
    /// Every command that is not known to be harmless.
    Risky,
    /// Every command.
    Always,
}

impl ApproveMode {
    pub(crate) const NAMES: &'static [&'static str] = &["never", "risky", "always"];
}

impl FromStr for ApproveMode {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "never" => Ok(Self::Never),
            "risky" => Ok(Self::Risky),
            "always" => Ok(Self::Always),
            _ => Err(unknown("approval mode", text, Self::NAMES)),
        }
    }
}

/// Which variables a command sees besides the base ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvConfig {
    /// Selected names only, or all.
    pub mode: EnvMode,
    /// Names that are passed on.
    pub allow: Vec<String>,
    /// Names that never are.
    pub deny: Vec<String>,
    /// Where a name's value comes from, when not simply from the same name here.
    pub sources: BTreeMap<String, EnvSource>,
}

/// `[sandbox.env] mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnvMode {
    /// The allowed names.
    #[default]
    Selected,
    /// Everything less the denied names.
    All,
}

impl EnvMode {
    pub(crate) const NAMES: &'static [&'static str] = &["selected", "all"];
}

impl FromStr for EnvMode {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "selected" => Ok(Self::Selected),
            "all" => Ok(Self::All),
            _ => Err(unknown("environment mode", text, Self::NAMES)),
        }
    }
}

/// `[sandbox.env.NAME] source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvSourceKind {
    /// A variable of Fermix's own environment.
    Env,
    /// What a helper prints.
    Command,
}

impl EnvSourceKind {
    pub(crate) const NAMES: &'static [&'static str] = &["env", "command"];
}

impl FromStr for EnvSourceKind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "env" => Ok(Self::Env),
            "command" => Ok(Self::Command),
            _ => Err(unknown("source", text, Self::NAMES)),
        }
    }
}

fn unknown(what: &'static str, name: &str, accepted: &[&str]) -> UnknownName {
    UnknownName {
        what,
        name: name.to_owned(),
        accepted: accepted.join(", "),
    }
}

/// `[sandbox.env.NAME]` as written. [`EnvConfig::lookup`] says what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvSource {
    /// Absent means `command` when a command is given, else `env`.
    pub source: Option<EnvSourceKind>,
    /// The variable to read instead of the same name.
    pub name: Option<String>,
    /// The helper's program.
    pub command: Option<String>,
    /// The helper's arguments.
    pub args: Vec<String>,
    /// How long the helper may take, in milliseconds.
    pub timeout_ms: u64,
}

impl Default for EnvSource {
    fn default() -> Self {
        Self {
            source: None,
            name: None,
            command: None,
            args: Vec::new(),
            timeout_ms: 3000,
        }
    }
}

/// Where one variable's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvLookup<'a> {
    /// This variable of Fermix's own environment.
    Variable(&'a str),
    /// The output of a helper.
    Command {
        /// The program.
        command: &'a str,
        /// Its arguments.
        args: &'a [String],
        /// Milliseconds it may take.
        timeout_ms: u64,
    },
}

impl EnvConfig {
    /// Where the value of `variable` comes from.
    pub fn lookup<'a>(&'a self, variable: &'a str) -> EnvLookup<'a> {
        let Some(source) = self.sources.get(variable) else {
            return EnvLookup::Variable(variable);
        };
        match &source.command {
            Some(command) => EnvLookup::Command {
                command,
                args: &source.args,
                timeout_ms: source.timeout_ms,
            },
            None => EnvLookup::Variable(source.name.as_deref().unwrap_or(variable)),
        }
    }
}

/// Chat platforms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Whether messages that arrive during a turn become one next turn.
    pub coalesce: bool,
    /// `[fermix_channels.NAME]`.
    pub by_name: BTreeMap<String, ChannelConfig>,
}

/// Who may speak on one channel. Empty means nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelConfig {
    /// The platform's id of the owner. `None` means that nobody is the owner.
    pub owner_user_id: Option<String>,
    /// The platform's ids of guests.
    pub allowed_user_ids: Vec<String>,
}

impl Config {
    /// The configuration of an empty file.
    pub fn defaults(home: &Home) -> Self {
        Self {
            timezone: None,
            profile: "general".to_owned(),
            secret_store: None,
            redact_tool_results: true,
            agent: Agent {
                name: "fermix".to_owned(),
                guest_persona: false,
                provider: None,
                daily_token_budget: None,
                ask_when_tainted: false,
            },
            compaction: Compaction::default(),
            personalization: Personalization::default(),
            providers: ProviderBlocks::default(),
            routing: Routing::default(),
            models: BTreeMap::new(),
            tool_search: true,
            sandbox: SandboxConfig {
                mode: SandboxMode::Standard,
                workspace_root: home.workspace(),
                allowed_roots: Vec::new(),
                read_roots: Vec::new(),
                blocked_roots: Vec::new(),
                env: EnvConfig::default(),
                approve: ApproveMode::default(),
                commands: CommandsConfig::default(),
                confine: ConfineConfig::default(),
                trusted_repos: Vec::new(),
            },
            channels: Channels {
                coalesce: true,
                by_name: BTreeMap::new(),
            },
            warnings: Vec::new(),
        }
    }

    /// The provider the owner named as the first to ask: the block that says `primary`, else the
    /// older `[fermix_core.agent] provider`. `None` leaves the choice to what is configured.
    pub fn named_primary(&self) -> Option<ProviderId> {
        let marked = self
            .providers
            .iter()
            .find(|(_, block)| block.primary)
            .map(|(id, _)| id);
        marked.or(self.agent.provider)
    }

    /// The owner's time zone: what setup learned, else that of jobs. `None` = the host's.
    pub fn owner_timezone(&self) -> Option<&str> {
        self.personalization
            .timezone
            .as_deref()
            .or(self.timezone.as_deref())
    }
}
