//! One operation of the policy: carried out, confirmed, printed.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use fermix_api::Request;
use fermix_daemon::LocalPeer;
use fermix_daemon::approvals::policy::{By, Operation, Outcome, State};
use serde_json::json;

use crate::args::{ChangeArgs, LookArgs};
use crate::client::{ClientError, Daemon};
use crate::output::{self, Exit};
use crate::start::Start;

/// The longest answer that is read from a terminal, in bytes.
const MAX_ANSWER: u64 = 256;

/// Carries out an operation. This is the one place that knows who does it: a running daemon, so that
/// a change holds there at once; else this process, on the file of the home. Looks are always this
/// process's, which knows the folder they are made in.
fn apply(operation: &Operation, confirmed: bool, start: &Start) -> Result<Outcome, String> {
    if !operation.is_look()
        && let Some(outcome) = by_daemon(operation, confirmed, start)?
    {
        return Ok(outcome);
    }
    let desk = start.policy_desk()?;
    desk.run_blocking(operation, confirmed, &By::command_line(start.cwd.clone()))
        .map_err(|error| error.to_string())
}

/// What the daemon made of it; nothing when none runs.
fn by_daemon(
    operation: &Operation,
    confirmed: bool,
    start: &Start,
) -> Result<Option<Outcome>, String> {
    let request = Request::Policy {
        operation: serde_json::to_value(operation).map_err(|error| error.to_string())?,
        confirmed,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot talk to the daemon: {error}"))?;
    match runtime.block_on(Daemon::of(&start.home).request(&request)) {
        Ok(mut members) => members
            .remove("outcome")
            .map(serde_json::from_value)
            .transpose()
            .map_err(|error| format!("the daemon's answer is not understood: {error}")),
        Err(ClientError::NotRunning) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// A path as the owner writes it, from the folder they are in.
pub fn absolute(path: &Path, start: &Start) -> PathBuf {
    match &start.cwd {
        Some(cwd) if path.is_relative() && !path.starts_with("~") => cwd.join(path),
        _ => path.to_owned(),
    }
}

/// Looks, and prints what is seen.
pub fn look(operation: &Operation, args: LookArgs, start: &Start) -> Exit {
    match apply(operation, false, start) {
        Ok(outcome) => {
            print_look(&outcome, args);
            Exit::Ok
        }
        Err(error) => output::failure(args.json, &error),
    }
}

/// The same for a decision: exit code 1 says no.
pub fn check(operation: &Operation, args: LookArgs, start: &Start) -> Exit {
    match apply(operation, false, start) {
        Ok(outcome) => {
            print_look(&outcome, args);
            let facts = outcome.facts.unwrap_or_default();
            if facts["decision"] == "allow" {
                Exit::Ok
            } else {
                Exit::Failed
            }
        }
        Err(error) => output::failure(args.json, &error),
    }
}

fn print_look(outcome: &Outcome, args: LookArgs) {
    if args.json {
        output::json(&outcome.facts);
    } else {
        output::line(&outcome.message);
    }
}

/// Changes the policy. What widens it is shown and asked about first, on a terminal; elsewhere
/// `--yes` is the owner's word.
pub fn change(operation: &Operation, args: ChangeArgs, start: &Start) -> Exit {
    if start.peer() == LocalPeer::StartedByFermix {
        return output::failure(
            args.json,
            "the sandbox is not changed from a process that Fermix started; run this command in \
             your own terminal",
        );
    }
    let outcome = match apply(operation, args.yes, start) {
        Ok(outcome) => outcome,
        Err(error) => return output::failure(args.json, &error),
    };
    if outcome.state != State::NeedsConfirmation {
        return print_change(&outcome, args);
    }
    if args.json || !io::stdin().is_terminal() {
        return not_confirmed(&outcome, args);
    }
    for line in &outcome.diff {
        output::notice(line);
    }
    if !asked(&format!("{}. Apply? [y/N] ", outcome.message)) {
        return output::failure(args.json, "nothing was changed");
    }
    match apply(operation, true, start) {
        Ok(outcome) => print_change(&outcome, args),
        Err(error) => output::failure(args.json, &error),
    }
}

fn print_change(outcome: &Outcome, args: ChangeArgs) -> Exit {
    if args.json {
        output::json(&json!({
            "status": "ok",
            "state": outcome.state,
            "diff": outcome.diff,
            "message": outcome.message,
        }));
    } else {
        output::line(&outcome.message);
        for line in &outcome.diff {
            output::line(line);
        }
    }
    Exit::Ok
}

fn not_confirmed(outcome: &Outcome, args: ChangeArgs) -> Exit {
    let error = format!("{}; give --yes to apply it", outcome.message);
    if args.json {
        output::json(&json!({
            "status": "error",
            "error": error,
            "state": outcome.state,
            "diff": outcome.diff,
        }));
        return Exit::Failed;
    }
    for line in &outcome.diff {
        output::notice(line);
    }
    output::failure(false, &error)
}

/// Asks on the terminal. Anything but a clear yes is a no.
fn asked(question: &str) -> bool {
    let mut err = io::stderr().lock();
    let shown = write!(err, "{question}").and_then(|()| err.flush());
    drop(err);
    let mut answer = String::new();
    let read = io::stdin()
        .lock()
        .take(MAX_ANSWER)
        .read_line(&mut answer)
        .is_ok();
    let answer = answer.trim().to_ascii_lowercase();
    shown.is_ok() && read && matches!(answer.as_str(), "y" | "yes")
}
