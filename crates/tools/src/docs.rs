//! The reference of every tool, written from the capabilities themselves.

use std::fmt::Write as _;
use std::sync::Arc;

use fermix_capability::{Capability, Gate};
use serde_json::Value;

/// The page `docs/tools.md` for these capabilities, in the order they are given.
pub fn render_markdown(capabilities: &[Arc<Capability>]) -> String {
    let mut page = String::from(
        "# Tools\n\nWritten by `cargo xtask docgen` from the tools themselves; do not edit by hand.\n\n\
         | tool | class | category | owner only | gate |\n|---|---|---|---|---|\n",
    );
    for capability in capabilities {
        let name = capability.name();
        line(
            &mut page,
            format_args!(
                "| [`{name}`](#{name}) | `{}` | {} | {} | {} |",
                capability.class(),
                capability.category(),
                if capability.is_owner_only() {
                    "yes"
                } else {
                    "no"
                },
                gate_words(capability.gate()),
            ),
        );
    }
    for capability in capabilities {
        section(&mut page, capability);
    }
    page
}

fn section(page: &mut String, capability: &Capability) {
    let metadata = capability.metadata();
    line(page, format_args!("\n## {}\n", capability.name()));
    line(page, format_args!("{}\n", capability.description()));
    if let Some(when) = &metadata.when_to_use {
        line(page, format_args!("When to use: {when}\n"));
    }
    if let Some(setup) = &metadata.requires_setup {
        line(page, format_args!("Needs setup: {setup}\n"));
    }
    line(
        page,
        format_args!(
            "Class `{}`, category {}, {}, gate: {}.",
            capability.class(),
            capability.category(),
            if capability.is_owner_only() {
                "owner only"
            } else {
                "not owner only"
            },
            gate_words(capability.gate()),
        ),
    );
    parameters(page, capability.schema().value());
    if !metadata.examples.is_empty() {
        line(page, format_args!("\nExamples:\n"));
        for example in &metadata.examples {
            line(page, format_args!("- `{}`: {}", example.args, example.note));
        }
    }
    if !metadata.failure_modes.is_empty() {
        line(page, format_args!("\nFailures:\n"));
        for failure in &metadata.failure_modes {
            line(
                page,
                format_args!("- `{}`: {}", failure.tag, failure.description),
            );
        }
    }
}

fn parameters(page: &mut String, schema: &Value) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    if properties.is_empty() {
        line(page, format_args!("\nNo parameters."));
        return;
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    line(
        page,
        format_args!("\n| parameter | type | required | meaning |\n|---|---|---|---|"),
    );
    for (name, property) in properties {
        let meaning = property
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        line(
            page,
            format_args!(
                "| `{name}` | {} | {} | {} |",
                cell(&type_words(property)),
                if required.contains(&name.as_str()) {
                    "yes"
                } else {
                    "no"
                },
                cell(meaning),
            ),
        );
    }
}

/// The type as a reader says it: `string`, `integer, 1 to 20`, `a or b`.
fn type_words(property: &Value) -> String {
    if let Some(choices) = property.get("enum").and_then(Value::as_array) {
        let choices: Vec<String> = choices
            .iter()
            .filter(|choice| !choice.is_null())
            .map(|choice| {
                format!(
                    "`{}`",
                    choice
                        .as_str()
                        .map_or_else(|| choice.to_string(), str::to_owned)
                )
            })
            .collect();
        return choices.join(", ");
    }
    let name = match property.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .filter(|name| *name != "null")
            .collect::<Vec<_>>()
            .join(" or "),
        _ => "any".to_owned(),
    };
    let name = match property.get("items") {
        Some(items) => format!("{name} of {}", type_words(items)),
        None => name,
    };
    let bound = |key: &str| property.get(key).filter(|bound| bound.is_number());
    match (bound("minimum"), bound("maximum")) {
        (Some(low), Some(high)) => format!("{name}, {low} to {high}"),
        (Some(low), None) => format!("{name}, at least {low}"),
        (None, Some(high)) => format!("{name}, at most {high}"),
        (None, None) => name,
    }
}

/// Who passes the gate, in the words of the user's documentation.
fn gate_words(gate: Gate) -> &'static str {
    match gate {
        Gate::Open => "none",
        Gate::AttendedOwner => "attended owner turn",
        Gate::OwnerRead => "attended owner turn, or a job the owner created",
        Gate::Harness => {
            "live owner turn that can carry a late outcome, or a job that names the tool"
        }
        Gate::JobMutation => "not from a job, unless the job names the tool",
        Gate::DirectoryAccess => "attended owner turn with a way to confirm",
        Gate::TopLevel => "not from a worker",
        Gate::LiveReply => "a live chat to answer in",
        Gate::Desktop => "attended owner turn",
    }
}

/// Text inside a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("writing to a string does not fail");
}
