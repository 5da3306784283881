//! What a run of Git left behind, as an answer.

use fermix_sandbox::{CommandOutcome, Ending};
use fermix_types::text::{prefix, suffix, to_valid_utf8};
use fermix_types::{ToolError, ToolOutput, ToolResult};

use super::session::TIMEOUT;

/// Room for everything in an answer that is not Git's output, in bytes.
const ANSWER_RESERVE: usize = 8 * 1024;
/// Room for the runner's own words about what it left out, in bytes.
const MARKER_ROOM: usize = 256;

/// How much of Git's output is kept when the model is shown at most `max_output` bytes.
pub(super) fn output_cap(max_output: usize) -> usize {
    max_output.saturating_sub(ANSWER_RESERVE)
}

/// Git's output as text of at most `cap` bytes, and whether it ended by itself with an exit code
/// below `limit`.
pub(super) fn answer(command: &str, outcome: CommandOutcome, cap: usize, limit: i32) -> ToolResult {
    let mut notes = Vec::new();
    let (text, has_grown) = without_middle(to_valid_utf8(outcome.stdout), cap);
    if has_grown || outcome.truncated {
        notes.push(
            "the middle of the output is left out; narrow the question, for example with -n or a path"
                .to_owned(),
        );
    }
    if !outcome.is_clean {
        notes.push(
            "not every process git started is proven to be gone; look at the process list"
                .to_owned(),
        );
    }
    let failed = |tag, headline: String| {
        let message = match text.trim_end() {
            "" => headline,
            text => format!("{headline}\n{text}"),
        };
        Err(ToolError {
            notes: notes.clone(),
            ..ToolError::new(tag, message)
        })
    };
    match outcome.ending {
        Ending::TimedOut => failed(
            "timeout",
            format!("git {command} timed out after {}s", TIMEOUT.as_secs()),
        ),
        Ending::OutputLimit => failed(
            "output_limit",
            format!("git {command} printed more than 256 MiB and was ended; narrow the question"),
        ),
        Ending::Cancelled => failed("cancelled", format!("git {command} was stopped")),
        Ending::Exited if outcome.exit >= limit => failed(
            "git_failed",
            format!("git {command} failed (exit {}):", outcome.exit),
        ),
        Ending::Exited => {
            if outcome.exit != 0 {
                notes.push(format!(
                    "git {command} ended with exit code {}",
                    outcome.exit
                ));
            }
            Ok(ToolOutput {
                notes,
                ..text.into()
            })
        }
    }
}

/// The start and the end of `text` when it has more than `cap` bytes: three quarters and one, as the
/// runner keeps them. Bytes that are no text take three each once they are one.
fn without_middle(text: String, cap: usize) -> (String, bool) {
    if text.len() <= cap + MARKER_ROOM {
        return (text, false);
    }
    let end = suffix(&text, cap / 4);
    let start = prefix(&text, cap - cap / 4);
    let omitted = text.len() - start.len() - end.len();
    (
        format!("{start}\n[… {omitted} bytes omitted …]\n{end}"),
        true,
    )
}
