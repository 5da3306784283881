//! One thing the model can do: its schema, its class, its handler.

mod builder;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fermix_types::{Category, InvalidToolName, Kind, PolicyClass, ToolName, ToolResult};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::call::CallContext;
use crate::caller::Caller;
use crate::gate::Gate;
use crate::guard::CommandPreview;
use crate::metadata::Metadata;
use crate::schema::{PreparedSchema, SchemaError};

pub use builder::Builder;

/// How long a call may take when its capability does not say.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(120);

/// A checked, coerced argument object.
pub type Arguments = Map<String, Value>;

type Handler = Arc<dyn Fn(Arguments, CallContext) -> BoxFuture<'static, ToolResult> + Send + Sync>;
type AdvertiseHook = Arc<dyn Fn(&Caller) -> bool + Send + Sync>;
type CommandHook = Arc<dyn Fn(&Arguments) -> CommandPreview + Send + Sync>;
type ParametersHook = Arc<dyn Fn(&Caller) -> Option<Value> + Send + Sync>;

/// Whose data a capability gives back. Independent of what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The result is the owner's own data; a guest never learns that the capability exists.
    OwnerOnly,
    /// Whoever may call it may read what it returns.
    Anyone,
}

/// Why a capability cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The name is already taken; nothing was changed.
    #[error("duplicate_name: a capability named `{0}` is already registered")]
    DuplicateName(ToolName),
    /// No provider would accept the name.
    #[error(transparent)]
    InvalidName(#[from] InvalidToolName),
    /// The parameters are not a usable JSON Schema.
    #[error("parameters of `{name}`: {cause}")]
    InvalidSchema {
        /// The capability.
        name: String,
        /// What is wrong with its parameters.
        cause: SchemaError,
    },
}

/// One entry of the registry.
#[derive(Clone)]
pub struct Capability {
    pub(crate) name: ToolName,
    pub(crate) description: Arc<str>,
    pub(crate) schema: Arc<PreparedSchema>,
    pub(crate) kind: Kind,
    pub(crate) class: PolicyClass,
    pub(crate) category: Category,
    pub(crate) audience: Audience,
    pub(crate) hidden: bool,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) gate: Gate,
    pub(crate) advertise_when: Option<AdvertiseHook>,
    pub(crate) dynamic_parameters: Option<ParametersHook>,
    pub(crate) command: Option<CommandHook>,
    pub(crate) terminal: bool,
    pub(crate) deadline: Duration,
    pub(crate) parallel: bool,
    search_entry: Arc<OnceLock<fermix_search::Entry>>,
    handler: Handler,
}

impl std::fmt::Debug for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capability")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("class", &self.class)
            .field("category", &self.category)
            .field("audience", &self.audience)
            .field("hidden", &self.hidden)
            .finish_non_exhaustive()
    }
}

impl Capability {
    /// Starts a capability that is compiled in (or a preset, or a plugin's HTTP tool). Class,
    /// category and audience have no defaults, so an unclassified tool does not compile.
    pub fn builtin(
        name: &str,
        class: PolicyClass,
        category: Category,
        audience: Audience,
    ) -> Builder {
        Builder::new(name, Kind::Builtin, class, category, audience)
    }

    /// Starts a capability discovered from an MCP server. It is the owner's alone until its
    /// configuration block says `guest = true` (spec/01 §5.2).
    pub fn mcp(name: &str, server: &str, class: PolicyClass) -> Builder {
        Builder::new(
            name,
            Kind::Mcp,
            class,
            Category::System,
            Audience::OwnerOnly,
        )
        .tag("server", server)
    }

    /// The name the model calls.
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// What the model reads about it.
    pub fn description(&self) -> &Arc<str> {
        &self.description
    }

    /// Its parameters in every prepared form.
    pub fn schema(&self) -> &Arc<PreparedSchema> {
        &self.schema
    }

    /// Who put it into the registry.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What calling it does.
    pub fn class(&self) -> PolicyClass {
        self.class
    }

    /// Where it belongs.
    pub fn category(&self) -> Category {
        self.category
    }

    /// Whether its result is the owner's own data.
    pub fn is_owner_only(&self) -> bool {
        self.audience == Audience::OwnerOnly
    }

    /// Whether it is configured but never offered nor dispatchable.
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// Its documentation and tags.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The extra condition on the run that calls it.
    pub fn gate(&self) -> Gate {
        self.gate
    }

    /// The command that a call with `arguments` would run, when the capability is one that runs
    /// commands it can show.
    pub fn command(&self, arguments: &Arguments) -> Option<CommandPreview> {
        self.command.as_ref().map(|preview| preview(arguments))
    }

    /// Whether the access gate looks at every call: it acts in somebody's name, where a mistake
    /// cannot be taken back.
    pub fn is_access_sensitive(&self) -> bool {
        self.metadata.is_access_sensitive()
    }

    /// Whether a lone successful call without text ends the turn.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// How long one call may take.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether calls of it may run beside other calls of one step.
    pub fn is_parallel_safe(&self) -> bool {
        self.parallel
    }

    /// Whether its schema is left out of requests while deferral is on.
    pub fn is_deferrable(&self) -> bool {
        self.kind == Kind::Mcp || self.category == Category::Plugin
    }

    /// Whether what it returns was written by somebody outside (spec/01 §12).
    pub fn returns_outside_content(&self) -> bool {
        self.kind == Kind::Mcp
            || matches!(self.class, PolicyClass::Network | PolicyClass::GuiControl)
            || self.metadata.is_plugin_owned()
    }

    /// Whether its description and schema were written by somebody outside.
    pub fn is_third_party(&self) -> bool {
        self.is_deferrable() || self.metadata.is_plugin_owned()
    }

    /// Who provides it when this program does not: the plugin's name, or `mcp:` and the server's.
    pub fn provider(&self) -> Option<String> {
        if let Some(plugin) = self.metadata.tag("plugin") {
            Some(plugin.to_owned())
        } else if self.kind == Kind::Mcp {
            Some(format!(
                "mcp:{}",
                self.metadata.tag("server").unwrap_or("unknown")
            ))
        } else {
            None
        }
    }

    /// What a search index knows about it. Read at registration for what discovery searches, at
    /// the first use for everything else.
    pub fn search_entry(&self) -> &fermix_search::Entry {
        self.search_entry.get_or_init(|| {
            let provider = self.provider();
            let provider = provider
                .as_deref()
                .map(|name| name.strip_prefix("mcp:").unwrap_or(name));
            fermix_search::Entry::new(&fermix_search::Document {
                name: self.name.as_str(),
                provider,
                description: &self.description,
                parameters: &self.schema.search_text(),
            })
        })
    }

    /// One routing sentence; the description where the tool has none.
    pub fn routing_sentence(&self) -> &str {
        self.metadata
            .when_to_use
            .as_deref()
            .unwrap_or(&self.description)
    }

    /// The same capability with other parameters, for one turn.
    pub(crate) fn with_schema(&self, schema: PreparedSchema) -> Self {
        Self {
            schema: Arc::new(schema),
            search_entry: Arc::default(),
            ..self.clone()
        }
    }

    /// Runs it. Gate and validation are the dispatcher's business.
    pub(crate) fn start(
        &self,
        arguments: Arguments,
        context: CallContext,
    ) -> BoxFuture<'static, ToolResult> {
        (self.handler)(arguments, context)
    }
}
