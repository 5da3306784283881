//! `fermix sandbox run -- COMMAND`: a command in the sandbox, with what decides about it.

use fermix_daemon::inspect::StandIn;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::output::{self, Exit};
use crate::start::Start;

/// Says what decides, then runs the command through the `shell` tool. Exit code 1 when it was
/// refused or failed.
pub fn run(words: &[String], dry_run: bool, start: &Start) -> Exit {
    let engine = match start.engine(&[]) {
        Ok(engine) => engine,
        Err(error) => return output::failure(false, &error),
    };
    let command = match words {
        // One word is a whole command, as the tool takes it.
        [command] => command.clone(),
        words => words
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" "),
    };
    let decision = match engine.decide_command(&command, start.cwd.clone(), start.peer()) {
        Ok(decision) => decision,
        Err(refusal) => {
            output::line("deny");
            return output::failure(false, &refusal);
        }
    };
    let lines = decision.lines();
    if dry_run {
        output::line(&lines.join("\n"));
        return Exit::Ok;
    }
    for line in lines {
        output::notice(&line);
    }
    let runtime = match start.runtime() {
        Ok(runtime) => runtime,
        Err(error) => return output::failure(false, &error),
    };
    let cancel = CancellationToken::new();
    let outcome = runtime.block_on(async {
        let call = engine.call_tool(
            StandIn::Operator,
            start.peer(),
            "shell",
            json!({ "command": command }).to_string(),
            start.cwd.clone(),
            cancel.clone(),
        );
        tokio::pin!(call);
        tokio::select! {
            outcome = &mut call => outcome,
            _ = crate::interrupt::signalled() => {
                cancel.cancel();
                call.await
            }
        }
    });
    output::line(&outcome.text);
    if outcome.is_error {
        Exit::Failed
    } else {
        Exit::Ok
    }
}

/// A word that a shell reads back as itself.
fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "/._-+,@:=%".contains(letter));
    if is_plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
