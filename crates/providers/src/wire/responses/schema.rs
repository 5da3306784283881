//! Tool schemas for xAI, which refuses enum values that contain a slash.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

/// `schema` without the enum values that contain `/`, and without enums that lose all theirs.
/// Everything else, the order of keys included, stays as it is.
pub(super) fn without_slashes(schema: &RawValue) -> Cow<'_, RawValue> {
    // Both must be there for anything to change, and a search is cheaper than a parse.
    if !schema.get().contains("\"enum\"") || !schema.get().contains('/') {
        return Cow::Borrowed(schema);
    }
    let Ok(mut value) = serde_json::from_str::<Value>(schema.get()) else {
        return Cow::Borrowed(schema);
    };
    strip(&mut value, Place::Schema);
    serde_json::value::to_raw_value(&value).map_or(Cow::Borrowed(schema), Cow::Owned)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Schema,
    /// A map from names to schemas, where `enum` is a name like any other.
    Names,
    /// Plain data that only looks like a schema.
    Data,
}

fn strip(value: &mut Value, place: Place) {
    match value {
        Value::Object(members) => {
            if place == Place::Schema
                && let Some(Value::Array(accepted)) = members.get_mut("enum")
            {
                accepted.retain(|value| !value.as_str().is_some_and(|text| text.contains('/')));
                if accepted.is_empty() {
                    members.shift_remove("enum");
                }
            }
            for (name, member) in members {
                let inner = match (place, name.as_str()) {
                    (Place::Data, _)
                    | (Place::Schema, "enum" | "const" | "default" | "examples") => Place::Data,
                    (
                        Place::Schema,
                        "properties" | "patternProperties" | "$defs" | "definitions",
                    ) => Place::Names,
                    (Place::Schema | Place::Names, _) => Place::Schema,
                };
                strip(member, inner);
            }
        }
        Value::Array(elements) if place != Place::Data => {
            elements
                .iter_mut()
                .for_each(|element| strip(element, Place::Schema));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enum_values_with_slashes_go() {
        let cases = [
            (r#"{"enum":["a/b","c"]}"#, r#"{"enum":["c"]}"#),
            (
                r#"{"enum":["a/b"],"type":"string"}"#,
                r#"{"type":"string"}"#,
            ),
            (
                r#"{"properties":{"enum":{"enum":["x/y",1]}}}"#,
                r#"{"properties":{"enum":{"enum":[1]}}}"#,
            ),
            (
                r#"{"default":{"enum":["a/b"]},"title":"a/b"}"#,
                r#"{"default":{"enum":["a/b"]},"title":"a/b"}"#,
            ),
            (
                r#"{"anyOf":[{"enum":["a/b","c"]}]}"#,
                r#"{"anyOf":[{"enum":["c"]}]}"#,
            ),
            (
                r#"{ "title" : "no change / here" }"#,
                r#"{ "title" : "no change / here" }"#,
            ),
        ];
        for (before, after) in cases {
            let raw = RawValue::from_string(before.to_owned()).unwrap();
            assert_eq!(without_slashes(&raw).get(), after);
        }
    }
}
