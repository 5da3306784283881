//! From the model's argument text to an argument object the tool can rely on (spec/01 §1.7).
//!
//! Anything doubtful is refused with words the model can act on; nothing is guessed. The few
//! leniencies stand in `coerce`: `null` for absent, `"5"` or `5.0` for an integer, and a nested
//! object or list that arrives as JSON text.

mod coerce;
mod json;
mod words;

use serde_json::{Map, Value};

use crate::capability::{Arguments, Capability};
use crate::schema::{Author, PreparedSchema, SchemaError};

pub use json::parse_strict;

/// The longest argument text that is read, in bytes. Whole files are written through it.
pub const MAX_ARGUMENT_BYTES: usize = 16 * 1024 * 1024;
/// How many mistakes are spelled out at once.
const MAX_MISTAKES: usize = 8;
/// The largest schema that is repeated in an error, in bytes.
pub(crate) const MAX_REPEATED_SCHEMA: usize = 8 * 1024;

/// Why arguments are refused. Nothing ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// The text is not one JSON object: unparseable, merged, or something else than an object.
    #[error("Invalid JSON arguments: {0}")]
    NotAnObject(String),
    /// The object does not fit the schema; one line for each mistake.
    #[error("{}", .0.join("\n"))]
    Mistakes(Vec<String>),
    /// The check itself could not run, which refuses the call.
    #[error("the parameters of this tool cannot be checked: {0}")]
    Unchecked(SchemaError),
}

/// Reads argument text as one JSON object. Whether the object fits is [`check`]'s question.
pub fn read(capability: &Capability, text: &str) -> Result<Map<String, Value>, ArgumentError> {
    if text.len() > MAX_ARGUMENT_BYTES {
        return Err(ArgumentError::NotAnObject(format!(
            "{} bytes are more than the {MAX_ARGUMENT_BYTES} that are read; send less in one call",
            text.len()
        )));
    }
    // Some providers send nothing at all for a tool without parameters. For any other tool an
    // empty text is a call whose arguments were lost.
    if text.trim().is_empty() && capability.schema().takes_nothing() {
        return Ok(Map::new());
    }
    read_object(text)
}

/// Reads `text` as one JSON object without doubled keys.
pub(crate) fn read_object(text: &str) -> Result<Map<String, Value>, ArgumentError> {
    match parse_strict(text).map_err(ArgumentError::NotAnObject)? {
        Value::Object(object) => Ok(object),
        other => Err(ArgumentError::NotAnObject(format!(
            "expected one object, received {}",
            type_name(&other)
        ))),
    }
}

/// Coerces `arguments` where the schema allows it and checks the result against the schema.
pub fn check(schema: &PreparedSchema, arguments: Arguments) -> Result<Arguments, ArgumentError> {
    let validator = schema.compiled().map_err(ArgumentError::Unchecked)?;
    let mut value = Value::Object(arguments);
    let unknown = coerce::apply(schema, &mut value);

    let author = schema.author();
    let mut mistakes = Vec::new();
    for error in validator.iter_errors(&value) {
        words::describe(&error, author, &unknown, &mut mistakes);
    }
    mistakes.extend(unknown.into_iter().map(|found| found.line));
    mistakes.dedup();
    if mistakes.is_empty() {
        let Value::Object(arguments) = value else {
            return Err(ArgumentError::NotAnObject("expected one object".to_owned()));
        };
        return Ok(arguments);
    }
    let more = mistakes.len().saturating_sub(MAX_MISTAKES);
    mistakes.truncate(MAX_MISTAKES);
    if more > 0 {
        mistakes.push(format!("and {more} more"));
    }
    Err(ArgumentError::Mistakes(mistakes))
}

/// What JSON calls the type of `value`; whole numbers are integers.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A name from a schema as it may stand in our own sentences. Names are third-party text too, so
/// one that could carry a sentence of its own is not repeated outside a frame.
pub(crate) fn shown_name(name: &str, author: Author) -> &str {
    let plain = name.len() <= 64
        && name
            .chars()
            .all(|character| character.is_alphanumeric() || "_-.$@:/".contains(character));
    if author == Author::Ourselves || plain {
        name
    } else {
        "(see the schema)"
    }
}
