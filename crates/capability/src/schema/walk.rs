//! Which parts of a schema are schemas themselves.
//!
//! A property may be called `default` or `$ref`, and a default value may look like a schema, so
//! walking all of the JSON would mistake data for rules.

use serde_json::{Map, Value};

/// Keywords whose value is one schema.
const SCHEMA: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas. `items` was one in older drafts.
const LIST: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Keywords whose value is an object of schemas by name.
const BY_NAME: &[&str] = &[
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// Every schema directly inside `schema`.
pub(super) fn subschemas(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let single = SCHEMA
        .iter()
        .filter_map(|keyword| schema.get(*keyword))
        .filter(|value| !value.is_array());
    let listed = LIST
        .iter()
        .filter_map(|keyword| schema.get(*keyword)?.as_array())
        .flatten();
    let named = BY_NAME
        .iter()
        .filter_map(|keyword| schema.get(*keyword)?.as_object())
        .flat_map(Map::values);
    single.chain(listed).chain(named)
}

/// Those of them that look at the very value `schema` looks at, not at a part of it.
pub(super) fn same_value_subschemas(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let single = ["not", "if", "then", "else"]
        .iter()
        .filter_map(|keyword| schema.get(*keyword));
    let listed = ["allOf", "anyOf", "oneOf"]
        .iter()
        .filter_map(|keyword| schema.get(*keyword)?.as_array())
        .flatten();
    let named = ["dependentSchemas", "dependencies"]
        .iter()
        .filter_map(|keyword| schema.get(*keyword)?.as_object())
        .flat_map(Map::values);
    single.chain(listed).chain(named)
}

/// Every schema directly inside `schema`, to change it.
pub(super) fn subschemas_mut(schema: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    schema.iter_mut().flat_map(|(keyword, value)| {
        let keyword = keyword.as_str();
        let found: Vec<&mut Value> = if LIST.contains(&keyword) && value.is_array() {
            value.as_array_mut().into_iter().flatten().collect()
        } else if SCHEMA.contains(&keyword) {
            vec![value]
        } else if BY_NAME.contains(&keyword) {
            value
                .as_object_mut()
                .into_iter()
                .flat_map(Map::values_mut)
                .collect()
        } else {
            Vec::new()
        };
        found
    })
}
