//! `fermix completions SHELL`.

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::output::{self, Exit};

/// Prints the shell's completion script.
pub fn run(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "fermix", &mut script);
    output::raw(&String::from_utf8_lossy(&script));
    Exit::Ok
}
