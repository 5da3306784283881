//! `fermix sandbox approved` and `fermix sandbox forget`: commands the owner has said "always" to.

use fermix_daemon::LocalPeer;
use fermix_daemon::approvals::commands::ApprovedCommands;
use serde_json::json;

use crate::args::LookArgs;
use crate::output::{self, Exit};
use crate::start::Start;

/// How much of a digest is shown, in characters: enough to tell entries apart.
const SHOWN_DIGEST: usize = 12;

/// Prints them.
pub fn list(args: LookArgs, start: &Start) -> Exit {
    let list = match ApprovedCommands::in_home(start.home.root()).list() {
        Ok(list) => list,
        Err(error) => return output::failure(args.json, &error.to_string()),
    };
    if args.json {
        output::json(&list);
    } else if list.is_empty() {
        output::line("no command is approved for good");
    } else {
        let mut rows = vec![
            ["ID", "TOOL", "FOLDER", "COMMAND"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(list.iter().map(|entry| {
            vec![
                entry.digest.chars().take(SHOWN_DIGEST).collect(),
                entry.tool.clone(),
                entry.folder.clone(),
                entry.command.replace('\n', "⏎"),
            ]
        }));
        output::line(&output::table(&rows));
    }
    Exit::Ok
}

/// Takes one away, so that it is asked about again. Any beginning that fits one entry names it.
pub fn forget(id: &str, as_json: bool, start: &Start) -> Exit {
    if start.peer() == LocalPeer::StartedByFermix {
        return output::failure(
            as_json,
            "approvals are the owner's, and this process was started by Fermix; run this command in \
             your own terminal",
        );
    }
    let approved = ApprovedCommands::in_home(start.home.root());
    let outcome = approved.list().and_then(|list| {
        let fitting: Vec<_> = list
            .iter()
            .filter(|entry| !id.is_empty() && entry.digest.starts_with(id))
            .collect();
        match fitting.as_slice() {
            [entry] => approved.remove(&entry.digest),
            _ => Ok(false),
        }
    });
    match outcome {
        Ok(true) if as_json => output::json(&json!({ "status": "ok" })),
        Ok(true) => output::line("it is asked about again from now on"),
        Ok(false) => {
            return output::failure(
                as_json,
                &format!("`{id}` names no one approved command; see `fermix sandbox approved`"),
            );
        }
        Err(error) => return output::failure(as_json, &error.to_string()),
    }
    Exit::Ok
}
