//! One text for one call, however it was written: the loop guard counts equal texts.

use serde_json::{Map, Value};

use crate::validate::parse_strict;

/// Name and arguments with all keys sorted.
pub(super) fn canonical_signature(name: &str, arguments: &Map<String, Value>) -> String {
    let mut signature = format!("{name} ");
    write_object(arguments, &mut signature);
    signature
}

/// The signature of a call that was not read as an object of its tool. A bridge puts its
/// arguments through JSON, so a call without the bridge has to be put through it too.
pub(super) fn raw_signature(name: &str, arguments: &str) -> String {
    match parse_strict(arguments) {
        Ok(Value::Object(object)) => canonical_signature(name, &object),
        _ => format!("{name} {arguments}"),
    }
}

fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => write_object(members, text),
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_sorted(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

fn write_object(members: &Map<String, Value>, text: &mut String) {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by_key(|(key, _)| key.as_str());
    text.push('{');
    for (key, value) in sorted {
        text.push_str(&Value::String(key.clone()).to_string());
        text.push(':');
        write_sorted(value, text);
        text.push(',');
    }
    text.push('}');
}
