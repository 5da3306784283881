//! Shorter schemas for our own tools: each goes out with every request, so what says nothing new to
//! a model is left out.
//!
//! The types say `null` beside every optional parameter, its default is `null` then, and each number
//! has a width. Arguments are checked without all of that: `null` for an optional parameter is taken
//! as absent, and the argument type itself refuses a number that is too large for it.

use serde_json::{Map, Value};

/// Keywords whose schemas arguments are followed into when `null` is dropped from them, so that a
/// schema there need not allow it.
const BY_NAME: &[&str] = &["properties", "$defs"];
const LISTED: &[&str] = &["anyOf", "oneOf"];

/// Leaves out of `schema`, which was derived from an argument type, what a model need not read.
pub(crate) fn lean(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    drop_width(object);
    let required: Vec<String> = object
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties
            .iter_mut()
            .filter(|(name, _)| !required.contains(name))
            .filter_map(|(_, property)| property.as_object_mut())
            .for_each(drop_null);
    }
    for (keyword, inner) in object.iter_mut() {
        match inner {
            Value::Object(named) if BY_NAME.contains(&keyword.as_str()) => {
                named.values_mut().for_each(lean);
            }
            Value::Array(listed) if LISTED.contains(&keyword.as_str()) => {
                listed.iter_mut().for_each(lean);
            }
            Value::Object(_) if keyword == "items" => lean(inner),
            _ => {}
        }
    }
}

/// `uint32` and its like. What a text looks like (`date-time`) is kept: it is news to a model.
fn drop_width(schema: &mut Map<String, Value>) {
    let is_text = |name: &Value| name == "string";
    let may_be_text = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(is_text),
        Some(name) => is_text(name),
        None => true,
    };
    if !may_be_text {
        schema.shift_remove("format");
    }
}

/// An optional property without the words for its absence.
fn drop_null(property: &mut Map<String, Value>) {
    if property.get("default").is_some_and(Value::is_null) {
        property.shift_remove("default");
    }
    if let Some(Value::Array(names)) = property.get_mut("type") {
        names.retain(|name| name != "null");
        if let [only] = names.as_slice() {
            let only = only.clone();
            property.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = property.get_mut(keyword) else {
            continue;
        };
        branches.retain(|branch| branch.get("type").is_none_or(|name| name != "null"));
        let [Value::Object(only)] = branches.as_slice() else {
            continue;
        };
        // The one form that is left is the property itself, unless both say the same thing twice.
        let only = only.clone();
        if only.keys().all(|word| !property.contains_key(word)) {
            property.shift_remove(keyword);
            property.extend(only);
        }
    }
}
