//! How a capability is put together, and everything that is computed once on the way.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fermix_types::{Category, Kind, PolicyClass, ToolError, ToolName, ToolResult};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    AdvertiseHook, Arguments, Audience, Capability, CommandHook, DEFAULT_DEADLINE, Handler,
    ParametersHook, RegistrationError,
};
use crate::call::CallContext;
use crate::caller::Caller;
use crate::gate::Gate;
use crate::guard::CommandPreview;
use crate::metadata::{Example, FailureMode, Metadata};
use crate::schema::{PreparedSchema, lean};

/// A capability on its way to the registry.
pub struct Builder {
    name: String,
    description: Option<String>,
    kind: Kind,
    class: PolicyClass,
    category: Category,
    audience: Audience,
    hidden: bool,
    metadata: Metadata,
    gate: Gate,
    advertise_when: Option<AdvertiseHook>,
    dynamic_parameters: Option<ParametersHook>,
    command: Option<CommandHook>,
    terminal: bool,
    deadline: Duration,
    parallel: Option<bool>,
}

impl Builder {
    pub(super) fn new(
        name: &str,
        kind: Kind,
        class: PolicyClass,
        category: Category,
        audience: Audience,
    ) -> Self {
        Self {
            name: name.to_owned(),
            description: None,
            kind,
            class,
            category,
            audience,
            hidden: false,
            metadata: Metadata::default(),
            gate: Gate::Open,
            advertise_when: None,
            dynamic_parameters: None,
            command: None,
            terminal: false,
            deadline: DEFAULT_DEADLINE,
            parallel: None,
        }
    }

    /// What the model reads. Typed handlers take it from the argument struct's doc comment.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Opens an MCP capability to guests (`guest = true` in its block).
    #[must_use]
    pub fn audience(mut self, audience: Audience) -> Self {
        self.audience = audience;
        self
    }

    /// Keeps it configured but out of every view.
    #[must_use]
    pub fn hidden(mut self, hidden: bool) -> Self {
        self.hidden = hidden;
        self
    }

    /// One routing sentence.
    #[must_use]
    pub fn when_to_use(mut self, text: impl Into<String>) -> Self {
        self.metadata.when_to_use = Some(text.into());
        self
    }

    /// A worked example.
    #[must_use]
    pub fn example(mut self, args: Value, note: impl Into<String>) -> Self {
        self.metadata.examples.push(Example {
            args,
            note: note.into(),
        });
        self
    }

    /// A documented failure.
    #[must_use]
    pub fn failure(mut self, tag: impl Into<String>, description: impl Into<String>) -> Self {
        self.metadata.failure_modes.push(FailureMode {
            tag: tag.into(),
            description: description.into(),
        });
        self
    }

    /// Names the credential it needs and its configuration path.
    #[must_use]
    pub fn requires_setup(mut self, text: impl Into<String>) -> Self {
        self.metadata.requires_setup = Some(text.into());
        self
    }

    /// Adds a family tag.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.tags.insert(key.into(), value.into());
        self
    }

    /// The extra condition on the run that calls it, checked when listing and at dispatch.
    #[must_use]
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// A condition for being offered. It is never authorisation: a call by name still runs.
    #[must_use]
    pub fn advertise_when(
        mut self,
        hook: impl Fn(&Caller) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.advertise_when = Some(Arc::new(hook));
        self
    }

    /// Parameters that depend on the caller; replaces the schema for the turn, shown and checked.
    #[must_use]
    pub fn dynamic_parameters(
        mut self,
        hook: impl Fn(&Caller) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        self.dynamic_parameters = Some(Arc::new(hook));
        self
    }

    /// The command that a call would run, so that the owner can be shown it. A capability that runs
    /// programs and cannot show them is asked about by its arguments.
    #[must_use]
    pub fn runs_command(
        mut self,
        hook: impl Fn(&Arguments) -> CommandPreview + Send + Sync + 'static,
    ) -> Self {
        self.command = Some(Arc::new(hook));
        self
    }

    /// A lone successful call without text ends the turn.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.terminal = true;
        self
    }

    /// How long one call may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Overrides whether calls may run beside others; the default follows the class.
    #[must_use]
    pub fn parallel(mut self, parallel: bool) -> Self {
        self.parallel = Some(parallel);
        self
    }

    /// Finishes with a typed handler: `A` gives the schema, and its doc comment the description.
    /// `null` for an optional parameter arrives as if it were absent, so `A` cannot give `null` a
    /// meaning of its own.
    pub fn handler<A, F, R>(self, run: F) -> Result<Capability, RegistrationError>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = ToolResult> + Send + 'static,
    {
        let mut schema = schemars::SchemaGenerator::default()
            .into_root_schema_for::<A>()
            .to_value();
        lean(&mut schema);
        let documented = schema
            .as_object_mut()
            .and_then(|root| root.shift_remove("description"));
        let description = self
            .description
            .clone()
            .or_else(|| documented?.as_str().map(str::to_owned));
        self.finish(
            description.unwrap_or_default(),
            schema,
            Arc::new(move |arguments, context| {
                match serde_json::from_value::<A>(Value::Object(arguments)) {
                    Ok(arguments) => Box::pin(run(arguments, context)),
                    // Validation against the schema came first, so this names a rule that only
                    // the type knows.
                    Err(error) => Box::pin(std::future::ready(Err(ToolError::new(
                        "invalid_arguments",
                        format!("invalid arguments: {error}"),
                    )))),
                }
            }),
        )
    }

    /// Finishes with a schema and a handler that takes the argument object as it is.
    pub fn raw_handler<F, R>(self, schema: Value, run: F) -> Result<Capability, RegistrationError>
    where
        F: Fn(Arguments, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = ToolResult> + Send + 'static,
    {
        let description = self.description.clone().unwrap_or_default();
        self.finish(
            description,
            schema,
            Arc::new(move |arguments, context| Box::pin(run(arguments, context))),
        )
    }

    fn finish(
        self,
        description: String,
        schema: Value,
        handler: Handler,
    ) -> Result<Capability, RegistrationError> {
        let name = ToolName::new(&self.name)?;
        let is_third_party = self.kind == Kind::Mcp
            || self.category == Category::Plugin
            || self.metadata.is_plugin_owned();
        let prepared = if is_third_party {
            PreparedSchema::third_party(schema)
        } else {
            PreparedSchema::new(schema)
        };
        let schema = prepared.map_err(|cause| RegistrationError::InvalidSchema {
            name: self.name.clone(),
            cause,
        })?;
        let parallel = self.parallel.unwrap_or(
            self.kind != Kind::Mcp
                && matches!(self.class, PolicyClass::ReadOnly | PolicyClass::Network)
                && self.category != Category::Channel,
        );
        let capability = Capability {
            name,
            description: description.into(),
            schema: Arc::new(schema),
            kind: self.kind,
            class: self.class,
            category: self.category,
            audience: self.audience,
            hidden: self.hidden,
            metadata: Arc::new(self.metadata),
            gate: self.gate,
            advertise_when: self.advertise_when,
            dynamic_parameters: self.dynamic_parameters,
            command: self.command,
            terminal: self.terminal,
            deadline: self.deadline,
            parallel,
            search_entry: Arc::default(),
            handler,
        };
        if capability.is_deferrable() {
            capability.search_entry();
        }
        Ok(capability)
    }
}
