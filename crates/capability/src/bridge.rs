//! `tool_call`, the bridge to capabilities whose schemas are deferred (spec/01 §10.5).
//!
//! A bridged call is taken apart before anything else looks at it, so limits, gates and traces see
//! the real tool. Taking it apart grants nothing: what comes out is a plain call by name.

use fermix_types::ToolCall;
use serde_json::{Map, Value};

use crate::validate::{parse_strict, read_object};

/// The bridge's own name.
pub const TOOL_CALL: &str = "tool_call";

/// What a call asks for once the bridge is taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwrapped {
    /// A plain call: the inner one, or the call as it was when it is not bridged. The provider's
    /// call id is kept.
    Plain(ToolCall),
    /// A bridged call that names nothing callable, with the correction for the model.
    Malformed(String),
}

/// Takes the bridge away from `call`.
pub fn unwrap(call: ToolCall) -> Unwrapped {
    if call.name != TOOL_CALL {
        return Unwrapped::Plain(call);
    }
    let Ok(mut bridge) = read_object(&call.arguments) else {
        return Unwrapped::Malformed(correction(None));
    };
    let name = match bridge.shift_remove("name") {
        Some(Value::String(name)) if !name.is_empty() => name,
        _ => return Unwrapped::Malformed(correction(None)),
    };
    let inner = match bridge.shift_remove("arguments") {
        // Further members are then most likely the arguments in the wrong place.
        None | Some(Value::Null) if bridge.is_empty() => Some(Map::new()),
        Some(Value::Object(arguments)) => Some(arguments),
        // Models write JSON into JSON.
        Some(Value::String(text)) => match parse_strict(&text) {
            Ok(Value::Object(arguments)) => Some(arguments),
            _ => None,
        },
        _ => None,
    };
    match inner {
        Some(arguments) if name != TOOL_CALL => Unwrapped::Plain(ToolCall {
            call_id: call.call_id,
            arguments: Value::Object(arguments).to_string(),
            name,
        }),
        _ => Unwrapped::Malformed(correction(Some(&name))),
    }
}

/// Tells the model how the bridge is used. `received` is the name it asked for.
pub fn correction(received: Option<&str>) -> String {
    let received = match received {
        Some(name) => format!(
            "received the name `{}`",
            fermix_types::text::shortened(name, 100)
        ),
        None => "received no name".to_owned(),
    };
    format!(
        "tool_call takes {{\"name\": \"<another tool's name>\", \"arguments\": {{…}}}} with `arguments` as an object, \
         and {received}; or call the tool directly by name"
    )
}
