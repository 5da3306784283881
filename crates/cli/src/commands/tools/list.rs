//! `fermix tools list`.

use crate::args::As;
use crate::output::{self, Exit};
use crate::start::Start;

/// Prints the exact view that the caller would have.
pub fn run(caller: As, as_json: bool, start: &Start) -> Exit {
    let engine = match start.engine(&[]) {
        Ok(engine) => engine,
        Err(error) => return output::failure(as_json, &error),
    };
    let entries = engine.view_of(caller.into(), start.peer());
    if as_json {
        output::json(&entries);
        return Exit::Ok;
    }
    let mut rows = vec![
        ["NAME", "CLASS", "CATEGORY", "WHEN TO USE"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(entries.into_iter().map(|entry| {
        let found_by = if entry.deferred {
            " (found by tool_search)"
        } else {
            ""
        };
        vec![
            entry.name.to_string(),
            entry.policy_class.to_string(),
            entry.category.to_string(),
            format!("{}{found_by}", entry.when_to_use),
        ]
    }));
    output::line(&output::table(&rows));
    Exit::Ok
}
