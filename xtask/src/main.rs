//! `cargo xtask`: the development tasks of the workspace.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::harness::{crash, soak};
use xtask::{TaskError, bench, docgen, test_run, tidy, workspace_root};

/// Development tasks of Fermix.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check what the compiler cannot: layers, file length, module docs, forbidden calls, fresh docs.
    Tidy,
    /// Write the generated pages of docs/.
    Docgen {
        /// Write nothing; fail when a page is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Run every test and end with a line `N passed, N failed`.
    Test {
        /// Arguments for the test runner, for example `-p fermix-agent`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure the release binary against the budget of the design.
    Bench(bench::Options),
    /// Kill the daemon at random instants and account for every message, call, child and file.
    Crash(crash::Options),
    /// Run many turns and report memory, descriptors and threads of the daemon.
    Soak(soak::Options),
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report(&error);
            ExitCode::from(2)
        }
    }
}

/// Whether the task found nothing to complain about.
fn run(task: Task) -> Result<bool, TaskError> {
    let root = workspace_root();
    match task {
        Task::Tidy => tidy::print(&root),
        Task::Docgen { check: true } => docgen::print_stale(&root),
        Task::Docgen { check: false } => docgen::write(&root),
        Task::Test { arguments } => test_run::run(&root, &arguments),
        Task::Bench(options) => bench::run(&root, &options),
        Task::Crash(options) => crash::run(&root, &options),
        Task::Soak(options) => soak::run(&root, &options),
    }
}

#[expect(clippy::print_stderr, reason = "a command-line tool prints")]
fn report(error: &TaskError) {
    eprintln!("error: {error}");
}
