//! `tool_help`: how to use any capability the caller can call, built-in ones included.

use std::sync::Arc;

use fermix_capability::{Audience, CallContext, Capability, Catalog, RegistrationError};
use fermix_types::{Category, PolicyClass, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Show how to use a tool: parameters, examples, failures.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Exact tool name.
    #[schemars(length(min = 1))]
    name: String,
}

/// The capability over `catalog`.
pub fn capability(catalog: Arc<Catalog>) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "tool_help",
        PolicyClass::ReadOnly,
        Category::System,
        Audience::Anyone,
    )
    .when_to_use(
        "A call failed and the error does not say enough, or the owner asks what a tool does.",
    )
    .example(json!({"name": "shell"}), "Explains `shell`.")
    .failure("missing_parameters", "`name` is missing.")
    .failure(
        "unknown_capability",
        "No tool of this name that this run can call.",
    )
    .handler(move |args: Args, context| run(Arc::clone(&catalog), args, context))
}

async fn run(catalog: Arc<Catalog>, args: Args, context: CallContext) -> ToolResult {
    let turn = &context.turn;
    Ok(catalog
        .help(
            &turn.view,
            args.name.trim(),
            &turn.frame,
            &turn.outside_sources,
        )?
        .into())
}
