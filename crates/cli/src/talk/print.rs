//! The end of a turn on the screen, or as JSON.

use fermix_api::Done;
use serde_json::{Value, json};

use super::Ended;
use crate::output::{self, Exit};

/// What of a turn's report is printed.
const REPORTED: &[&str] = &[
    "turn_id",
    "trace_session",
    "provider",
    "model",
    "iterations",
    "tool_calls",
    "tool_failures",
    "tokens",
];

/// Prints how a turn ended.
pub fn ended(ended: Ended, session: &str, as_json: bool) -> Exit {
    match ended {
        Ended::Done(done, shown) => print(&done, session, as_json, &shown),
        Ended::Stopped(signal) => output::stopped(as_json, signal),
        Ended::TimedOut => output::failure(as_json, "timeout"),
        Ended::Failed(words) => output::failure(as_json, &words),
    }
}

/// Prints the answer; `shown` is what the preview has already put on the terminal of it.
fn print(done: &Done, session: &str, as_json: bool, shown: &str) -> Exit {
    let is_answer = done.status == "ok";
    let text = if is_answer {
        &done.response
    } else {
        &done.error
    };
    let text = text.as_deref().unwrap_or_default();
    if as_json {
        let mut value = json!({ "status": done.status, "session_id": session });
        for name in REPORTED {
            if let Some(member) = done.report.get(*name) {
                value[*name] = member.clone();
            }
        }
        value[if is_answer { "response" } else { "error" }] = json!(text);
        if let Some(note) = &done.note {
            value["note"] = Value::from(note.as_str());
        }
        output::json(&value);
    } else if is_answer {
        match text.strip_prefix(shown) {
            Some(rest) if !shown.is_empty() => output::line(rest),
            // What was previewed is not what was decided on: the whole answer follows it.
            _ if !shown.is_empty() => output::line(&format!("\n{text}")),
            _ => output::line(text),
        }
        if let Some(note) = &done.note {
            output::notice(note);
        }
    } else {
        if !shown.is_empty() {
            output::line("");
        }
        output::notice(text);
    }
    if is_answer { Exit::Ok } else { Exit::Failed }
}
