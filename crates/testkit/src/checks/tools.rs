//! The tool list: names, the wire's form, and schemas that stand on their own.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Finding, Rule};
use crate::request::{Seen, Wire, list};

/// The longest name every wire accepts, in characters.
const MAX_NAME: usize = 64;

pub(super) fn check(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut names = BTreeSet::new();
    for (index, tool) in list(&seen.body["tools"]).iter().enumerate() {
        form(seen.wire, index, tool, &mut findings);
    }
    for (index, tool) in seen.tools.iter().enumerate() {
        if !is_legal(&tool.name) {
            findings.push((
                Rule::ToolNames,
                format!("tools[{index}]: {:?} is no legal tool name", tool.name),
            ));
        }
        if !names.insert(&tool.name) {
            findings.push((
                Rule::ToolNames,
                format!("tools[{index}]: {} comes twice", tool.name),
            ));
        }
        for problem in schema(&tool.schema) {
            findings.push((Rule::Schemas, format!("{}: {problem}", tool.name)));
        }
    }
    findings
}

fn is_legal(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Which members a tool has on each wire.
fn form(wire: Wire, index: usize, tool: &Value, findings: &mut Vec<Finding>) {
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            findings.push((Rule::ToolNames, format!("tools[{index}]: {what}")));
        }
    };
    match wire {
        Wire::Responses => {
            expect(tool["type"] == "function", "`type` is not \"function\"");
            expect(tool["strict"] == false, "`strict` is not false");
            expect(
                tool.get("function").is_none(),
                "the Responses wire nests nothing in `function`",
            );
        }
        Wire::Chat => {
            expect(tool["type"] == "function", "`type` is not \"function\"");
            expect(tool["function"].is_object(), "`function` is missing");
        }
        Wire::Messages => {
            expect(
                tool["input_schema"].is_object(),
                "`input_schema` is missing",
            );
            expect(
                tool.get("parameters").is_none(),
                "`parameters` belongs to other wires",
            );
        }
    }
}

/// What is wrong with the schema of a tool's arguments.
fn schema(schema: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if schema["type"] != "object" {
        problems.push("the root is not `type: \"object\"`".to_owned());
    }
    for name in ["oneOf", "anyOf", "allOf"] {
        if schema.get(name).is_some() {
            problems.push(format!("the root has `{name}`, which providers refuse"));
        }
    }
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        problems.push(format!(
            "no valid 2020-12 schema at {}: {error}",
            error.instance_path()
        ));
    }
    references(schema, schema, &mut problems);
    problems
}

/// Reports every `$ref` under `part` that does not resolve inside `root`.
fn references(root: &Value, part: &Value, problems: &mut Vec<String>) {
    match part {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(target)) => {
                        if !resolves(root, target) {
                            problems.push(format!("`$ref` {target:?} points at nothing inside"));
                        }
                    }
                    // These hold data, in which `$ref` is an ordinary name.
                    ("const" | "enum" | "default" | "examples", _) => {}
                    _ => references(root, value, problems),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                references(root, item, problems);
            }
        }
        _ => {}
    }
}

fn resolves(root: &Value, target: &str) -> bool {
    let Some(fragment) = target.strip_prefix('#') else {
        return false;
    };
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(&percent_decoded(fragment)).is_some();
    }
    has_anchor(root, fragment)
}

fn has_anchor(part: &Value, anchor: &str) -> bool {
    match part {
        Value::Object(members) => {
            members.get("$anchor").is_some_and(|name| name == anchor)
                || members
                    .get("$dynamicAnchor")
                    .is_some_and(|name| name == anchor)
                || members.values().any(|value| has_anchor(value, anchor))
        }
        Value::Array(items) => items.iter().any(|item| has_anchor(item, anchor)),
        _ => false,
    }
}

/// A URI fragment with its `%XX` read; anything else stays as it is.
fn percent_decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = (byte == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
