//! `git_write`: stages, commits, switches and pulls. Pushing is the owner's decision and not here.
//!
//! Git runs with the repository's own programs switched off, as for `git_read`, unless the owner
//! lists the repository in `[sandbox.git] trusted_repos`.

mod add;
mod checkout;
mod commit;
mod pull;
mod tables;

use std::time::Duration;

use fermix_capability::{Audience, CallContext, Capability, RegistrationError};
use fermix_sandbox::{Sandbox, UnsafeRoot};
use fermix_types::{Category, PolicyClass, ToolError, ToolOutput, ToolResult};
use fermix_undo::UndoLog;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::arguments::{self, Arguments};
use super::configuration::Use;
use super::grammar::Grammar;
use super::session::{Answer, Session};
use super::{checkpoint, outcome, request};
use crate::scope::sandbox_scope;

pub(super) use tables::COMMANDS;

/// The command's own time, and that of the questions around it.
const DEADLINE: Duration = Duration::from_secs(300);

/// Change a git repository: add, commit, checkout or pull. Pushing is left to the owner.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// `add`, `commit`, `checkout` or `pull`.
    command: String,
    /// Folder in the repository; default is the working directory.
    repo: Option<String>,
    /// Flags and operands. A commit message goes with -m.
    args: Option<Vec<String>>,
}

/// The capability over `sandbox`, whose changes `undo` can take back.
pub fn capability(sandbox: Sandbox, undo: UndoLog) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "git_write",
        PolicyClass::ReadWrite,
        Category::Git,
        Audience::Anyone,
    )
    .when_to_use("Stage, commit, switch branches or pull. To look at a repository, use `git_read`.")
    .example(
        json!({"command": "commit", "args": ["-am", "Fix the date"]}),
        "Commits all changes of tracked files.",
    )
    .example(
        json!({"command": "checkout", "args": ["-b", "topic"]}),
        "Makes a branch and switches to it.",
    )
    .failure("unknown_command", "Not one of the four commands.")
    .failure("push_deferred", "Pushing is left to the owner; ask them to run `git push`.")
    .failure(
        "invalid_args",
        "A flag lacks its value or has a wrong one, or there are too many arguments.",
    )
    .failure(
        "flag_refused",
        "The flag is not accepted; the message lists those that are.",
    )
    .failure("path_refused", "`-C` takes a commit of the repository.")
    .failure("message_missing", "A commit needs its message with -m.")
    .failure("identity_missing", "git knows no author; the message names the two settings.")
    .failure(
        "protected_name",
        "`add -f` would stage a file that usually holds secrets.",
    )
    .failure(
        "would_discard_changes",
        "Local changes are in the way; the message names the files.",
    )
    .failure(
        "remote_not_configured",
        "The operand of `pull` is no configured remote; addresses are not accepted.",
    )
    .failure(
        "remote_refused",
        "The remote's address is neither https, ssh nor git.",
    )
    .failure(
        "not_a_repository",
        "There is no repository at `repo` that git can use; the message has git's words.",
    )
    .failure(
        "repository_refused",
        "The repository is damaged, or put together in a way that is not safe to follow.",
    )
    .failure(
        "untrusted_repo_config",
        "The repository's own configuration could run a program or reach another host; the message names the setting and the remedy.",
    )
    .failure(
        "sandbox_denied",
        "The repository, or a place it leads to, is outside the sandbox roots, protected or blocked; the message names the remedy.",
    )
    .failure(
        "guarded_path",
        "The change would write files that something runs by itself later.",
    )
    .failure("invalid_path", "`repo` has a null byte or cannot be resolved.")
    .failure("invalid_working_dir", "`repo` does not exist or is no folder.")
    .failure("executable_not_found", "git is not installed.")
    .failure(
        "checkpoint_failed",
        "The way back could not be put away, so nothing was done; the disk may be full.",
    )
    .failure("git_failed", "git itself failed; its exit code and output are shown.")
    .failure("timeout", "git took longer than 120 seconds and was ended.")
    .failure("output_limit", "git printed too much; narrow the request.")
    .failure("busy", "Too many commands run already; wait for one, or stop it.")
    .failure("cancelled", "The turn was stopped.")
    .failure("start_failed", "The system refused to start git.")
    .failure("lost", "The process that watched git was killed; look what it did.")
    .failure("invalid_command", "An argument cannot be passed to a program.")
    .failure("stopped", "fermix is shutting down; nothing ran.")
    .deadline(DEADLINE)
    .handler(move |args: Args, context| run(sandbox.clone(), undo.clone(), args, context))
}

async fn run(sandbox: Sandbox, undo: UndoLog, args: Args, context: CallContext) -> ToolResult {
    if args.command == "push" {
        return Err(ToolError::new(
            "push_deferred",
            "pushing is left to the owner; say what is ready and ask them to run `git push`",
        ));
    }
    let grammar = request::grammar("git_write", COMMANDS, &args.command)?;
    let arguments = arguments::parse(grammar, &args.args.unwrap_or_default())?;
    let used_for = match grammar.name {
        "pull" => Use::Fetch,
        _ => Use::Write,
    };
    let session = Session::open(&sandbox, sandbox_scope(&context), args.repo, used_for).await?;
    let change = Change {
        session: &session,
        undo: &undo,
        context: &context,
        grammar,
        arguments,
        cap: outcome::output_cap(context.max_output),
    };
    let answer = match grammar.name {
        "add" => add::run(change).await,
        "commit" => commit::run(change).await,
        "checkout" => checkout::run(change).await,
        _ => pull::run(change).await,
    };
    let mut output = answer.map_err(explained)?;
    output = with_note(output, head(&session).await.map(Some));
    if session.screening.has_filters {
        output = output.note(request::FILTERS_OFF);
    }
    Ok(output)
}

/// One change that is about to be made.
struct Change<'a> {
    session: &'a Session,
    undo: &'a UndoLog,
    context: &'a CallContext,
    grammar: &'static Grammar,
    arguments: Arguments,
    cap: usize,
}

impl Change<'_> {
    /// What Git is given, with `more` flags behind the caller's.
    fn words(&self, more: &[&str]) -> Vec<String> {
        let mut words = vec![self.grammar.name.to_owned()];
        words.extend(self.arguments.flag_words());
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words.extend(self.arguments.operands.iter().cloned());
        words.extend(self.arguments.path_words());
        words
    }

    /// Makes the change. The repository changes here and nowhere else, so whatever has to see it
    /// before and after belongs around this call.
    async fn make(&self, words: Vec<String>) -> ToolResult {
        let planned = checkpoint::Planned {
            session: self.session,
            undo: self.undo,
            context: self.context,
            command: self.grammar.name,
            operands: &self.arguments.operands,
        };
        let checkpoint = checkpoint::begin(planned).await?;
        let answer = match self.session.run(words, self.cap).await {
            Ok(outcome) => outcome::answer(self.grammar.name, outcome, self.cap, 1),
            Err(error) => Err(error),
        };
        checkpoint.finish(answer).await
    }

    /// Refuses to write the files of a work tree that holds the owner's startup files.
    fn refuse_home(&self) -> Result<(), ToolError> {
        let work_tree = &self.session.repository.work_tree;
        match self.session.sandbox.grantable_root(work_tree) {
            Err(cause @ (UnsafeRoot::Home | UnsafeRoot::FermixHome)) => Err(ToolError::new(
                "guarded_path",
                format!(
                    "git {} would write files of `{}`, and {cause}: among them are files that are run by themselves later. The owner has to do it by hand",
                    self.grammar.name,
                    work_tree.display()
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// The failures that Git words itself, under their own tags.
fn explained(error: ToolError) -> ToolError {
    if error.tag != "git_failed" {
        return error;
    }
    let says = |words: &str| error.message.contains(words);
    let (tag, fix) = if says("identity unknown") || says("auto-detection is disabled") {
        (
            "identity_missing",
            "git does not know whose commit this is. The owner sets `user.name` and `user.email`, for example with `git config --global user.name NAME` and `git config --global user.email ADDRESS`",
        )
    } else if says("would be overwritten by") || says("have unstaged changes") {
        (
            "would_discard_changes",
            "local changes are in the way. Commit them, or discard them by name with `checkout -- FILE`",
        )
    } else {
        return error;
    };
    ToolError {
        tag,
        message: format!("{fix}\n{}", error.message),
        ..error
    }
}

/// The output of a change that is made, with what was found out about it. The change is not undone by
/// a question that failed, so its failure is told beside it.
fn with_note(output: ToolOutput, found: Result<Option<String>, ToolError>) -> ToolOutput {
    match found {
        Ok(None) => output,
        Ok(Some(note)) => output.note(note),
        Err(error) => output.note(format!(
            "git has made the change; a question about it failed afterwards: {}",
            error.message
        )),
    }
}

/// Where the repository stands now.
async fn head(session: &Session) -> Result<String, ToolError> {
    let commit = session
        .query(&["rev-parse", "--short", "--verify", "--quiet", "HEAD"])
        .await?;
    let branch = session
        .query(&["symbolic-ref", "--short", "--quiet", "HEAD"])
        .await?;
    let place = match branch.exit {
        0 => format!("on branch {}", branch.line()),
        _ => "detached".to_owned(),
    };
    Ok(match commit.exit {
        0 => format!("HEAD is now {}, {place}", commit.line()),
        _ => format!("HEAD has no commit yet, {place}"),
    })
}

/// The paths of a list that ends each with a null byte.
fn paths(answer: Answer, what: &str) -> Result<Vec<String>, ToolError> {
    if answer.exit != 0 {
        return Err(ToolError::new(
            "git_failed",
            format!("git cannot list {what}:\n{}", answer.stderr.trim()),
        ));
    }
    let text = String::from_utf8_lossy(&answer.stdout);
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}

/// Up to twenty names, and how many there are beyond them.
fn named(paths: impl ExactSizeIterator<Item = impl AsRef<str>>) -> String {
    const SHOWN: usize = 20;
    let more = paths.len().saturating_sub(SHOWN);
    let shown: Vec<String> = paths
        .take(SHOWN)
        .map(|path| path.as_ref().escape_debug().to_string())
        .collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
