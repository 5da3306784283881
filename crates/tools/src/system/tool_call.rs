//! `tool_call`: the bridge to a deferred tool.
//!
//! The dispatcher unwraps a well-formed bridge call before anything else happens and runs the inner
//! tool. This handler therefore only ever sees calls that could not be unwrapped, and says how to
//! write them.

use fermix_capability::{Audience, Capability, RegistrationError, bridge};
use fermix_types::{Category, PolicyClass, ToolError, ToolResult};
use serde_json::{Value, json};

/// The capability.
pub fn capability() -> Result<Capability, RegistrationError> {
    Capability::builtin(
        bridge::TOOL_CALL,
        PolicyClass::ReadOnly,
        Category::System,
        Audience::Anyone,
    )
    .description("Call a deferred tool by name.")
    .when_to_use("Call a plugin or MCP tool that is listed by name only.")
    .example(
        json!({"name": "github_create_issue", "arguments": {"title": "Broken link"}}),
        "Runs `github_create_issue` with these arguments.",
    )
    .failure(
        "malformed_call",
        "`name` is not the name of another tool, or `arguments` is not an object.",
    )
    .raw_handler(
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Exact tool name."},
                "arguments": {
                    "type": "object",
                    "description": "The tool's own arguments.",
                    "additionalProperties": true,
                },
            },
            "required": ["name", "arguments"],
            "additionalProperties": false,
        }),
        |arguments, _| std::future::ready(correction(arguments.get("name"))),
    )
}

fn correction(name: Option<&Value>) -> ToolResult {
    Err(ToolError::new(
        "malformed_call",
        bridge::correction(name.and_then(Value::as_str)),
    ))
}
