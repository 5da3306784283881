//! `shell`: one command of the owner's machine, run by `sh -c`.
//!
//! The order is fixed: check the request, the accident guard, the working folder and the right to
//! run in it, the environment, and then the process. Everything before the last step is proven to
//! have run nothing.

mod hints;

use std::sync::Arc;
use std::time::Duration;

use fermix_capability::{
    Arguments, Audience, CallContext, Capability, CommandPreview, CommandText, RegistrationError,
};
use fermix_sandbox::{
    ChildEnv, CommandOutcome, CommandSpec, Ending, RunError, Sandbox, Scope, WorkingDir,
};
use fermix_types::text::{prefix, suffix, to_valid_utf8};
use fermix_types::{
    Category, PolicyClass, ToolError, ToolOutput, ToolResult, TraceKind, TraceRow, TraceSink,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocking::blocking;
use crate::scope::sandbox_scope;

/// The longest command, in bytes.
const MAX_COMMAND: usize = 64 * 1024;
/// How long a command may take when the caller does not say, and at most, in milliseconds.
const DEFAULT_TIMEOUT_MS: i64 = 30_000;
const MAX_TIMEOUT_MS: i64 = 600_000;
/// What a call may take beyond its command's time: environment helpers before it, and the end of
/// its process tree after it.
pub(super) const GRACE: Duration = Duration::from_secs(30);
/// Room for the runner's own words about what it left out, in bytes.
const MARKER_ROOM: usize = 256;
/// Room for everything in the answer that is not the command's output, in bytes.
pub(super) const ANSWER_RESERVE: usize = 8 * 1024;

/// Run a command with `sh -c`; stdout and stderr come back merged. Prefer a tool made for the job,
/// and never scrape JavaScript pages with curl.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// At most 64 KiB.
    command: String,
    /// Folder to run in; default is the working directory.
    working_dir: Option<String>,
    /// 1 to 600000, default 30000.
    timeout_ms: Option<i64>,
}

/// The capability over `sandbox`. Variables that do not resolve are recorded to `trace`.
pub fn capability(
    sandbox: Sandbox,
    trace: Arc<dyn TraceSink>,
) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "shell",
        PolicyClass::Exec,
        Category::System,
        Audience::Anyone,
    )
    .when_to_use("Run programs: builds, tests, package managers, anything no other tool does.")
    .example(
        json!({"command": "cargo test --workspace", "timeout_ms": 300_000}),
        "Runs the tests in the working directory for at most five minutes.",
    )
    .example(
        json!({"command": "ls -la", "working_dir": "~/projects"}),
        "Lists another folder.",
    )
    .failure(
        "invalid_command",
        "The command is empty, longer than 64 KiB, or has a null byte.",
    )
    .failure(
        "invalid_working_dir",
        "`working_dir` does not exist or is not a folder.",
    )
    .failure(
        "sandbox_denied",
        "The folder is outside the sandbox roots, protected or blocked; the message names the remedy.",
    )
    .failure(
        "sandbox_hardline",
        "The command looks like an accident that destroys the machine. Nothing ran; do something narrower.",
    )
    .failure(
        "timeout",
        "It ran longer than `timeout_ms` and was ended; the output so far is shown.",
    )
    .failure(
        "exit_nonzero",
        "The command itself failed; its exit code and output are shown.",
    )
    .failure(
        "output_limit",
        "It printed more than 256 MiB and was ended; redirect the output to a file.",
    )
    .failure(
        "busy",
        "Too many commands run already; wait for one, or stop it.",
    )
    .failure("cancelled", "The turn was stopped.")
    .failure(
        "executable_not_found",
        "This machine has no `/bin/sh`; no command can run.",
    )
    .failure("start_failed", "The system refused to start a process.")
    .failure(
        "not_confined",
        "The command could not be confined as planned, so it was not run.",
    )
    .failure(
        "confinement_required",
        "The owner demands full confinement and this machine lacks part of it; no command runs.",
    )
    .failure(
        "lost",
        "The process that watched the command was killed; what the command did is unknown.",
    )
    .failure("stopped", "fermix is shutting down; nothing ran.")
    .runs_command(preview)
    .deadline(Duration::from_millis(MAX_TIMEOUT_MS.unsigned_abs()) + GRACE)
    .handler(move |args: Args, context| {
        run(sandbox.clone(), Arc::clone(&trace), args, context)
    })
}

/// What the owner is shown before a call runs.
fn preview(arguments: &Arguments) -> CommandPreview {
    let text = |key| {
        arguments
            .get(key)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    CommandPreview {
        command: CommandText::Script(text("command").unwrap_or_default()),
        working_dir: text("working_dir"),
        required_env: Vec::new(),
    }
}

async fn run(
    sandbox: Sandbox,
    trace: Arc<dyn TraceSink>,
    args: Args,
    context: CallContext,
) -> ToolResult {
    check_command(&args.command)?;
    let (timeout_ms, clamped) = timeout(args.timeout_ms);
    let scope = sandbox_scope(&context);
    let cwd = permitted_folder(&sandbox, &args, &scope).await?;
    let env = sandbox.child_env(&scope).await;
    if !env.unresolved.is_empty() {
        trace.record(TraceRow::new(
            TraceKind::AgentEvent,
            &scope.ids,
            json!({
                "event": "env_unresolved",
                "tool": "shell",
                "call_id": context.call_id,
                "env_unresolved": env.unresolved,
            }),
        ));
    }
    let ChildEnv { vars, notes, .. } = env;
    let output_cap = context.max_output.saturating_sub(ANSWER_RESERVE);
    let spec = CommandSpec {
        timeout: Duration::from_millis(timeout_ms),
        // The runner keeps the start and the end. Given more than the model is shown, it would keep
        // an end that is then cut off.
        output_cap,
        jail: sandbox.jail(&scope),
        conversation: scope.conversation.clone(),
        ..CommandSpec::new("shell", "/bin/sh", ["-c", &args.command], cwd, vars)
    };
    let answer = match sandbox.runner().run(spec, &context.cancel).await {
        Ok(outcome) => {
            trace.record(TraceRow::new(
                TraceKind::AgentEvent,
                &scope.ids,
                json!({
                    "event": "command_confined",
                    "tool": "shell",
                    "call_id": context.call_id,
                    "confined": outcome.confined.as_str(),
                    "layers": outcome.confined.layers(),
                }),
            ));
            explained(outcome, timeout_ms, output_cap, &sandbox, scope).await
        }
        Err(error) => Err(not_run(&error)),
    };
    opened_with(notes, answer)
        .map(|output| noted(output, &clamped))
        .map_err(|error| match clamped {
            Some(note) => error.note(note),
            None => error,
        })
}

fn check_command(command: &str) -> Result<(), ToolError> {
    let invalid = |words: String| Err(ToolError::new("invalid_command", words));
    if command.trim().is_empty() {
        return invalid("Command must be a non-empty string".to_owned());
    }
    if command.len() > MAX_COMMAND {
        return invalid(format!(
            "Command has {} bytes and the limit is {MAX_COMMAND}; write it to a script and run that",
            command.len()
        ));
    }
    if command.contains('\0') {
        return invalid("Command contains null bytes".to_owned());
    }
    Ok(())
}

/// The timeout in milliseconds, and what was done to the requested one.
fn timeout(requested: Option<i64>) -> (u64, Option<String>) {
    let requested = requested.unwrap_or(DEFAULT_TIMEOUT_MS);
    let used = requested.clamp(1, MAX_TIMEOUT_MS);
    let note = (used != requested).then(|| {
        format!("timeout_ms {requested} is outside 1 to {MAX_TIMEOUT_MS}; {used} was used")
    });
    (used.unsigned_abs(), note)
}

/// The folder to run in, when neither the accident guard nor the policy refuses.
async fn permitted_folder(
    sandbox: &Sandbox,
    args: &Args,
    scope: &Scope,
) -> Result<WorkingDir, ToolError> {
    let (sandbox, scope) = (sandbox.clone(), scope.clone());
    let (command, requested) = (args.command.clone(), args.working_dir.clone());
    blocking(move || {
        sandbox.hardline(&command, requested.as_deref(), &scope)?;
        Ok(sandbox.working_dir(requested.as_deref(), &scope)?)
    })
    .await
}

/// The start and the end of `text` when it has more than `cap` bytes: three quarters and one, as the
/// runner keeps them.
fn without_middle(text: String, cap: usize) -> (String, bool) {
    if text.len() <= cap + MARKER_ROOM {
        return (text, false);
    }
    let end = suffix(&text, cap / 4);
    let start = prefix(&text, cap - cap / 4);
    let omitted = text.len() - start.len() - end.len();
    let kept = format!("{start}\n[… {omitted} bytes omitted …]\n{end}");
    (kept, true)
}

pub(super) fn answer(outcome: CommandOutcome, timeout_ms: u64, output_cap: usize) -> ToolResult {
    // What is no text takes three bytes for each, and the dispatcher would cut off the end.
    let (text, has_grown) = without_middle(to_valid_utf8(outcome.stdout), output_cap);
    let mut notes = Vec::new();
    if has_grown {
        notes.push(
            "the output is not text, and its middle is left out; redirect it to a file and look at that with a tool made for it"
                .to_owned(),
        );
    } else if outcome.truncated {
        notes.push(format!(
            "{} bytes from the middle of the output are left out; redirect it to a file to read all of it",
            outcome.omitted_bytes
        ));
    }
    if !outcome.is_clean {
        notes.push(
            "not every process the command started is proven to be gone; look at the process list"
                .to_owned(),
        );
    }
    let failed = |tag, headline: String| {
        let message = if text.is_empty() {
            headline
        } else {
            format!("{headline}\n{text}")
        };
        Err(ToolError {
            notes: notes.clone(),
            ..ToolError::new(tag, message)
        })
    };
    match outcome.ending {
        Ending::TimedOut => failed("timeout", format!("Command timed out after {timeout_ms}ms")),
        Ending::OutputLimit => failed(
            "output_limit",
            "Command printed more than 256 MiB and was ended; redirect its output to a file"
                .to_owned(),
        ),
        Ending::Cancelled => failed("cancelled", "Command was stopped".to_owned()),
        Ending::Exited if outcome.exit != 0 => {
            let by_signal = outcome
                .signal
                .map(|signal| format!(", ended by signal {signal}"))
                .unwrap_or_default();
            failed(
                "exit_nonzero",
                format!("Command failed (exit code {}{by_signal}):", outcome.exit),
            )
        }
        Ending::Exited => {
            if text.is_empty() {
                notes.push("the command succeeded and printed nothing".to_owned());
            }
            Ok(ToolOutput {
                notes,
                ..text.into()
            })
        }
    }
}

/// The answer, and one line on why confinement may be what the command failed at.
async fn explained(
    mut outcome: CommandOutcome,
    timeout_ms: u64,
    output_cap: usize,
    sandbox: &Sandbox,
    scope: Scope,
) -> ToolResult {
    let hint = if outcome.ending == Ending::Exited && outcome.exit != 0 {
        let sandbox = sandbox.clone();
        let (back, hint) = blocking(move || {
            let text = String::from_utf8_lossy(&outcome.stdout);
            let hint = hints::hint(&outcome, &text, &sandbox, &scope);
            Ok((outcome, hint))
        })
        .await?;
        outcome = back;
        hint
    } else {
        None
    };
    let answer = answer(outcome, timeout_ms, output_cap);
    match hint {
        Some(hint) => answer.map_err(|error| error.note(hint)),
        None => answer,
    }
}

pub(super) fn not_run(error: &RunError) -> ToolError {
    ToolError::new(error.tag(), error.to_string())
}

/// The answer behind the lines that name variables without a value: they come first, on success
/// and on failure, because the output that follows may be wrong because of them.
pub(super) fn opened_with(lines: Vec<String>, answer: ToolResult) -> ToolResult {
    if lines.is_empty() {
        return answer;
    }
    let opening = lines.join("\n");
    match answer {
        Ok(output) => Ok(ToolOutput {
            text: format!("{opening}\n{}", output.text),
            ..output
        }),
        Err(error) => Err(ToolError {
            message: format!("{opening}\n{}", error.message),
            ..error
        }),
    }
}

fn noted(output: ToolOutput, note: &Option<String>) -> ToolOutput {
    match note {
        Some(note) => output.note(note),
        None => output,
    }
}
