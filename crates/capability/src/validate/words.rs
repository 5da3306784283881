//! A validator's finding in words for the model: where, what is expected, what came.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use super::coerce::Unknown;
use super::{shown_name, type_name};
use crate::schema::Author;

/// How long one value in a message may get, in bytes.
const MAX_VALUE_BYTES: usize = 60;
/// How many accepted values are listed.
const MAX_VALUES: usize = 20;
/// How deep alternatives inside alternatives are explained.
const MAX_DEPTH: usize = 4;

/// Adds what `error` says to `lines`.
pub(super) fn describe(
    error: &ValidationError<'_>,
    author: Author,
    unknown: &[Unknown],
    lines: &mut Vec<String>,
) {
    add(error, author, unknown, lines, MAX_DEPTH);
}

fn add(
    error: &ValidationError<'_>,
    author: Author,
    unknown: &[Unknown],
    lines: &mut Vec<String>,
    depth: usize,
) {
    let pointer = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = shown_name(property.as_str().unwrap_or_default(), author);
            let place = if pointer.is_empty() {
                String::new()
            } else {
                format!(" in {pointer}")
            };
            lines.push(format!("Missing required parameter: {name}{place}"));
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            // The walk along the schema has better words for the same finding.
            if unknown.iter().all(|found| found.holder != pointer) {
                let names: Vec<String> = unexpected
                    .iter()
                    .take(MAX_VALUES)
                    .map(|name| format!("`{}`", fermix_types::text::shortened(name, 80)))
                    .collect();
                let place = if pointer.is_empty() { "here" } else { pointer };
                lines.push(format!("unknown parameter {} in {place}", names.join(", ")));
            }
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            // A form of another type, or with another tag, is not the one that was meant.
            let meant: Vec<_> = context
                .iter()
                .filter(|branch| !branch.iter().any(|inner| is_other_form(inner, pointer)))
                .collect();
            match meant.as_slice() {
                [branch] if depth > 0 => {
                    for inner in branch.iter() {
                        add(inner, author, unknown, lines, depth - 1);
                    }
                }
                _ => {
                    let expected = expected_of(context, author, pointer);
                    lines.push(line(error, &expected));
                }
            }
        }
        kind => lines.push(line(error, &expectation(kind, author))),
    }
}

/// Whether a finding says that its whole form is a different one.
fn is_other_form(error: &ValidationError<'_>, pointer: &str) -> bool {
    match error.kind() {
        ValidationErrorKind::Type { .. } => error.instance_path().as_str() == pointer,
        ValidationErrorKind::Constant { .. } => true,
        _ => false,
    }
}

fn expected_of(context: &[Vec<ValidationError<'static>>], author: Author, pointer: &str) -> String {
    let mut expected: Vec<String> = Vec::new();
    for error in context.iter().flatten() {
        let here = error.instance_path().as_str() == pointer;
        let says_much = matches!(
            error.kind(),
            ValidationErrorKind::Type { .. }
                | ValidationErrorKind::Enum { .. }
                | ValidationErrorKind::Constant { .. }
        );
        if here && says_much {
            let words = expectation(error.kind(), author);
            if words != "null" && !expected.contains(&words) {
                expected.push(words);
            }
        }
    }
    expected.truncate(MAX_VALUES);
    if expected.is_empty() {
        format!("one of the {} forms in the schema", context.len())
    } else {
        expected.join(" or ")
    }
}

fn line(error: &ValidationError<'_>, expected: &str) -> String {
    let pointer = error.instance_path().as_str();
    let place = if pointer.is_empty() {
        "arguments"
    } else {
        pointer
    };
    let place = fermix_types::text::shortened(place, 200);
    let instance = error.instance();
    let received = type_name(instance);
    match instance.as_ref() {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => format!(
            "{place}: expected {expected}, received {received} {}",
            fermix_types::text::shortened(&instance.to_string(), MAX_VALUE_BYTES)
        ),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            format!("{place}: expected {expected}, received {received}")
        }
    }
}

fn expectation(kind: &ValidationErrorKind, author: Author) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::Type { kind } => match kind {
            TypeKind::Single(name) => name.to_string(),
            TypeKind::Multiple(names) => {
                let names: Vec<String> = names
                    .iter()
                    .map(|name| name.to_string())
                    .filter(|name| name != "null")
                    .collect();
                names.join(" or ")
            }
        },
        Kind::Enum { options } => match (author, options.as_array()) {
            (Author::Ourselves, Some(options)) => {
                let options: Vec<String> = options
                    .iter()
                    .take(MAX_VALUES)
                    .map(Value::to_string)
                    .collect();
                format!("one of {}", options.join(", "))
            }
            _ => "one of the values in the schema".to_owned(),
        },
        Kind::Constant { expected_value } => match author {
            Author::Ourselves => expected_value.to_string(),
            Author::ThirdParty => "the value in the schema".to_owned(),
        },
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {limit} characters"),
        Kind::MaxLength { limit } => format!("at most {limit} characters"),
        Kind::MinItems { limit } => format!("at least {limit} entries"),
        Kind::MaxItems { limit } => format!("at most {limit} entries"),
        Kind::MinProperties { limit } => format!("at least {limit} members"),
        Kind::MaxProperties { limit } => format!("at most {limit} members"),
        Kind::UniqueItems => "entries that differ from each other".to_owned(),
        Kind::Pattern { pattern } => match author {
            Author::Ourselves => format!("text that matches {pattern}"),
            Author::ThirdParty => "text that matches the pattern in the schema".to_owned(),
        },
        Kind::Format { format } => match author {
            Author::Ourselves => format!("text of the format {format}"),
            Author::ThirdParty => "text of the format in the schema".to_owned(),
        },
        Kind::OneOfMultipleValid { .. } => "exactly one of the forms in the schema".to_owned(),
        other => format!("what the schema says under `{}`", other.keyword()),
    }
}
