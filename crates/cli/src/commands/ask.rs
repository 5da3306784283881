//! `fermix ask`: one turn of the owner.

mod attach;
mod preview;

use std::io::{IsTerminal as _, Read as _};
use std::time::{Duration, Instant};

use fermix_daemon::engine::random_hex;
use fermix_daemon::{Answer, Engine, LocalPeer, Question, TurnReport, TurnStatus, locks};
use fermix_types::ConversationKey;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::args::AskArgs;
use crate::output::{self, Exit};
use crate::start::Start;

/// The longest message read from standard input, in bytes; the agent takes no longer one.
const MAX_STDIN: u64 = 256 * 1024;
/// How long to wait for another process that works on the same conversation.
const CONVERSATION_WAIT: Duration = Duration::from_secs(600);
/// Events that wait for the terminal.
const EVENT_QUEUE: usize = 256;

/// Asks, and prints the answer.
pub fn run(args: AskArgs, start: &Start) -> Exit {
    let as_json = args.json;
    let text = match message(&args) {
        Ok(text) => text,
        Err(error) => {
            return output::usage(as_json, &error);
        }
    };
    if text.trim().is_empty() && args.attach.is_empty() {
        return output::usage(
            as_json,
            "there is no message; give one, pipe one in with --stdin, or attach an image",
        );
    }
    match ask(text, args, start) {
        Ok(exit) => exit,
        Err(error) => output::failure(as_json, &start.redactor.redact(&error)),
    }
}

fn ask(text: String, args: AskArgs, start: &Start) -> Result<Exit, String> {
    let images = attach::read_all(&args.attach)?;
    let peer = start.peer();
    if peer == LocalPeer::StartedByFermix && !args.root.is_empty() {
        return Err(
            "--root is the owner's to give, and this process was started by Fermix; \
                    ask in your own terminal"
                .to_owned(),
        );
    }
    let engine = start.engine(&args.root)?;
    if let Some(elsewhere) = engine.working_elsewhere(start.cwd.as_deref(), peer) {
        output::notice(&elsewhere);
    }
    let timeout = args.timeout.map(Duration::from_millis);
    let session = args
        .session
        .unwrap_or_else(|| format!("s-{}", random_hex()));
    let conversation = ConversationKey::root("cli", &session);
    let _home = locks::share_home(&start.home).map_err(|error| error.to_string())?;
    // A question that Fermix itself asks must not wait for the very turn that asked it.
    let wait = match peer {
        LocalPeer::InPerson => timeout.unwrap_or(CONVERSATION_WAIT),
        LocalPeer::StartedByFermix => Duration::ZERO,
    };
    let _conversation = locks::take_conversation(&start.home, &conversation, Instant::now() + wait)
        .map_err(|error| error.to_string())?;
    let question = Question {
        conversation,
        peer,
        text,
        images,
        cwd: start.cwd.clone(),
        timeout,
    };
    let runtime = start.runtime()?;
    let (answer, shown) = runtime.block_on(answer(&engine, question, args.json));
    let answer = answer?;
    Ok(match answer {
        Answer::Interrupted => {
            output::failure(args.json, "stopped");
            Exit::Failed
        }
        Answer::Report(report) => print(&report, &session, args.json, &shown),
    })
}

/// Runs the turn with its preview, and stops it when the person presses Ctrl-C.
async fn answer(
    engine: &Engine,
    question: Question,
    as_json: bool,
) -> (Result<Answer, String>, String) {
    let interrupt = CancellationToken::new();
    let stopper = tokio::spawn({
        let interrupt = interrupt.clone();
        async move {
            if crate::interrupt::signalled().await.is_ok() {
                interrupt.cancel();
            }
        }
    });
    let (events, receiver) = tokio::sync::mpsc::channel(EVENT_QUEUE);
    let preview = (!as_json).then(|| tokio::spawn(preview::show(receiver)));
    let events = preview.is_some().then_some(events);
    let answer = engine
        .ask(question, events, interrupt)
        .await
        .map_err(|error| error.to_string());
    stopper.abort();
    let shown = match preview {
        Some(task) => task.await.unwrap_or_default(),
        None => String::new(),
    };
    (answer, shown)
}

/// Prints the answer; `shown` is what the preview has already put on the terminal of it.
fn print(report: &TurnReport, session: &str, as_json: bool, shown: &str) -> Exit {
    let is_answer = report.status == TurnStatus::Completed;
    if as_json {
        let mut value = json!({
            "status": if is_answer { "ok" } else { "error" },
            "session_id": session,
            "turn_id": report.turn_id,
            "trace_session": report.session_id,
            "provider": report.provider,
            "model": report.model,
            "iterations": report.iterations,
            "tool_calls": report.tool_calls,
            "tool_failures": report.tool_failures,
            "tokens": report.tokens,
        });
        value[if is_answer { "response" } else { "error" }] = json!(report.response);
        if let Some(note) = &report.note {
            value["note"] = json!(note);
        }
        output::json(&value);
    } else if is_answer {
        match report.response.strip_prefix(shown) {
            Some(rest) if !shown.is_empty() => output::line(rest),
            _ => output::line(&report.response),
        }
        if let Some(note) = &report.note {
            output::notice(note);
        }
    } else {
        if !shown.is_empty() {
            output::line("");
        }
        output::notice(&report.response);
    }
    if is_answer { Exit::Ok } else { Exit::Failed }
}

/// The words of the command line, then those of standard input.
fn message(args: &AskArgs) -> Result<String, String> {
    let words = args.message.join(" ");
    if !args.stdin {
        return Ok(words);
    }
    if std::io::stdin().is_terminal() {
        output::notice("reading the message from the terminal; end it with Ctrl-D");
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(MAX_STDIN + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    if bytes.len() as u64 > MAX_STDIN {
        return Err(format!(
            "standard input has more than {} KiB; put it into a file and name the file",
            MAX_STDIN / 1024
        ));
    }
    let piped = fermix_types::text::to_valid_utf8(bytes);
    Ok(if words.is_empty() {
        piped
    } else {
        format!("{words}\n\n{piped}")
    })
}
