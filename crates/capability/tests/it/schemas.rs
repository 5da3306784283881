//! Schemas as people write them, and the shape every wire takes.

use fermix_capability::{Capability, PreparedSchema, RegistrationError};
use fermix_types::PolicyClass;
use pretty_assertions::assert_eq;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{echo, read_only, with_schema};

fn prepared(schema: Value) -> Value {
    let schema = PreparedSchema::third_party(schema).expect("a usable schema");
    // What goes out has to stand on its own.
    jsonschema::draft202012::meta::validate(schema.value()).expect("valid 2020-12");
    jsonschema::draft202012::new(schema.value()).expect("compiles by itself");
    assert_eq!(schema.wire_text().get(), schema.value().to_string());
    schema.value().clone()
}

fn refusal(schema: Value) -> String {
    match PreparedSchema::third_party(schema.clone()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("accepted: {schema}"),
    }
}

#[test]
fn unusual_schemas_come_out_in_one_shape() {
    let cases = [
        (json!({}), json!({ "type": "object", "properties": {} })),
        (
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "title": "X", "type": "object" }),
            json!({ "type": "object", "properties": {} }),
        ),
        (
            json!({ "type": ["object", "null"], "properties": { "a": { "type": ["string", "null"] } } }),
            json!({ "type": "object", "properties": { "a": { "type": ["string", "null"] } } }),
        ),
        // Older drafts: a tuple, and a flag that turns a bound exclusive.
        (
            json!({ "type": "object", "properties": {
                "pair": { "type": "array", "items": [{ "type": "string" }], "additionalItems": false },
                "share": { "type": "number", "minimum": 0, "exclusiveMinimum": true },
            } }),
            json!({ "type": "object", "properties": {
                "pair": { "type": "array", "prefixItems": [{ "type": "string" }], "items": false },
                "share": { "type": "number", "exclusiveMinimum": 0 },
            } }),
        ),
        // Words beside a reference move onto a copy, and unused definitions go.
        (
            json!({
                "type": "object",
                "properties": { "level": { "$ref": "#/$defs/Level", "default": "low" } },
                "$defs": { "Level": { "type": "string", "enum": ["low", "high"] }, "Lost": { "type": "null" } },
            }),
            json!({
                "type": "object",
                "properties": { "level": { "type": "string", "enum": ["low", "high"], "default": "low" } },
            }),
        ),
        // A lone reference stays, with its definition.
        (
            json!({
                "type": "object",
                "properties": { "tree": { "$ref": "#/definitions/Tree" } },
                "definitions": { "Tree": { "type": "object", "properties": {
                    "left": { "$ref": "#/definitions/Tree", "description": "smaller" },
                } } },
            }),
            json!({
                "type": "object",
                "properties": { "tree": { "$ref": "#/definitions/Tree" } },
                "definitions": { "Tree": { "type": "object", "properties": {
                    "left": { "type": "object", "description": "smaller", "properties": {
                        "left": { "description": "smaller", "allOf": [{ "$ref": "#/definitions/Tree" }] },
                    } },
                } } },
            }),
        ),
        // The whole schema behind a reference.
        (
            json!({ "$ref": "#/$defs/Args", "$defs": { "Args": { "type": "object", "properties": { "a": {} } } } }),
            json!({ "type": "object", "properties": { "a": {} } }),
        ),
        // Alternatives at the root become one object.
        (
            json!({ "oneOf": [
                { "type": "object", "properties": { "action": { "const": "get" }, "id": { "type": "string" } }, "required": ["action", "id"] },
                { "type": "object", "properties": { "action": { "const": "list" } }, "required": ["action"] },
            ] }),
            json!({
                "type": "object",
                "properties": { "action": { "type": "string", "enum": ["get", "list"] }, "id": { "type": "string" } },
                "required": ["action"],
                "description": "Exactly one of these sets of parameters: action + id; action.",
            }),
        ),
        (
            json!({ "type": "object", "properties": { "a": {}, "b": {} }, "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
            json!({
                "type": "object",
                "properties": { "a": {}, "b": {} },
                "description": "At least one of these sets of parameters: a; b.",
            }),
        ),
        // A property may be called like a keyword, and a default may look like a schema.
        (
            json!({ "type": "object", "properties": { "$ref": { "type": "string", "default": { "$ref": "nowhere" } } } }),
            json!({ "type": "object", "properties": { "$ref": { "type": "string", "default": { "$ref": "nowhere" } } } }),
        ),
    ];
    for (given, expected) in cases {
        let input = given.to_string();
        let got = prepared(given);
        assert_eq!(sorted(&got), sorted(&expected), "from {input}");
    }
}

/// The order of members is not what these cases are about.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| name.as_str());
            members
                .into_iter()
                .map(|(name, value)| (name.clone(), sorted(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[test]
fn a_schema_that_cannot_be_used_says_why() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..80 {
        deep = json!({ "type": "array", "items": deep });
    }
    let many: serde_json::Map<String, Value> = (0..4_000)
        .map(|index| (format!("parameter_{index}"), json!({ "type": "string" })))
        .collect();
    let cases = [
        (json!("object"), "must describe an object, not string"),
        (json!(true), "must describe an object, not boolean"),
        (
            json!({ "type": "array", "items": {} }),
            "must describe an object, not \"array\"",
        ),
        (json!({ "enum": ["a"] }), "not a list of values"),
        (
            json!({ "type": "object", "required": ["a"] }),
            "`required` names `a`",
        ),
        (
            json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/A" } } }),
            "`#/$defs/A` does not resolve",
        ),
        (
            json!({ "type": "object", "properties": { "a": { "$ref": "https://example.com/a.json" } } }),
            "does not resolve inside",
        ),
        (
            json!({ "type": "object", "properties": { "a": { "type": "text" } } }),
            "not valid JSON Schema 2020-12",
        ),
        (
            json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "(" } } }),
            "not valid JSON Schema",
        ),
        (
            json!({ "oneOf": [{ "type": "object" }, { "type": "string" }] }),
            "the root's `oneOf` cannot be wrapped into one object: entry 1",
        ),
        (
            json!({ "anyOf": [{ "type": "null" }] }),
            "no entry that is an object",
        ),
        (
            json!({
                "type": "object",
                "properties": { "a": { "$ref": "#/$defs/A" } },
                "$defs": { "A": { "anyOf": [{ "$ref": "#/$defs/B" }] }, "B": { "not": { "$ref": "#/$defs/A" } } },
            }),
            "leads back to itself",
        ),
        (
            json!({ "type": "object", "properties": { "a": deep } }),
            "more than 64 levels",
        ),
        (
            json!({ "type": "object", "properties": many }),
            "at most 65536 are accepted",
        ),
        (json!({ "$ref": "#" }), "leads back to itself"),
    ];
    for (schema, expected) in cases {
        let said = refusal(schema);
        assert!(
            said.contains(expected),
            "{said:?} does not say {expected:?}"
        );
    }
}

#[test]
fn copies_of_definitions_stay_bounded() {
    // Each definition holds the next one twice, which doubles at every level.
    let mut definitions = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({ "$ref": format!("#/$defs/D{}", level + 1), "description": "again" });
        definitions.insert(
            format!("D{level}"),
            json!({ "type": "object", "properties": { "a": next, "b": next } }),
        );
    }
    definitions.insert("D30".to_owned(), json!({ "type": "string" }));
    let schema = json!({
        "type": "object",
        "properties": { "a": { "$ref": "#/$defs/D0" } },
        "$defs": definitions,
    });
    match PreparedSchema::third_party(schema) {
        Ok(schema) => assert!(schema.wire_text().get().len() <= 64 * 1024),
        Err(error) => assert!(error.to_string().contains("at most 65536"), "{error}"),
    }
}

#[test]
fn a_long_chain_of_definitions_is_decided_on_a_small_stack() {
    let chain = |link: fn(String) -> Value| {
        let mut definitions = serde_json::Map::new();
        for level in 0..1_200 {
            definitions.insert(format!("{level}"), link(format!("#/$defs/{}", level + 1)));
        }
        definitions.insert("1200".to_owned(), json!({ "type": "string" }));
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/0" } }, "$defs": definitions })
    };
    let same_value = chain(|next| json!({ "$ref": next }));
    let part = chain(|next| json!({ "items": { "$ref": next } }));
    assert!(refusal(same_value).contains("more than 64 levels"));
    let decided = std::thread::Builder::new()
        .stack_size(2 * 1024 * 1024)
        .spawn(move || PreparedSchema::third_party(part).map(|_| ()))
        .expect("a thread")
        .join();
    assert!(decided.is_ok());
}

#[test]
fn nine_of_ten_tools_of_a_server_register() {
    let mcp = |index: usize| {
        Capability::mcp(
            &format!("mcp_notes_{index}"),
            "notes",
            PolicyClass::ExternalApi,
        )
        .description("Stands in.")
    };
    let schema = |index: usize| match index {
        9 => json!({ "oneOf": [{ "type": "object" }, { "type": "integer" }] }),
        _ => json!({ "type": "object" }),
    };
    let (good, bad): (Vec<_>, Vec<_>) = (0..10)
        .map(|index| mcp(index).raw_handler(schema(index), |_, _| async { Ok("".into()) }))
        .partition(Result::is_ok);
    assert_eq!(good.len(), 9);
    let [Err(RegistrationError::InvalidSchema { name, cause })] = bad.as_slice() else {
        panic!("one schema is refused");
    };
    assert_eq!(name, "mcp_notes_9");
    assert!(cause.to_string().contains("entry 1"), "{cause}");
}

#[test]
fn names_no_provider_takes_are_refused() {
    for name in [
        "",
        "1st",
        "with space",
        "dotted.name",
        "ümlaut",
        &"x".repeat(65),
    ] {
        let tool = read_only(name)
            .raw_handler(json!({ "type": "object" }), |_, _| async { Ok("".into()) });
        assert!(
            matches!(tool, Err(RegistrationError::InvalidName(_))),
            "{name}"
        );
    }
}

/// Find things.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Args {
    /// What to look for.
    query: String,
    /// How many at most.
    limit: Option<u32>,
    mode: Mode,
    inside: Vec<Place>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Fast,
    Slow,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Place {
    path: String,
}

#[test]
fn a_typed_tool_describes_itself() {
    let tool = Capability::builtin(
        "find",
        PolicyClass::ReadOnly,
        fermix_types::Category::File,
        fermix_capability::Audience::OwnerOnly,
    )
    .handler(|_: Args, _| async { Ok("found".into()) })
    .expect("a usable schema");
    assert_eq!(&**tool.description(), "Find things.");
    let schema = tool.schema();
    schema.compiles().expect("compiles");
    assert_eq!(schema.value().get("$schema"), None);
    assert_eq!(schema.value().get("title"), None);
    assert_eq!(schema.value().get("description"), None);
    assert_eq!(
        schema.required().collect::<Vec<_>>(),
        ["query", "mode", "inside"]
    );
    assert_eq!(
        schema.search_text(),
        "query What to look for. limit How many at most. mode inside"
    );
    assert_eq!(
        schema.signature("find"),
        "find(query: string, limit?: integer, mode: string, inside: array)"
    );
}

/// What a model need not read is not in the schema, and is taken all the same: `null` for whatever
/// is optional, at any depth and behind references.
#[tokio::test]
async fn a_typed_schema_is_lean_and_takes_null_for_what_is_optional() {
    /// Plan a trip.
    #[derive(Deserialize, JsonSchema, serde::Serialize)]
    struct Trip {
        /// Where to.
        to: String,
        /// How many days.
        days: Option<u32>,
        /// How fast.
        pace: Option<Pace>,
        #[serde(default)]
        stops: Vec<Stop>,
        /// Where it starts.
        start: Option<Stop>,
        /// How to get there.
        way: Option<Way>,
        /// When, as a share of the year.
        when: Option<f64>,
    }
    #[derive(Deserialize, JsonSchema, serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Pace {
        Slow,
        Fast,
    }
    #[derive(Deserialize, JsonSchema, serde::Serialize)]
    struct Stop {
        name: String,
        nights: Option<u8>,
        /// The one after it.
        next: Option<Box<Stop>>,
    }
    #[derive(Deserialize, JsonSchema, serde::Serialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Way {
        Train { class: Option<u8> },
        Walk { boots: Option<bool> },
    }

    let tool = read_only("plan")
        .handler(|trip: Trip, _| async move { Ok(fermix_types::ToolOutput::json(&trip)) })
        .expect("a usable schema");
    let schema = tool.schema().value().clone();
    assert_eq!(
        schema["properties"]["days"],
        json!({ "description": "How many days.", "type": "integer", "minimum": 0 })
    );
    assert_eq!(
        sorted(&schema["properties"]["pace"]),
        sorted(&json!({ "description": "How fast.", "type": "string", "enum": ["slow", "fast"] }))
    );
    let text = schema.to_string();
    assert!(!text.contains("format") && !text.contains("null"), "{text}");

    let registry = crate::support::registry(fermix_capability::Deferral::Off, [tool]);
    let nothing = json!({
        "to": "Rome", "days": null, "pace": null, "stops": null, "start": null,
        "way": null, "when": null,
    });
    let nested = json!({
        "to": "Rome",
        "stops": [{ "name": "Ulm", "nights": null, "next": null }],
        "start": { "name": "Bern", "next": { "name": "Chur", "next": { "name": "Como", "nights": null, "next": null } } },
        "way": { "kind": "train", "class": null },
    });
    for arguments in [nothing, nested] {
        let turn = crate::support::turn(&registry, crate::support::owner());
        let outcome = turn.call("plan", &arguments.to_string()).await;
        assert!(!outcome.is_error, "{arguments}: {}", outcome.text);
    }
    for (arguments, words) in [
        (json!({ "to": null }), "Missing required parameter: to"),
        (json!({ "to": "Rome", "days": "soon" }), "days"),
    ] {
        let turn = crate::support::turn(&registry, crate::support::owner());
        let outcome = turn.call("plan", &arguments.to_string()).await;
        assert!(
            outcome.is_error && outcome.text.contains(words),
            "{arguments}: {}",
            outcome.text
        );
    }
}

#[test]
fn one_registration_gives_byte_equal_definitions_to_every_view() {
    let registry = crate::support::registry(
        fermix_capability::Deferral::Off,
        [
            echo(read_only("beta")),
            with_schema(
                read_only("alpha"),
                json!({ "type": "object", "properties": { "z": {}, "a": {} } }),
            ),
        ],
    );
    let text = |caller: fermix_capability::Caller| -> Vec<String> {
        registry
            .view(&std::sync::Arc::new(caller))
            .definitions()
            .iter()
            .map(|tool| {
                format!(
                    "{} {} {}",
                    tool.name,
                    tool.description,
                    tool.parameters.get()
                )
            })
            .collect()
    };
    let chat = text(crate::support::owner());
    assert_eq!(chat, text(crate::support::job(None)));
    assert!(
        chat[0].ends_with(r#"{"type":"object","properties":{"z":{},"a":{}}}"#),
        "{chat:?}"
    );
}
