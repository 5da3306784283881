//! One shape that the wires of all providers take.
//!
//! Providers refuse alternatives at the root, an object without `properties`, and some refuse
//! words beside a `$ref`; tool authors write all three. Everything else stays as it was written.

use serde_json::{Value, json};

use super::references::{self, target};
use super::root::{is_more_than_one_object, one_object, required_exist};
use super::walk::{subschemas, subschemas_mut};
use super::{MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, SchemaError, resolve};

/// How many JSON values all copies of referenced schemas together may add.
const COPY_BUDGET: usize = 4_000;
/// Keywords that only describe, so that they may be moved to a copy of the referenced schema.
const DESCRIPTIVE: &[&str] = &[
    "$comment",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

pub(super) struct Normalised {
    pub(super) wire: Value,
    /// What was given, where the wire's form accepts more.
    pub(super) stricter: Option<Value>,
}

pub(super) fn for_all_wires(schema: Value) -> Result<Normalised, SchemaError> {
    let Value::Object(mut root) = schema else {
        return Err(SchemaError::NotAnObject(
            crate::validate::type_name(&schema).to_owned(),
        ));
    };
    if is_deeper_than(root.values(), MAX_SCHEMA_DEPTH) {
        return Err(SchemaError::TooDeep);
    }
    // Only a first bound, before any work; the exact size is looked at when all is done.
    let bytes = text_bytes(root.iter());
    if bytes > 2 * MAX_SCHEMA_BYTES {
        return Err(SchemaError::TooLarge { bytes });
    }
    // Said by the message around the schema already, and a base address would only make
    // references look outward.
    for noise in ["$schema", "$id", "id", "title"] {
        root.shift_remove(noise);
    }
    let mut whole = Value::Object(root);
    modernise(&mut whole);
    references::check(&whole)?;
    if has_described_reference(&whole) {
        let before = whole.clone();
        let mut budget = COPY_BUDGET;
        copy_described_references(&mut whole, &before, &mut Vec::new(), &mut budget);
    }

    let stricter = is_more_than_one_object(&whole).then(|| {
        let mut stricter = whole.clone();
        if let Value::Object(root) = &mut stricter {
            root.insert("type".into(), "object".into());
        }
        stricter
    });
    let mut wire = match &stricter {
        Some(stricter) => one_object(whole.as_object().cloned().unwrap_or_default(), stricter, 0)?,
        None => match whole {
            Value::Object(root) => one_object(root, &Value::Null, 0)?,
            other => return Err(SchemaError::NotAnObject(other.to_string())),
        },
    };
    if !wire.contains_key("properties") {
        wire.insert("properties".into(), json!({}));
    }
    required_exist(&wire)?;
    references::drop_unused_definitions(&mut wire);
    let wire = Value::Object(wire);
    references::check(&wire)?;
    Ok(Normalised { wire, stricter })
}

/// About as many bytes as the text of `members` has at least.
fn text_bytes<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>) -> usize {
    members
        .map(|(name, value)| name.len() + 3 + value_bytes(value))
        .sum()
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => {
            1 + items
                .iter()
                .map(|item| 1 + value_bytes(item))
                .sum::<usize>()
        }
        Value::Object(members) => 1 + text_bytes(members.iter()),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// Whether any reference has words beside it.
fn has_described_reference(schema: &Value) -> bool {
    schema.as_object().is_some_and(|object| {
        (object.contains_key("$ref") && object.len() > 1)
            || subschemas(object).any(has_described_reference)
    })
}

fn is_deeper_than<'a>(values: impl Iterator<Item = &'a Value>, levels: usize) -> bool {
    let mut waiting: Vec<(&Value, usize)> = values.map(|value| (value, 1)).collect();
    while let Some((value, depth)) = waiting.pop() {
        if depth > levels {
            return true;
        }
        match value {
            Value::Array(items) => waiting.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(all) => waiting.extend(all.values().map(|item| (item, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

/// Says in 2020-12 what older drafts said otherwise. MCP servers send any draft.
fn modernise(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if object.get("items").is_some_and(Value::is_array) {
        let tuple = object.shift_remove("items").unwrap_or_default();
        object.insert("prefixItems".into(), tuple);
        if let Some(rest) = object.shift_remove("additionalItems") {
            object.insert("items".into(), rest);
        }
    }
    for (exclusive, inclusive) in [
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ] {
        match object.get(exclusive) {
            Some(Value::Bool(true)) => {
                object.shift_remove(exclusive);
                if let Some(limit) = object.shift_remove(inclusive) {
                    object.insert(exclusive.into(), limit);
                }
            }
            Some(Value::Bool(false)) => {
                object.shift_remove(exclusive);
            }
            _ => {}
        }
    }
    subschemas_mut(object).for_each(modernise);
}

/// Replaces a reference with words beside it by a copy of what it names with those words.
fn copy_described_references(
    schema: &mut Value,
    root: &Value,
    inside: &mut Vec<String>,
    budget: &mut usize,
) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let reference = object
        .get("$ref")
        .and_then(Value::as_str)
        .filter(|_| object.len() > 1)
        .map(str::to_owned);
    let mut entered = false;
    if let Some(reference) = reference {
        let only_words = object.keys().all(|keyword| {
            matches!(keyword.as_str(), "$ref" | "$defs" | "definitions")
                || DESCRIPTIVE.contains(&keyword.as_str())
        });
        let named = target(root, &reference)
            .map(|named| resolve(root, named))
            .and_then(Value::as_object)
            .filter(|named| !named.contains_key("$ref") && !inside.contains(&reference));
        let cost = named.map_or(usize::MAX, |named| count(named.values(), *budget));
        match named {
            Some(named) if only_words && cost < *budget => {
                *budget -= cost;
                object.shift_remove("$ref");
                let words = std::mem::replace(object, named.clone());
                object.extend(words);
                inside.push(reference);
                entered = true;
            }
            _ if !object.contains_key("allOf") => {
                object.shift_remove("$ref");
                object.insert("allOf".into(), json!([{ "$ref": reference }]));
            }
            _ => {}
        }
    }
    for inner in subschemas_mut(object) {
        copy_described_references(inner, root, inside, budget);
    }
    if entered {
        inside.pop();
    }
}

/// The number of JSON values, counted no further than `limit`.
fn count<'a>(values: impl Iterator<Item = &'a Value>, limit: usize) -> usize {
    let mut waiting: Vec<&Value> = values.collect();
    let mut counted = 0;
    while let Some(value) = waiting.pop() {
        counted += 1;
        if counted > limit {
            break;
        }
        match value {
            Value::Array(items) => waiting.extend(items),
            Value::Object(all) => waiting.extend(all.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    counted
}
