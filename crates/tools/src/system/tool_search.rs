//! `tool_search`: finds a deferred tool by what it does.

use std::sync::Arc;

use fermix_capability::{Audience, CallContext, Capability, Catalog, RegistrationError};
use fermix_types::{Category, PolicyClass, ToolError, ToolOutput, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// How many matches are returned when the caller does not say, and at most.
const DEFAULT_LIMIT: i64 = 5;
const MAX_LIMIT: i64 = 20;

/// Find a plugin or MCP tool by what it does.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// What the tool should do, in a few words, or its name.
    #[schemars(length(min = 1))]
    query: String,
    /// 1 to 20, default 5.
    limit: Option<i64>,
}

/// The capability over `catalog`.
pub fn capability(catalog: Arc<Catalog>) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "tool_search",
        PolicyClass::ReadOnly,
        Category::System,
        Audience::Anyone,
    )
    .when_to_use("No advertised tool fits and a plugin or MCP server may have one.")
    .example(
        json!({"query": "create a calendar event"}),
        "Lists the five closest plugin and MCP tools, with what they require.",
    )
    .failure("missing_parameters", "`query` is missing.")
    .failure(
        "invalid_query",
        "`query` is blank; say what the tool should do.",
    )
    .handler(move |args: Args, context| run(Arc::clone(&catalog), args, context))
}

async fn run(catalog: Arc<Catalog>, args: Args, context: CallContext) -> ToolResult {
    let query = args.query.trim();
    if query.is_empty() {
        return Err(ToolError::new(
            "invalid_query",
            "Invalid query: it is blank; say in a few words what the tool should do",
        ));
    }
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let turn = &context.turn;
    let found = catalog.search(
        &turn.view,
        query,
        usize::try_from(limit).expect("between 1 and 20"),
    );
    Ok(ToolOutput::json(&found.to_json(
        query,
        &turn.frame,
        &turn.outside_sources,
    )))
}
