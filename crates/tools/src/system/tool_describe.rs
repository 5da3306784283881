//! `tool_describe`: everything about one capability the caller can call.

use std::sync::Arc;

use fermix_capability::{Audience, CallContext, Capability, Catalog, RegistrationError};
use fermix_types::{Category, PolicyClass, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Show a tool's description, full JSON Schema, examples and failures.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Exact tool name, from the tool lists or `tool_search`.
    #[schemars(length(min = 1))]
    name: String,
}

/// The capability over `catalog`.
pub fn capability(catalog: Arc<Catalog>) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "tool_describe",
        PolicyClass::ReadOnly,
        Category::System,
        Audience::Anyone,
    )
    .when_to_use("You know a deferred tool's name and need its parameters before calling it.")
    .example(
        json!({"name": "github_create_issue"}),
        "Shows what to pass to `github_create_issue`.",
    )
    .failure("missing_parameters", "`name` is missing.")
    .failure(
        "unknown_capability",
        "No tool of this name that this run can call; search for it with `tool_search`.",
    )
    .handler(move |args: Args, context| run(Arc::clone(&catalog), args, context))
}

async fn run(catalog: Arc<Catalog>, args: Args, context: CallContext) -> ToolResult {
    let turn = &context.turn;
    Ok(catalog
        .describe(
            &turn.view,
            args.name.trim(),
            &turn.frame,
            &turn.outside_sources,
        )?
        .into())
}
