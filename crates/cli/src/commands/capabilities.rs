//! `fermix capabilities`: everything registered, whoever may call it.

use fermix_daemon::inspect::Row;

use crate::args::CapabilitiesArgs;
use crate::output::{self, Exit};
use crate::start::Start;

/// Prints every entry, hidden and owner-only ones included.
pub fn run(args: &CapabilitiesArgs, start: &Start) -> Exit {
    let engine = match start.engine(&[]) {
        Ok(engine) => engine,
        Err(error) => return output::failure(args.json, &error),
    };
    let entries = engine.everything(args.kind);
    if args.json {
        output::json(&entries);
        return Exit::Ok;
    }
    let mut rows = vec![
        ["NAME", "KIND", "CLASS", "CATEGORY", "FLAGS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(entries.iter().map(|entry| {
        vec![
            entry.name.to_string(),
            entry.kind.to_string(),
            entry.policy_class.to_string(),
            entry.category.to_string(),
            flags(entry).join(" "),
        ]
    }));
    output::line(&output::table(&rows));
    Exit::Ok
}

fn flags(entry: &Row) -> Vec<&'static str> {
    [
        (entry.owner_only, "owner-only"),
        (entry.hidden, "hidden"),
        (entry.deferred, "deferred"),
    ]
    .into_iter()
    .filter_map(|(holds, flag)| holds.then_some(flag))
    .collect()
}
