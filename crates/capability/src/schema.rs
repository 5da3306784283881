//! A capability's parameters, checked once and kept in every form that is needed later.
//!
//! The schema is brought into a shape that every provider's wire takes (see `normalise`). Where
//! that shape is looser than what was given, arguments are still checked against what was given.
//! Schemas of our own are compiled at their first use, which keeps the start of a one-shot run
//! short; schemas from plugins and MCP servers are compiled at registration, so that a bad one is
//! refused with its reason before a model ever sees it.

mod lean;
mod normalise;
mod references;
mod root;
mod walk;

use std::sync::{Arc, OnceLock};

use jsonschema::{PatternOptions, Validator};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub(crate) use lean::lean;
pub(crate) use references::resolve;

/// The largest schema that is accepted, in bytes of JSON text (spec/01 §1.1).
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// The deepest nesting that is accepted. JSON decoders on the other side stop not far beyond.
pub const MAX_SCHEMA_DEPTH: usize = 64;
/// How long a complaint of the schema compiler may get, in bytes.
const MAX_REASON_BYTES: usize = 300;
/// How long a one-line signature may get, in bytes.
const MAX_SIGNATURE_BYTES: usize = 400;
/// A pattern from outside may not spin for long.
const MAX_PATTERN_BACKTRACKS: usize = 100_000;

/// Why parameters cannot be used. All of them are for whoever wrote the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The root describes something else than an object.
    #[error("the root must describe an object, not {0}")]
    NotAnObject(String),
    /// The encoded schema is too large.
    #[error("the schema has {bytes} bytes and at most {MAX_SCHEMA_BYTES} are accepted")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The schema is nested too deeply.
    #[error("the schema is nested more than {MAX_SCHEMA_DEPTH} levels deep")]
    TooDeep,
    /// `required` names a property that does not exist.
    #[error("`required` names `{0}`, which `properties` does not have")]
    RequiredWithoutProperty(String),
    /// A `$ref` that leads out of the schema or nowhere.
    #[error("the reference `{0}` does not resolve inside the schema")]
    Reference(String),
    /// A schema that applies itself to the same value for ever.
    #[error("the schema leads back to itself without looking at a part of the value")]
    Loop,
    /// Alternatives at the root that no wire takes and that cannot be merged into one object.
    #[error("the root's `{keyword}` cannot be wrapped into one object: {reason}")]
    RootAlternatives {
        /// `oneOf`, `anyOf` or `allOf`.
        keyword: &'static str,
        /// Which alternative is in the way.
        reason: String,
    },
    /// Not valid JSON Schema 2020-12.
    #[error("not valid JSON Schema 2020-12: {0}")]
    Invalid(String),
}

/// Who wrote a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// This program. Unknown parameters are refused, since our argument types are complete.
    Ourselves,
    /// A plugin or an MCP server. Unknown parameters are refused where the schema says so, and
    /// none of its words leave a frame.
    ThirdParty,
}

/// A parameters schema in every form that is needed later.
#[derive(Debug)]
pub struct PreparedSchema {
    value: Value,
    wire_text: Arc<RawValue>,
    /// What arguments are checked against, where the wire's form had to be looser.
    stricter: Option<Value>,
    author: Author,
    validator: OnceLock<Result<Validator, SchemaError>>,
}

impl PreparedSchema {
    /// Checks and prepares a schema of our own; it is compiled at its first use.
    pub fn new(schema: Value) -> Result<Self, SchemaError> {
        Self::prepare(schema, Author::Ourselves)
    }

    /// Checks, prepares and compiles a schema from outside.
    pub fn third_party(schema: Value) -> Result<Self, SchemaError> {
        let prepared = Self::prepare(schema, Author::ThirdParty)?;
        prepared.compiled()?;
        Ok(prepared)
    }

    fn prepare(schema: Value, author: Author) -> Result<Self, SchemaError> {
        let normalised = normalise::for_all_wires(schema)?;
        let wire_text = serde_json::value::to_raw_value(&normalised.wire)
            .map_err(|error| SchemaError::Invalid(error.to_string()))?;
        let bytes = wire_text.get().len();
        if bytes > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLarge { bytes });
        }
        Ok(Self {
            value: normalised.wire,
            wire_text: wire_text.into(),
            stricter: normalised.stricter,
            author,
            validator: OnceLock::new(),
        })
    }

    /// The schema as the model is shown it.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The schema as the wires send it.
    pub fn wire_text(&self) -> &Arc<RawValue> {
        &self.wire_text
    }

    /// Who wrote it.
    pub fn author(&self) -> Author {
        self.author
    }

    /// Whether it compiles as JSON Schema 2020-12. Tests ask this of every built-in.
    pub fn compiles(&self) -> Result<(), SchemaError> {
        self.compiled().map(|_| ())
    }

    pub(crate) fn compiled(&self) -> Result<&Validator, SchemaError> {
        let compiled = self.validator.get_or_init(|| {
            if self.stricter.is_some() {
                jsonschema::draft202012::meta::validate(&self.value)
                    .map_err(|error| invalid(&error))?;
            }
            jsonschema::draft202012::options()
                .with_pattern_options(
                    PatternOptions::fancy_regex().backtrack_limit(MAX_PATTERN_BACKTRACKS),
                )
                .build(self.stricter.as_ref().unwrap_or(&self.value))
                .map_err(|error| invalid(&error))
        });
        compiled.as_ref().map_err(Clone::clone)
    }

    /// The parameters by name, in the order of the schema.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Value)> {
        members(&self.value, "properties")
            .into_iter()
            .flatten()
            .map(|(name, schema)| (name.as_str(), schema))
    }

    /// Whether the tool takes no parameters at all.
    pub(crate) fn takes_nothing(&self) -> bool {
        self.properties().next().is_none()
            && self.value.get("additionalProperties").is_none()
            && self.value.get("patternProperties").is_none()
            && self.stricter.is_none()
    }

    /// The names of the required parameters.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        self.value
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    /// Names and descriptions of the parameters, for a search index.
    pub fn search_text(&self) -> String {
        let mut text = String::new();
        for (name, schema) in self.properties() {
            for part in [
                Some(name),
                schema.get("description").and_then(Value::as_str),
            ] {
                let Some(part) = part else { continue };
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(part);
            }
        }
        text
    }

    /// One line such as `file_read(path: string, limit?: integer)`.
    pub fn signature(&self, name: &str) -> String {
        let required: Vec<&str> = self.required().collect();
        let parameters: Vec<String> = self
            .properties()
            .map(|(parameter, schema)| {
                let optional = if required.contains(&parameter) {
                    ""
                } else {
                    "?"
                };
                format!("{parameter}{optional}: {}", self.type_words(schema))
            })
            .collect();
        fermix_types::text::shortened(
            &format!("{name}({})", parameters.join(", ")),
            MAX_SIGNATURE_BYTES,
        )
    }

    /// The type of a part of this schema, in a word or two.
    pub(crate) fn type_words(&self, schema: &Value) -> String {
        let schema = resolve(&self.value, schema);
        match schema.get("type") {
            Some(Value::String(name)) => name.clone(),
            Some(Value::Array(names)) => {
                let names: Vec<&str> = names
                    .iter()
                    .filter_map(Value::as_str)
                    .filter(|name| *name != "null")
                    .collect();
                names.join(" or ")
            }
            _ => {
                let branches = ["anyOf", "oneOf", "allOf"]
                    .iter()
                    .find_map(|keyword| schema.get(*keyword)?.as_array());
                let mut words: Vec<&str> = branches
                    .into_iter()
                    .flatten()
                    .filter_map(|branch| resolve(&self.value, branch).get("type")?.as_str())
                    .filter(|name| *name != "null")
                    .collect();
                words.dedup();
                if words.is_empty() {
                    "any".to_owned()
                } else {
                    words.join(" or ")
                }
            }
        }
    }
}

/// The members of the object that `schema` holds under `keyword`.
pub(crate) fn members<'a>(schema: &'a Value, keyword: &str) -> Option<&'a Map<String, Value>> {
    schema.get(keyword)?.as_object()
}

fn invalid(error: &jsonschema::ValidationError<'_>) -> SchemaError {
    let place = error.instance_path().as_str();
    let place = if place.is_empty() { "/" } else { place };
    SchemaError::Invalid(fermix_types::text::shortened(
        &format!("{error} (at {place})"),
        MAX_REASON_BYTES,
    ))
}
