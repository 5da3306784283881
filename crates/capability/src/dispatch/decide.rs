//! What becomes of a call, decided before anything runs.

use std::sync::Arc;

use serde_json::Value;

use super::signature::canonical_signature;
use super::{Plan, Prepared, Refused, outcome};
use crate::call::TurnScope;
use crate::capability::Capability;
use crate::schema::Author;
use crate::untrusted::{OutsideSource, frame};
use crate::validate::{self, ArgumentError, MAX_REPEATED_SCHEMA};

/// The steps in their order: list of names, view, gate, bridge, argument text, schema.
pub(super) fn decide(
    turn: &TurnScope,
    prepared: &mut Prepared,
    name: &str,
    arguments: &str,
    correction: Option<String>,
) -> Result<Plan, Refused> {
    let refused = |text: String, outcome| Refused {
        text,
        outcome,
        gate: None,
        outside: None,
    };
    let with_schema = |words: String, capability: &Arc<Capability>, outcome| Refused {
        text: with_schema(words, capability, turn),
        outcome,
        gate: None,
        outside: OutsideSource::describing(capability),
    };
    let shown = &prepared.name;
    // Asked first, so that the answer tells nothing about what exists.
    if turn.view.is_outside_allowlist(name) {
        return Err(refused(
            format!("Error: Tool '{shown}' not available"),
            outcome::NOT_AVAILABLE,
        ));
    }
    let Some(capability) = turn.view.find(name) else {
        // The same words for "hidden from you" and "does not exist".
        return Err(refused(
            format!("Error: Tool '{shown}' not found"),
            outcome::NOT_FOUND,
        ));
    };
    prepared.capability = Some(Arc::clone(capability));
    if let Err(refusal) = capability
        .gate()
        .permit(capability.name(), turn.view.caller())
    {
        return Err(Refused {
            gate: Some(capability.gate()),
            ..refused(format!("Error: {refusal}"), outcome::REFUSED)
        });
    }
    if let Some(correction) = correction {
        return Err(refused(
            format!("Error: {correction}"),
            outcome::MALFORMED_BRIDGE,
        ));
    }
    let object = validate::read(capability, arguments)
        .map_err(|error| with_schema(error.to_string(), capability, outcome::INVALID_JSON))?;
    prepared.signature = canonical_signature(&prepared.name, &object);
    let checked = validate::check(capability.schema(), object).map_err(|error| {
        let words = format!("Error: {error}");
        match &error {
            ArgumentError::Mistakes(_) if capability.is_deferrable() => {
                with_schema(words, capability, outcome::INVALID_ARGUMENTS)
            }
            _ => refused(words, outcome::INVALID_ARGUMENTS),
        }
    })?;
    prepared.signature = canonical_signature(&prepared.name, &checked);
    prepared.touched_path = checked
        .get("path")
        .and_then(Value::as_str)
        .map(str::to_owned);
    Ok(Plan::Run(Arc::clone(capability), checked))
}

/// `words` and what the arguments should look like. A schema from outside stands in a frame.
fn with_schema(words: String, capability: &Capability, turn: &TurnScope) -> String {
    let name = capability.name().as_str();
    let schema = capability.schema();
    let text = schema.wire_text().get();
    let shown = if text.len() <= MAX_REPEATED_SCHEMA {
        text.to_owned()
    } else {
        schema.signature(name)
    };
    let shown = match schema.author() {
        Author::Ourselves => shown,
        Author::ThirdParty => frame(name, &shown, &turn.frame),
    };
    format!("{words}\nParameters of {name}: {shown}")
}
