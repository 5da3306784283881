//! `git_read`: what a repository says about itself. Nothing in it changes and nothing it names runs.

mod tables;

use std::time::Duration;

use fermix_capability::{Audience, CallContext, Capability, RegistrationError};
use fermix_sandbox::Sandbox;
use fermix_types::{Category, PolicyClass, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::arguments::{self, Arguments, Flag};
use super::configuration::Use;
use super::grammar::Grammar;
use super::session::Session;
use super::{outcome, request};
use crate::scope::sandbox_scope;

pub(super) use tables::COMMANDS;

/// The command's own time, and that of the questions around it.
const DEADLINE: Duration = Duration::from_secs(180);

/// Run a read-only git query: status, log, diff, show, or branch (which lists only).
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// `status`, `log`, `diff`, `branch` or `show`.
    command: String,
    /// Folder in the repository; default is the working directory.
    repo: Option<String>,
    /// Flags, revisions and repo-relative paths.
    args: Option<Vec<String>>,
}

/// The capability over `sandbox`.
pub fn capability(sandbox: Sandbox) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "git_read",
        PolicyClass::ReadOnly,
        Category::Git,
        Audience::OwnerOnly,
    )
    .when_to_use("Look at a repository: what changed, history, branches. To change it, use `git_write`.")
    .example(
        json!({"command": "log", "args": ["--oneline", "-n", "10"]}),
        "The last ten commits.",
    )
    .example(
        json!({"command": "branch", "args": ["--contains=HEAD"]}),
        "Branches that contain the current commit; a branch flag's value goes in the = form.",
    )
    .failure("unknown_command", "Not one of the five commands.")
    .failure(
        "invalid_args",
        "A flag lacks its value or has a wrong one, or there are too many arguments.",
    )
    .failure(
        "flag_refused",
        "The flag is not accepted; the message lists those that are.",
    )
    .failure(
        "path_refused",
        "A path is absolute or leads out through `..`; paths are relative to the repository.",
    )
    .failure(
        "branch_writes_refused",
        "The arguments of `branch` would create or change one; it lists only.",
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
        "The repository's own configuration has a setting that cannot be switched off; the message names it.",
    )
    .failure(
        "sandbox_denied",
        "The repository, or a place it leads to, is outside the sandbox roots, protected or blocked; the message names the remedy.",
    )
    .failure("invalid_path", "`repo` has a null byte or cannot be resolved.")
    .failure("invalid_working_dir", "`repo` does not exist or is no folder.")
    .failure("executable_not_found", "git is not installed.")
    .failure("git_failed", "git itself failed; its exit code and output are shown.")
    .failure("timeout", "git took longer than 120 seconds.")
    .failure("output_limit", "git printed too much; narrow the question.")
    .failure("busy", "Too many commands run already; wait for one, or stop it.")
    .failure("cancelled", "The turn was stopped.")
    .failure("start_failed", "The system refused to start git.")
    .failure("lost", "The process that watched git was killed; run it again.")
    .failure("invalid_command", "An argument cannot be passed to a program.")
    .failure("stopped", "fermix is shutting down; nothing ran.")
    .deadline(DEADLINE)
    .handler(move |args: Args, context| run(sandbox.clone(), args, context))
}

async fn run(sandbox: Sandbox, args: Args, context: CallContext) -> ToolResult {
    let grammar = request::grammar("git_read", COMMANDS, &args.command)?;
    let arguments = arguments::parse(grammar, &args.args.unwrap_or_default())?;
    let session = Session::open(&sandbox, sandbox_scope(&context), args.repo, Use::Read).await?;
    let cap = outcome::output_cap(context.max_output);
    let outcome = session.run(words(grammar, &arguments), cap).await?;
    // These report what they found by their exit code.
    let limit = match arguments.has(&["--exit-code", "--quiet", "--check"]) {
        true => 4,
        false => 1,
    };
    let mut output = outcome::answer(grammar.name, outcome, cap, limit)?;
    if output.text.is_empty() {
        output = output.note(format!("git {} printed nothing", grammar.name));
    }
    if session.screening.has_filters {
        output = output.note(request::FILTERS_OFF);
    }
    Ok(output)
}

/// What Git is given: what keeps it from running programs and entering submodules comes with it.
fn words(grammar: &Grammar, arguments: &Arguments) -> Vec<String> {
    let mut words = vec![grammar.name.to_owned()];
    match grammar.name {
        "branch" => words.extend(branch_words(arguments)),
        "status" => {
            words.push("--ignore-submodules=dirty".to_owned());
            words.extend(arguments.flag_words());
        }
        _ => {
            words.push("--ignore-submodules=dirty".to_owned());
            words.extend(arguments.flag_words());
            words.extend(["--no-ext-diff".to_owned(), "--no-textconv".to_owned()]);
            if !arguments.operands.is_empty() {
                words.push("--end-of-options".to_owned());
            }
        }
    }
    words.extend(arguments.operands.iter().cloned());
    words.extend(arguments.path_words());
    words
}

/// `--list` in front makes Git take whatever follows for a pattern; a flag without its value would
/// take the next word for one.
fn branch_words(arguments: &Arguments) -> Vec<String> {
    const WITH_COMMIT: &[&str] = &[
        "--contains",
        "--no-contains",
        "--merged",
        "--no-merged",
        "--points-at",
    ];
    let mut spelled = arguments.clone();
    spelled
        .flags
        .retain(|flag| !matches!(flag.name, "-l" | "--list"));
    for flag in &mut spelled.flags {
        if flag.value.is_none() && WITH_COMMIT.contains(&flag.name) {
            flag.value = Some("HEAD".to_owned());
        }
    }
    if !arguments.has(&["--show-current"]) {
        let list = Flag {
            name: "--list",
            value: None,
        };
        spelled.flags.insert(0, list);
    }
    spelled.flag_words()
}
