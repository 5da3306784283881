//! The root of a schema as one plain object, since no wire takes alternatives there.

use serde_json::{Map, Value, json};

use super::walk::subschemas;
use super::{SchemaError, resolve};

/// How deep alternatives inside alternatives at the root are looked into.
const MAX_ALTERNATIVE_DEPTH: usize = 8;
/// How many alternatives the description spells out.
const MAX_SPELLED_OUT: usize = 8;

/// Keywords at the root that no wire takes.
const ALTERNATIVES: [&str; 3] = ["allOf", "oneOf", "anyOf"];
const CONDITIONS: [&str; 3] = ["not", "enum", "const"];

/// Whether [`one_object`] makes of `schema` one that accepts more.
pub(super) fn is_more_than_one_object(schema: &Value) -> bool {
    ALTERNATIVES
        .iter()
        .chain(&CONDITIONS)
        .any(|keyword| schema.get(*keyword).is_some())
}

/// `schema` as one plain object schema. References are looked up in `root`, which is only asked
/// where there are alternatives.
pub(super) fn one_object(
    mut schema: Map<String, Value>,
    root: &Value,
    depth: usize,
) -> Result<Map<String, Value>, SchemaError> {
    match schema.get("type") {
        None if schema.contains_key("enum") || schema.contains_key("const") => {
            return Err(SchemaError::NotAnObject("a list of values".to_owned()));
        }
        None => {}
        Some(Value::String(name)) if name == "object" => {}
        Some(Value::Array(names)) if names.iter().any(|name| name == "object") => {}
        Some(other) => return Err(SchemaError::NotAnObject(other.to_string())),
    }
    schema.insert("type".into(), "object".into());
    for keyword in ALTERNATIVES {
        if let Some(branches) = schema.shift_remove(keyword) {
            merge(&mut schema, keyword, &branches, root, depth)?;
        }
    }
    for keyword in CONDITIONS {
        schema.shift_remove(keyword);
    }
    Ok(schema)
}

fn merge(
    schema: &mut Map<String, Value>,
    keyword: &'static str,
    branches: &Value,
    root: &Value,
    depth: usize,
) -> Result<(), SchemaError> {
    let refuse = |reason: String| SchemaError::RootAlternatives { keyword, reason };
    if depth >= MAX_ALTERNATIVE_DEPTH {
        return Err(refuse("it is nested too deeply".to_owned()));
    }
    let Value::Array(branches) = branches else {
        return Err(refuse("it is not a list".to_owned()));
    };
    let mut objects = Vec::new();
    for (index, branch) in branches.iter().enumerate() {
        let branch = resolve(root, branch);
        if keyword != "allOf" && branch.get("type").is_some_and(|name| name == "null") {
            continue;
        }
        let says_object = branch.get("type").is_some_and(|name| name == "object");
        let Value::Object(branch) = branch else {
            return Err(refuse(format!("entry {index} is no schema of an object")));
        };
        let reads_as_object = !branch.contains_key("type")
            && (branch.contains_key("required") || subschemas(branch).next().is_some());
        if !says_object && !reads_as_object {
            return Err(refuse(format!("entry {index} is no schema of an object")));
        }
        let object = one_object(branch.clone(), root, depth + 1)
            .map_err(|_| refuse(format!("entry {index} is no schema of an object")))?;
        objects.push(object);
    }
    if objects.is_empty() {
        return Err(refuse("it has no entry that is an object".to_owned()));
    }

    let mut properties = take_object(schema, "properties");
    for object in &objects {
        let theirs = object.get("properties").and_then(Value::as_object);
        for (name, parameter) in theirs.into_iter().flatten() {
            match properties.get_mut(name) {
                None => {
                    properties.insert(name.clone(), parameter.clone());
                }
                Some(known) => widen(known, parameter),
            }
        }
    }
    schema.insert("properties".into(), Value::Object(properties));

    let mut required = names(schema.get("required"));
    let per_branch: Vec<Vec<String>> = objects
        .iter()
        .map(|object| names(object.get("required")))
        .collect();
    let candidates = per_branch
        .iter()
        .flatten()
        .filter(|name| keyword == "allOf" || per_branch.iter().all(|branch| branch.contains(name)));
    for name in candidates {
        if !required.contains(name) {
            required.push(name.clone());
        }
    }
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    if keyword != "allOf" {
        describe_choice(schema, keyword, &per_branch);
    }
    Ok(())
}

fn take_object(schema: &mut Map<String, Value>, keyword: &str) -> Map<String, Value> {
    match schema.shift_remove(keyword) {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

fn names(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect()
}

/// Makes `known` accept what `other` accepts too.
fn widen(known: &mut Value, other: &Value) {
    if known == other {
        return;
    }
    if let (Some(mut values), Some(more)) = (text_values(known), text_values(other)) {
        for value in more {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let description = known.get("description").cloned();
        *known = json!({ "type": "string", "enum": values });
        if let (Some(description), Value::Object(known)) = (description, known) {
            known.insert("description".into(), description);
        }
        return;
    }
    match known.get_mut("anyOf").and_then(Value::as_array_mut) {
        Some(forms) => {
            if !forms.contains(other) {
                forms.push(other.clone());
            }
        }
        None => *known = json!({ "anyOf": [known.clone(), other.clone()] }),
    }
}

/// The values of a schema that only lists text, such as the tag of a variant.
fn text_values(schema: &Value) -> Option<Vec<String>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(Value::String(value)), None) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => values
            .iter()
            .map(|value| value.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    }
}

/// The wire cannot say which parameters belong together, so the description does.
fn describe_choice(
    schema: &mut Map<String, Value>,
    keyword: &'static str,
    per_branch: &[Vec<String>],
) {
    let shown: Vec<String> = per_branch
        .iter()
        .filter(|names| !names.is_empty())
        .map(|names| names.join(" + "))
        .collect();
    if shown.len() < 2 || shown.len() > MAX_SPELLED_OUT {
        return;
    }
    let how_many = if keyword == "oneOf" {
        "Exactly one"
    } else {
        "At least one"
    };
    let sentence = format!(
        "{how_many} of these sets of parameters: {}.",
        shown.join("; ")
    );
    let description = match schema.get("description").and_then(Value::as_str) {
        Some(before) => format!("{before}\n{sentence}"),
        None => sentence,
    };
    schema.insert("description".into(), description.into());
}

/// Refuses required parameters that nothing describes.
pub(super) fn required_exist(schema: &Map<String, Value>) -> Result<(), SchemaError> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for name in names(schema.get("required")) {
        if !properties.is_some_and(|properties| properties.contains_key(&name)) {
            return Err(SchemaError::RequiredWithoutProperty(
                fermix_types::text::shortened(&name, 100),
            ));
        }
    }
    Ok(())
}
