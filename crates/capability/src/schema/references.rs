//! References inside one schema. Nothing outside of it is ever looked up.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::walk::{same_value_subschemas, subschemas};
use super::{MAX_SCHEMA_DEPTH, SchemaError};

/// How many references in a row are followed. A longer chain is a loop.
const MAX_HOPS: usize = 32;

/// What `schema` says once its references are followed; `schema` itself when it has none, or when
/// they lead nowhere. A lone `allOf` says the same as its only member.
pub(crate) fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut current = schema;
    for _ in 0..MAX_HOPS {
        let lone = current.get("allOf").and_then(Value::as_array);
        let next = match (current.get("$ref").and_then(Value::as_str), lone) {
            (Some(reference), _) => target(root, reference),
            (None, Some(parts)) if parts.len() == 1 && current.get("properties").is_none() => {
                parts.first()
            }
            _ => return current,
        };
        let Some(next) = next else { return current };
        current = next;
    }
    schema
}

/// The schema a reference names, when it stands inside `root`.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    if fragment.is_empty() {
        return Some(root);
    }
    if fragment.starts_with('/') {
        return root.pointer(&percent_decoded(fragment));
    }
    anchored(root, fragment)
}

fn anchored<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let object = schema.as_object()?;
    let here = ["$anchor", "$dynamicAnchor"]
        .iter()
        .any(|keyword| object.get(*keyword).and_then(Value::as_str) == Some(name));
    if here {
        return Some(schema);
    }
    subschemas(object).find_map(|inner| anchored(inner, name))
}

/// JSON pointers in a fragment may be percent-encoded (RFC 6901 §6).
fn percent_decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        if let [b'%', high, low, after @ ..] = rest
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            bytes.push(high * 16 + low);
            rest = after;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    fermix_types::text::to_valid_utf8(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

/// Refuses references that do not resolve inside `root`, and nesting without end.
pub(super) fn check(root: &Value) -> Result<(), SchemaError> {
    check_part(root, root, &mut HashMap::new())
}

/// How far the search for loops is with one schema.
#[derive(PartialEq)]
enum Search {
    Inside,
    Done,
}

/// Refuses a schema that applies itself to the same value again: no validator would ever end.
/// Schemas for parts of the value do not count, since parts get smaller at each step.
fn refuse_loops<'a>(
    root: &'a Value,
    part: &'a Value,
    seen: &mut HashMap<*const Value, Search>,
    hops: usize,
) -> Result<(), SchemaError> {
    let Some(schema) = part.as_object() else {
        return Ok(());
    };
    if hops > MAX_SCHEMA_DEPTH {
        return Err(SchemaError::TooDeep);
    }
    let place = std::ptr::from_ref(part);
    match seen.get(&place) {
        Some(Search::Inside) => return Err(SchemaError::Loop),
        Some(Search::Done) => return Ok(()),
        None => {}
    }
    seen.insert(place, Search::Inside);
    for reference in references(schema) {
        if let Some(found) = target(root, reference) {
            refuse_loops(root, found, seen, hops + 1)?;
        }
    }
    for inner in same_value_subschemas(schema) {
        refuse_loops(root, inner, seen, hops + 1)?;
    }
    seen.insert(place, Search::Done);
    Ok(())
}

fn references(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    ["$ref", "$dynamicRef", "$recursiveRef"]
        .iter()
        .filter_map(|keyword| schema.get(*keyword)?.as_str())
}

fn check_part<'a>(
    root: &'a Value,
    part: &'a Value,
    seen: &mut HashMap<*const Value, Search>,
) -> Result<(), SchemaError> {
    let Some(schema) = part.as_object() else {
        return Ok(());
    };
    for reference in references(schema) {
        if !target(root, reference).is_some_and(|found| found.is_object() || found.is_boolean()) {
            return Err(SchemaError::Reference(fermix_types::text::shortened(
                reference, 200,
            )));
        }
    }
    refuse_loops(root, part, seen, 0)?;
    subschemas(schema).try_for_each(|inner| check_part(root, inner, seen))
}

/// Drops definitions that nothing refers to any more.
pub(super) fn drop_unused_definitions(root: &mut Map<String, Value>) {
    let mut used = BTreeSet::new();
    let mut waiting: Vec<&Value> = Vec::new();
    for (keyword, value) in root.iter() {
        if !matches!(keyword.as_str(), "$defs" | "definitions") {
            collect_under(keyword, value, &mut waiting);
        }
    }
    while let Some(part) = waiting.pop() {
        let Some(schema) = part.as_object() else {
            continue;
        };
        for reference in references(schema) {
            match definition_name(reference) {
                Some(place) => {
                    if used.insert(place.clone())
                        && let Some(definition) =
                            root.get(&place.0).and_then(|all| all.get(place.1.as_str()))
                    {
                        waiting.push(definition);
                    }
                }
                // An anchor may stand in any definition, so all of them stay.
                None if !reference.starts_with("#/") && reference != "#" => return,
                None => {}
            }
        }
        waiting.extend(subschemas(schema));
    }
    for keyword in ["$defs", "definitions"] {
        let Some(all) = root.get_mut(keyword).and_then(Value::as_object_mut) else {
            continue;
        };
        all.retain(|name, _| used.contains(&(keyword.to_owned(), name.clone())));
        if all.is_empty() {
            root.shift_remove(keyword);
        }
    }
}

fn collect_under<'a>(keyword: &str, value: &'a Value, found: &mut Vec<&'a Value>) {
    match (keyword, value) {
        ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => found.extend(list),
        (
            "properties" | "patternProperties" | "dependentSchemas" | "dependencies",
            Value::Object(by_name),
        ) => found.extend(by_name.values()),
        ("default" | "const" | "enum" | "examples" | "required", _) => {}
        (_, value) => found.push(value),
    }
}

/// `("$defs", "Item")` for `#/$defs/Item` and anything below it.
fn definition_name(reference: &str) -> Option<(String, String)> {
    let pointer = percent_decoded(reference.strip_prefix("#/")?);
    let mut segments = pointer.split('/');
    let keyword = segments.next()?;
    let name = segments.next()?.replace("~1", "/").replace("~0", "~");
    matches!(keyword, "$defs" | "definitions").then(|| (keyword.to_owned(), name))
}
