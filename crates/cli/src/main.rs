//! The `fermix` command.

mod args;
mod client;
mod commands;
mod interrupt;
mod moment;
mod output;
mod start;
mod talk;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use fermix_config::Environment;
use fermix_daemon::secrets::Redactor;
use fermix_daemon::{helpers, logs};

use crate::args::{Cli, Verb};
use crate::output::Exit;
use crate::start::Start;

fn main() -> ExitCode {
    match helpers::run_if_asked() {
        Some(exit) => exit,
        None => run().into(),
    }
}

fn run() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    match cli.verb {
        // These need no home, so they must not make one.
        Verb::Version { json } => return commands::version::run(json),
        Verb::Help { verb } => return commands::help::run(&verb),
        Verb::Completions { shell } => return commands::completions::run(shell),
        Verb::Ask(_)
        | Verb::Chat(_)
        | Verb::Capabilities(_)
        | Verb::Tools(_)
        | Verb::Config(_)
        | Verb::Sandbox(_)
        | Verb::Grant(_)
        | Verb::Revoke(_)
        | Verb::Run
        | Verb::Status { .. }
        | Verb::Stop { .. }
        | Verb::Reload { .. }
        | Verb::Health { .. }
        | Verb::Logs { .. }
        | Verb::Secrets(_)
        | Verb::Traces(_)
        | Verb::Doctor(_)
        | Verb::Undo(_)
        | Verb::Usage(_) => {}
    }
    let environment = Environment::capture();
    let redactor = Arc::<Redactor>::default();
    // The daemon's own log is a file, which it opens itself.
    if !matches!(cli.verb, Verb::Run) {
        logs::to_stderr(&environment, &redactor);
        logs::report_panics(Arc::clone(&redactor));
    }
    let start = match Start::new(cli.home.as_deref(), environment, redactor) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    match cli.verb {
        Verb::Ask(args) => commands::ask::run(args, &start),
        Verb::Chat(args) => commands::chat::run(args, &start),
        Verb::Run => commands::run::run(start),
        Verb::Status { full, json } => commands::status::run(full, json, &start),
        Verb::Stop { json } => commands::stop::run(json, &start),
        Verb::Reload { json } => commands::reload::run(json, &start),
        Verb::Health { json } => commands::health::run(json, &start),
        Verb::Logs { follow, lines } => commands::logs::run(follow, lines, &start),
        Verb::Capabilities(args) => commands::capabilities::run(&args, &start),
        Verb::Tools(verb) => commands::tools::run(verb, &start),
        Verb::Config(verb) => commands::config::run(verb, &start),
        Verb::Undo(args) => commands::undo::run(&args, &start),
        Verb::Usage(args) => commands::usage::run(&args, &start),
        Verb::Doctor(args) => commands::doctor::run(&args, &start),
        Verb::Sandbox(verb) => commands::sandbox::run(verb, &start),
        Verb::Grant(verb) => commands::grant::run(verb, &start),
        Verb::Revoke(verb) => commands::revoke::run(verb, &start),
        Verb::Secrets(verb) => commands::secrets::run(verb, &start),
        Verb::Traces(args) => commands::traces::run(&args, &start),
        Verb::Version { .. } | Verb::Help { .. } | Verb::Completions { .. } => Exit::Ok,
    }
}

/// Help and version on standard output, everything else on standard error with exit code 2; whoever
/// asked for JSON gets a value all the same.
fn explain(error: &clap::Error) -> Exit {
    let as_json = std::env::args_os().any(|argument| argument == "--json");
    let names_secrets = std::env::args_os().any(|argument| argument == "secrets");
    match error.kind() {
        // The words of the error would repeat the argument, which is most of a secret.
        ErrorKind::UnknownArgument if names_secrets => {
            return output::usage(
                as_json,
                "a secret's value is never an argument, where every process sees it; leave it out and be asked for it, or give --stdin",
            );
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            return Exit::Ok;
        }
        ErrorKind::InvalidSubcommand => {
            let named = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
            let mut words = format!("unknown command: {}", named(ContextKind::InvalidSubcommand));
            if let Some(ContextValue::Strings(nearest)) =
                error.get(ContextKind::SuggestedSubcommand)
                && let [nearest, ..] = nearest.as_slice()
            {
                words.push_str(&format!("; did you mean `{nearest}`?"));
            }
            output::usage(as_json, &words);
        }
        _ if as_json => {
            let words = error.render().to_string();
            let words = words
                .trim_start_matches("error: ")
                .lines()
                .next()
                .unwrap_or_default();
            return output::usage(true, words);
        }
        _ => {
            let _ = error.print();
            return Exit::Usage;
        }
    }
    let _ = writeln!(std::io::stderr(), "{}", Cli::command().render_usage());
    Exit::Usage
}
