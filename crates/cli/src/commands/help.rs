//! `fermix help [VERB…]`.

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::output::{self, Exit};

/// Prints the help of Fermix, of a verb, or of a verb in a group.
pub fn run(path: &[String]) -> Exit {
    let mut command = Cli::command();
    command.build();
    let mut wanted = &mut command;
    for (depth, name) in path.iter().enumerate() {
        match wanted.find_subcommand_mut(name) {
            Some(found) => wanted = found,
            None => {
                output::notice(&format!("unknown command: {}", path[..=depth].join(" ")));
                output::notice("run `fermix help` for the list of commands");
                return Exit::Usage;
            }
        }
    }
    output::raw(&wanted.render_long_help().to_string());
    Exit::Ok
}
