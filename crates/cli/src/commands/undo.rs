//! `fermix undo`: takes back what a tool changed.

use fermix_daemon::LocalPeer;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::args::UndoArgs;
use crate::output::{self, Exit};
use crate::start::Start;

/// The most changes that are listed.
const MAX_LISTED: u32 = 50;

/// Lists changes, or undoes one.
pub fn run(args: &UndoArgs, start: &Start) -> Exit {
    match undo(args, start) {
        Ok(()) => Exit::Ok,
        Err(error) => output::failure(args.json, &error),
    }
}

fn undo(args: &UndoArgs, start: &Start) -> Result<(), String> {
    if start.peer() == LocalPeer::StartedByFermix {
        return Err(
            "undoing is the owner's, and this process was started by Fermix; run it in your own terminal"
                .to_owned(),
        );
    }
    let engine = start.engine(&[])?;
    let runtime = start.runtime()?;
    if args.list {
        let changes = runtime
            .block_on(engine.changes(None, MAX_LISTED))
            .map_err(|error| error.to_string())?;
        if args.json {
            output::json(&changes);
        } else if changes.is_empty() {
            output::line("no tool has changed anything yet");
        } else {
            let mut rows = vec![
                ["ID", "WHEN", "TOOL", "STATE", "PATH"]
                    .map(str::to_owned)
                    .to_vec(),
            ];
            rows.extend(changes.iter().map(|change| {
                vec![
                    change.id.0.to_string(),
                    when(change.at.0),
                    change.tool.clone(),
                    state(change.is_undone, change.existed).to_owned(),
                    change.path.display().to_string(),
                ]
            }));
            output::line(&output::table(&rows));
        }
        return Ok(());
    }
    let undone = runtime
        .block_on(engine.undo(args.id, None))
        .map_err(|error| error.to_string())?;
    if args.json {
        output::json(
            &json!({ "status": "ok", "message": undone.message, "change": undone.change }),
        );
    } else {
        output::line(&undone.message);
    }
    Ok(())
}

fn state(is_undone: bool, existed: bool) -> &'static str {
    match (is_undone, existed) {
        (true, _) => "undone",
        (false, true) => "changed",
        (false, false) => "created",
    }
}

/// The owner's local time, to the second.
fn when(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map_or_else(
        |_| "?".to_owned(),
        |at| {
            at.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M:%S")
                .to_string()
        },
    )
}
