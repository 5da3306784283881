//! Programs the owner made into tools: presets and sections of `[sandbox.commands]`.
//!
//! They are one family of the registry and change as one. Each runs like `shell` does, by the same
//! runner in the same jail, but without a shell: what the model gives are arguments and nothing else.

mod git;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fermix_capability::{
    Arguments, Audience, CallContext, Capability, CommandPreview, CommandText, FamilyChange,
    RegistrationError, Registry,
};
use fermix_config::commands::{CommandTool, CommandsConfig};
use fermix_sandbox::{ChildEnv, CommandSpec, Sandbox, WorkingDir};
use fermix_types::{Category, Kind, PolicyClass, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::shell::{ANSWER_RESERVE, GRACE, answer, not_run, opened_with};
use crate::blocking::blocking;
use crate::scope::sandbox_scope;

/// Marks the family.
const FAMILY: &str = "sandbox_command?";
/// The longest argument, and the most of them.
const MAX_ARGUMENT: usize = 64 * 1024;
const MAX_ARGUMENTS: usize = 256;

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// The last argument.
    #[schemars(length(min = 1))]
    prompt: String,
    /// Arguments before it.
    #[serde(default)]
    args: Vec<String>,
}

/// What became of the configured commands.
#[derive(Clone, Debug, Default)]
pub struct RegisteredCommands {
    /// The change of the registry.
    pub change: FamilyChange,
    /// What the owner should know: commands that did not become tools although they are configured.
    pub warnings: Vec<String>,
}

/// Makes the tools of `config` the family of commands, in one swap. Turns that hold an earlier
/// snapshot go on with what it has. A command of a preset that is not installed is left out silently;
/// a section of the owner's own, and a name that is taken, with a warning.
pub fn register_commands(
    registry: &Registry,
    sandbox: &Sandbox,
    config: &CommandsConfig,
) -> Result<RegisteredCommands, RegistrationError> {
    let mut warnings = Vec::new();
    let mut members = Vec::new();
    for command in config.tools() {
        let is_own = config
            .explicit
            .get(&command.name)
            .is_some_and(|entry| entry.command.is_some());
        let Some(program) = executable(sandbox, &command.command) else {
            if is_own {
                warnings.push(format!(
                    "[sandbox.commands.{}] is no tool: `{}` is not an executable file on this machine; install it or \
                     correct `command`",
                    command.name, command.command
                ));
            }
            continue;
        };
        members.push(capability(sandbox.clone(), command, program)?);
    }
    let wanted = Map::from_iter([(FAMILY.to_owned(), Value::Bool(true))]);
    let change = registry.replace_family(Kind::Builtin, &wanted, members);
    warnings.extend(change.skipped.iter().map(|name| {
        format!(
            "[sandbox.commands] `{name}` is no tool: another tool has that name; rename the section"
        )
    }));
    Ok(RegisteredCommands { change, warnings })
}

/// The program, when it can be run.
fn executable(sandbox: &Sandbox, program: &str) -> Option<PathBuf> {
    let path = Path::new(program);
    if !path.is_absolute() {
        return sandbox.executable(program);
    }
    let is_executable = path
        .metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    is_executable.then(|| path.to_owned())
}

fn capability(
    sandbox: Sandbox,
    command: CommandTool,
    program: PathBuf,
) -> Result<Capability, RegistrationError> {
    let timeout = Duration::from_millis(command.timeout_ms);
    let command = Arc::new(command);
    let previewed = Arc::clone(&command);
    let mut builder = Capability::builtin(
        &command.name,
        PolicyClass::Exec,
        Category::System,
        Audience::Anyone,
    )
    .description(command.description.clone().unwrap_or_else(|| {
        format!(
            "Run `{}` once; `args` come before `prompt`.",
            command.command
        )
    }))
    .when_to_use(format!(
        "The task is for `{}`; its last argument goes into `prompt`.",
        command.command
    ))
    .tag(FAMILY, true)
    .example(
        json!({"prompt": "--version"}),
        format!("Runs `{} --version`.", command.command),
    )
    .failure(
        "invalid_arguments",
        "`prompt` is blank, or an argument is too long or has a null byte.",
    )
    .failure(
        "sandbox_denied",
        "The working folder is outside the sandbox roots, protected or blocked.",
    )
    .failure(
        "sandbox_hardline",
        "The command looks like an accident that destroys the machine. Nothing ran.",
    )
    .failure("invalid_working_dir", "The working folder does not exist.")
    .failure(
        "env_not_allowed",
        "A variable it needs is not in `[sandbox.env] allow`.",
    )
    .failure(
        "env_denied",
        "A variable it needs is in `[sandbox.env] deny`.",
    )
    .failure("missing_env", "A variable it needs is not set.")
    .failure(
        "env_command_not_found",
        "The helper of a variable it needs does not exist.",
    )
    .failure(
        "env_command_failed",
        "The helper of a variable it needs failed.",
    )
    .failure(
        "env_command_timeout",
        "The helper of a variable it needs took too long.",
    )
    .failure(
        "env_command_output",
        "The helper of a variable it needs printed no value.",
    )
    .failure(
        "exit_nonzero",
        "The command itself failed; its exit code and output are shown.",
    )
    .failure(
        "timeout",
        "It ran longer than its section allows and was ended; the output so far is shown.",
    )
    .failure(
        "output_limit",
        "It printed more than 256 MiB and was ended.",
    )
    .failure(
        "busy",
        "Too many commands run already; wait for one, or stop it.",
    )
    .failure("cancelled", "The turn was stopped.")
    .failure(
        "executable_not_found",
        "The program is gone since the tool was made.",
    )
    .failure("start_failed", "The system refused to start a process.")
    .failure(
        "invalid_command",
        "The arguments are too long for the system.",
    )
    .failure(
        "lost",
        "The process that watched the command was killed; what the command did is unknown.",
    )
    .runs_command(move |arguments| preview(&previewed, arguments))
    .deadline(timeout + GRACE);
    if is_git(&command) {
        builder = builder.failure(
            "git_refused",
            "It would push, or have Git run something that the arguments name.",
        );
    }
    builder.handler(move |args: Args, context| {
        run(
            sandbox.clone(),
            Arc::clone(&command),
            program.clone(),
            args,
            context,
        )
    })
}

fn preview(command: &CommandTool, arguments: &Arguments) -> CommandPreview {
    let args = Args::deserialize(Value::Object(arguments.clone())).unwrap_or(Args {
        prompt: String::new(),
        args: Vec::new(),
    });
    let mut argv = vec![command.command.clone()];
    argv.extend(argv_of(command, args));
    CommandPreview {
        command: CommandText::Argv(argv),
        working_dir: None,
        required_env: command.pass_env.clone(),
    }
}

/// Whether it is Git, by the name of the tool or of the program.
fn is_git(command: &CommandTool) -> bool {
    command.name == "git"
        || Path::new(&command.command)
            .file_name()
            .is_some_and(|name| name == "git")
}

/// Configured arguments, those of the call, the prompt.
fn argv_of(command: &CommandTool, args: Args) -> Vec<String> {
    let mut argv = command.args.clone();
    argv.extend(args.args);
    argv.push(args.prompt);
    argv
}

async fn run(
    sandbox: Sandbox,
    command: Arc<CommandTool>,
    program: PathBuf,
    args: Args,
    context: CallContext,
) -> ToolResult {
    check(&args)?;
    let argv = argv_of(&command, args);
    if is_git(&command) {
        git::check(&argv, command.allow_push)?;
    }
    let scope = sandbox_scope(&context);
    let cwd = permitted_folder(&sandbox, &command.command, &argv, &scope).await?;
    let required: Vec<&str> = command.pass_env.iter().map(String::as_str).collect();
    let ChildEnv {
        mut vars, notes, ..
    } = sandbox.require(&required, &scope).await?;
    if is_git(&command) {
        git::harden(&mut vars);
    }
    let output_cap = context.max_output.saturating_sub(ANSWER_RESERVE);
    let spec = CommandSpec {
        timeout: Duration::from_millis(command.timeout_ms),
        output_cap,
        jail: sandbox.jail(&scope),
        conversation: scope.conversation,
        ..CommandSpec::new(
            "command",
            program,
            argv.iter().map(OsString::from),
            cwd,
            vars,
        )
    };
    let answer = match sandbox.runner().run(spec, &context.cancel).await {
        Ok(outcome) => answer(outcome, command.timeout_ms, output_cap),
        Err(error) => Err(not_run(&error)),
    };
    opened_with(notes, answer)
}

fn check(args: &Args) -> Result<(), ToolError> {
    let invalid = |words: String| Err(ToolError::new("invalid_arguments", words));
    if args.prompt.trim().is_empty() {
        return invalid("prompt must be a non-empty string".to_owned());
    }
    if args.args.len() > MAX_ARGUMENTS {
        return invalid(format!(
            "args has {} entries and the limit is {MAX_ARGUMENTS}",
            args.args.len()
        ));
    }
    for argument in args.args.iter().chain([&args.prompt]) {
        if argument.contains('\0') {
            return invalid("an argument contains null bytes".to_owned());
        }
        if argument.len() > MAX_ARGUMENT {
            return invalid(format!(
                "an argument has {} bytes and the limit is {MAX_ARGUMENT}; write it to a file and name that",
                argument.len()
            ));
        }
    }
    Ok(())
}

/// The folder to run in, when neither the accident guard nor the policy refuses. The guard reads the
/// arguments as a shell would if they were quoted, so that a program that is itself a shell or a
/// wrapper is looked into.
async fn permitted_folder(
    sandbox: &Sandbox,
    program: &str,
    argv: &[String],
    scope: &fermix_sandbox::Scope,
) -> Result<WorkingDir, ToolError> {
    let words = std::iter::once(program).chain(argv.iter().map(String::as_str));
    let line: Vec<String> = words
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect();
    let (sandbox, scope, line) = (sandbox.clone(), scope.clone(), line.join(" "));
    blocking(move || {
        sandbox.hardline(&line, None, &scope)?;
        Ok(sandbox.working_dir(None, &scope)?)
    })
    .await
}
