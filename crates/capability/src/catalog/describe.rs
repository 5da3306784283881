//! One capability in prose and as its complete schema.

use std::fmt::Write as _;

use serde_json::Value;

use crate::capability::Capability;
use crate::untrusted::{FrameId, frame};

/// The tag that says whether a plugin can be used as it is.
const READINESS: &str = "readiness";

pub(super) fn text(capability: &Capability, id: &FrameId) -> String {
    let name = capability.name().as_str();
    let mut text = format!(
        "# {name}\n\nClass: {}\nCategory: {}",
        capability.class(),
        capability.category()
    );
    if let Some(provider) = capability.provider() {
        add(&mut text, format_args!("\nProvided by: {provider}"));
    }
    if let Some(readiness) = capability.metadata().tag(READINESS) {
        add(&mut text, format_args!("\nReadiness: {readiness}"));
    }
    let body = body(capability);
    text.push_str("\n\n");
    if capability.is_third_party() {
        text.push_str(&frame(name, &body, id));
    } else {
        text.push_str(&body);
    }
    text
}

fn body(capability: &Capability) -> String {
    let metadata = capability.metadata();
    let schema = capability.schema();
    let mut text = capability.description().trim().to_owned();
    if let Some(when) = &metadata.when_to_use {
        add(&mut text, format_args!("\n\nWhen to use: {when}"));
    }
    if let Some(setup) = &metadata.requires_setup {
        add(&mut text, format_args!("\n\nNeeds setup: {setup}"));
    }

    text.push_str("\n\n## Parameters\n");
    let required: Vec<&str> = schema.required().collect();
    let mut any = false;
    for (name, parameter) in schema.properties() {
        any = true;
        let presence = if required.contains(&name) {
            "required"
        } else {
            "optional"
        };
        add(
            &mut text,
            format_args!(
                "\n- `{name}` ({}, {presence})",
                schema.type_words(parameter)
            ),
        );
        if let Some(words) = parameter.get("description").and_then(Value::as_str) {
            add(
                &mut text,
                format_args!(": {}", words.trim().replace('\n', " ")),
            );
        }
    }
    if !any {
        text.push_str("\nNone.");
    }

    if !metadata.examples.is_empty() {
        text.push_str("\n\n## Examples\n");
        for example in &metadata.examples {
            add(
                &mut text,
                format_args!(
                    "\n- {}: `{}`",
                    example.note.trim_end_matches('.'),
                    example.args
                ),
            );
        }
    }
    if !metadata.failure_modes.is_empty() {
        text.push_str("\n\n## Failures\n");
        for failure in &metadata.failure_modes {
            add(
                &mut text,
                format_args!("\n- `{}`: {}", failure.tag, failure.description),
            );
        }
    }
    add(
        &mut text,
        format_args!(
            "\n\n## Schema\n\n```json\n{}\n```",
            schema.wire_text().get()
        ),
    );
    text
}

fn add(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(words);
}
