//! `model_routing_config`: which model workers run on.
//!
//! The main agent's own model is shown and cannot be changed here: text the model has read must
//! not be able to choose who thinks for the owner.

use std::sync::Arc;

use fermix_capability::{Audience, CallContext, Capability, RegistrationError};
use fermix_config::{
    Config, ConfigError, ConfigFile, EditError, Home, ProviderId, Routing, SettingValue, Shown,
    validate_routing,
};
use fermix_types::{
    Category, Effort, PolicyClass, ToolError, ToolOutput, ToolResult, TraceIds, TraceKind,
    TraceRow, TraceSink,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::blocking::blocking;

const SECTION: &str = "fermix_core.routing";
/// The keys a model may change.
const SETTABLE: [&str; 3] = [
    "subagent_provider",
    "subagent_model",
    "subagent_reasoning_effort",
];

/// What the main agent runs on at the moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrimaryRoute {
    /// The provider's name, `offline` when none is configured.
    pub provider: String,
    /// The model.
    pub model: String,
    /// How hard it thinks, where that is configured.
    pub reasoning_effort: Option<Effort>,
}

/// Names the provider a model id belongs to.
pub type OwnerOf = Arc<dyn Fn(&str) -> Option<&'static str> + Send + Sync>;

/// What the tool needs from the rest of the program. Cheap to clone.
#[derive(Clone)]
pub struct RoutingAccess {
    /// Whose `config.toml`.
    pub home: Home,
    /// What the main agent runs on at the moment.
    pub primary: Arc<dyn Fn() -> PrimaryRoute + Send + Sync>,
    /// Whose model an id is, by the provider's name, where the model catalog knows it.
    pub owner_of: OwnerOf,
    /// Makes saved routing hold for the runs that start from now on.
    pub apply: Arc<dyn Fn(&Routing) + Send + Sync>,
    /// Takes one row for each change.
    pub trace: Arc<dyn TraceSink>,
}

/// Show or change which model workers run on.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// `read`, `set` or `delete`.
    action: String,
    /// For set and delete: `subagent_provider`, `subagent_model` or `subagent_reasoning_effort`.
    key: Option<String>,
    /// For set: the new value.
    value: Option<String>,
}

/// The capability over `access`.
pub fn capability(access: RoutingAccess) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "model_routing_config",
        PolicyClass::ReadWrite,
        Category::Config,
        Audience::Anyone,
    )
    .when_to_use(
        "The owner asks which model runs, or wants workers on another provider, model or effort.",
    )
    .example(
        json!({"action": "read"}),
        "Shows every routing key and the main agent's own route.",
    )
    .example(
        json!({"action": "set", "key": "subagent_reasoning_effort", "value": "low"}),
        "Makes workers think less.",
    )
    .failure(
        "missing_parameters",
        "`set` needs `key` and `value`, `delete` needs `key`.",
    )
    .failure("invalid_action", "Use read, set or delete.")
    .failure(
        "invalid_key",
        "Only the three subagent keys can be changed; the owner sets the others with `fermix config set`.",
    )
    .failure(
        "invalid_value",
        "Blank, not one of the accepted values, or with a control character.",
    )
    .failure(
        "invalid_pairing",
        "The routing as a whole would not work; the message names whose model it is.",
    )
    .failure(
        "attended_only",
        "Changes are only made on an attended owner turn.",
    )
    .failure(
        "config_failed",
        "config.toml could not be read or written; the message names the line or the fix.",
    )
    .failure("stopped", "fermix is shutting down.")
    .handler(move |args: Args, context| run(access.clone(), args, context))
}

async fn run(access: RoutingAccess, args: Args, context: CallContext) -> ToolResult {
    match args.action.as_str() {
        "read" => blocking(move || read(&access)).await,
        "set" => {
            let key = settable(args.key)?;
            let value = new_value(args.value)?;
            change(access, context, key, Some(value)).await
        }
        "delete" => {
            let key = settable(args.key)?;
            change(access, context, key, None).await
        }
        other => Err(ToolError::new(
            "invalid_action",
            format!("invalid_action: {other}; use read, set or delete"),
        )),
    }
}

fn settable(key: Option<String>) -> Result<&'static str, ToolError> {
    let key = key.ok_or_else(|| missing("key"))?;
    SETTABLE
        .into_iter()
        .find(|settable| *settable == key)
        .ok_or_else(|| {
            ToolError::new(
                "invalid_key",
                format!("invalid_key: {key}; use {}", SETTABLE.join(", ")),
            )
        })
}

fn new_value(value: Option<String>) -> Result<String, ToolError> {
    let value = value.ok_or_else(|| missing("value"))?;
    let value = value.trim();
    if value.is_empty() {
        return Err(ToolError::new(
            "invalid_value",
            "Invalid value: it is blank; use action `delete` to go back to the primary's",
        ));
    }
    // Trimmed away at the ends, refused inside: a line break could add a line to the file.
    if value.chars().any(char::is_control) {
        return Err(ToolError::new(
            "invalid_value",
            "Invalid value: it has a line break or another control character; give the name alone",
        ));
    }
    Ok(value.to_owned())
}

fn missing(parameter: &str) -> ToolError {
    ToolError::new(
        "missing_parameters",
        format!("Missing required parameter: {parameter}"),
    )
}

fn read(access: &RoutingAccess) -> ToolResult {
    let file = ConfigFile::open(&access.home).map_err(unusable)?;
    let Routing { subagent, cron } = file.config().map_err(unusable)?.routing;
    Ok(ToolOutput::json(&json!({
        "subagent_provider": subagent.provider,
        "subagent_model": subagent.model,
        "subagent_reasoning_effort": subagent.reasoning_effort,
        "cron_provider": cron.provider,
        "cron_model": cron.model,
        "cron_reasoning_effort": cron.reasoning_effort,
        "primary": (access.primary)(),
    })))
}

async fn change(
    access: RoutingAccess,
    context: CallContext,
    key: &'static str,
    value: Option<String>,
) -> ToolResult {
    if !context.is_attended() {
        return Err(ToolError::new(
            "attended_only",
            "model_routing_config only changes routing on an attended owner turn; this run may read it",
        ));
    }
    let ids = context.turn.ids.clone();
    blocking(move || save(&access, &ids, key, value)).await
}

fn save(
    access: &RoutingAccess,
    ids: &TraceIds,
    key: &'static str,
    value: Option<String>,
) -> ToolResult {
    let path = format!("{SECTION}.{key}");
    let mut file = ConfigFile::open_locked(&access.home).map_err(refused)?;
    let old = match file.get(&path).map_err(refused)? {
        Shown::Value(SettingValue::Text(old)) => Some(old),
        Shown::Value(_) | Shown::Hidden | Shown::Default(_) => None,
    };
    match &value {
        Some(value) => {
            // As a TOML string, so that the value stands for itself whatever it begins with.
            let text = SettingValue::Text(value.clone()).to_string();
            file.set(&path, &text).map_err(refused)?;
        }
        None => {
            file.unset(&path).map_err(refused)?;
        }
    }
    let config = file.config().map_err(unusable)?;
    check(access, &config)?;
    if file.save().map_err(refused)? {
        access.trace.record(TraceRow::new(
            TraceKind::AgentEvent,
            ids,
            json!({
                "event": "config_change",
                "tool": "model_routing_config",
                "key": path,
                "old": old,
                "new": value,
            }),
        ));
    }
    // Even with nothing to write: the file may have been changed by hand since it was applied.
    (access.apply)(&config.routing);
    let output = match &value {
        Some(value) => ToolOutput::json(&json!({"updated": key, "value": value})),
        None => ToolOutput::json(&json!({"deleted": key})),
    };
    Ok(if value.is_none() && old.is_none() {
        output.note(format!("{key} was not set"))
    } else {
        output
    })
}

/// The routing as a whole, as it stands after the change.
fn check(access: &RoutingAccess, config: &Config) -> Result<(), ToolError> {
    let primary: Option<ProviderId> = (access.primary)().provider.parse().ok();
    validate_routing(&config.routing, primary, &*access.owner_of)
        .map_err(|error| ToolError::new("invalid_pairing", format!("{error}. Nothing was changed")))
}

fn unusable(error: ConfigError) -> ToolError {
    ToolError::new("config_failed", error.to_string())
}

fn refused(error: EditError) -> ToolError {
    let tag = match error {
        EditError::BadValue { .. } | EditError::Secret { .. } => "invalid_value",
        EditError::NotAKey { .. } | EditError::Unknown { .. } => "invalid_key",
        EditError::Unsupported { .. }
        | EditError::Invalid(_)
        | EditError::Changed { .. }
        | EditError::Busy { .. }
        | EditError::Io { .. } => "config_failed",
    };
    ToolError::new(tag, error.to_string())
}
