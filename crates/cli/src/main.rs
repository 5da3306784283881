//! The `fermix` command.

mod args;
mod commands;
mod interrupt;
mod output;
mod start;

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
        | Verb::Capabilities(_)
        | Verb::Tools(_)
        | Verb::Config(_)
        | Verb::Secrets(_)
        | Verb::Traces(_) => {}
    }
    let environment = Environment::capture();
    let redactor = Arc::<Redactor>::default();
    logs::to_stderr(&environment, &redactor);
    logs::report_panics(Arc::clone(&redactor));
    let start = match Start::new(cli.home.as_deref(), environment, redactor) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    match cli.verb {
        Verb::Ask(args) => commands::ask::run(args, &start),
        Verb::Capabilities(args) => commands::capabilities::run(&args, &start),
        Verb::Tools(verb) => commands::tools::run(verb, &start),
        Verb::Config(verb) => commands::config::run(verb, &start),
        Verb::Secrets(verb) => commands::secrets::run(verb, &start),
        Verb::Traces(args) => commands::traces::run(&args, &start),
        Verb::Version { .. } | Verb::Help { .. } | Verb::Completions { .. } => Exit::Ok,
    }
}

/// Help and version on standard output, everything else on standard error with exit code 2; whoever
/// asked for JSON gets a value all the same.
fn explain(error: &clap::Error) -> Exit {
    let as_json = std::env::args_os().any(|argument| argument == "--json");
    match error.kind() {
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
