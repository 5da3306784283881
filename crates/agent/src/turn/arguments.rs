//! The arguments a tool was called with, as the model wrote them.

use serde_json::{Map, Value};

/// The arguments as an object, those of a bridged call taken out of it; empty when they are none.
pub(crate) fn inner(arguments: &str) -> Map<String, Value> {
    let Ok(Value::Object(mut members)) = serde_json::from_str::<Value>(arguments) else {
        return Map::new();
    };
    // A bridged call carries the real arguments one level down.
    match members.shift_remove("arguments") {
        Some(Value::Object(inner)) => inner,
        Some(other) => {
            members.insert("arguments".to_owned(), other);
            members
        }
        None => members,
    }
}
