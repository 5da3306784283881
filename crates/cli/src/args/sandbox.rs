//! The words of `fermix sandbox`.

use std::path::PathBuf;

use clap::Subcommand;
use fermix_types::SandboxMode;

use super::{ChangeArgs, LookArgs, sandbox_modes};

/// The `sandbox` group.
#[derive(Subcommand, Debug)]
pub enum SandboxVerb {
    /// Print the mode, the workspace and how much is granted
    Status(LookArgs),
    /// Print every folder within reach with where it comes from, and what is closed
    Explain(LookArgs),
    /// Print what was granted, by whom and why
    Grants(LookArgs),
    /// Print the commands you have approved for good
    Approved(LookArgs),
    /// Ask about an approved command again
    Forget {
        /// Its id, or the beginning of it
        id: String,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Say whether tools may read a path, and which rule decides
    Check {
        /// The path
        path: PathBuf,
        /// Ask about writing
        #[arg(long)]
        write: bool,
        #[command(flatten)]
        look: LookArgs,
    },
    /// Run a command exactly as the `shell` tool would, and say what decides about it
    Run {
        /// Only say what decides; run nothing
        #[arg(long)]
        dry_run: bool,
        /// The command, after `--`
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Change how much of the disk tools reach: strict, standard or open
    Mode {
        /// The mode
        #[arg(value_parser = sandbox_modes())]
        mode: SandboxMode,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Change which variables commands see
    #[command(subcommand)]
    Env(SandboxEnvVerb),
    /// Change which programs are tools of their own
    #[command(subcommand)]
    Commands(SandboxCommandsVerb),
    /// See the programs that are tools of their own
    #[command(subcommand)]
    Command(SandboxCommandVerb),
    /// Make a program a tool of its own
    #[command(subcommand)]
    Grant(SandboxGrantVerb),
}

/// The `sandbox env` group.
#[derive(Subcommand, Debug)]
pub enum SandboxEnvVerb {
    /// Pass a variable on to commands
    Allow {
        /// Its name
        name: String,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Never pass a variable on
    Deny {
        /// Its name
        name: String,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Pass a variable on with the line a helper prints
    Set {
        /// Its name
        name: String,
        #[command(flatten)]
        change: ChangeArgs,
        /// The helper, after `--`
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Stop passing a variable on and forget its helper
    Unset {
        /// Its name
        name: String,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Say whether a variable is passed on, and where its value comes from
    Get {
        /// Its name
        name: String,
        #[command(flatten)]
        look: LookArgs,
    },
}

/// The `sandbox commands` group.
#[derive(Subcommand, Debug)]
pub enum SandboxCommandsVerb {
    /// Switch presets off (bare) or on (assistant, extended)
    Profile {
        /// The profile
        #[arg(value_parser = ["bare", "assistant", "extended"])]
        profile: String,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Switch a preset or a program on
    Enable {
        /// ai_tools, dev_tools, or the name of a program
        name: String,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Switch a preset or a program off
    Disable {
        /// ai_tools, dev_tools, or the name of a program
        name: String,
        #[command(flatten)]
        change: ChangeArgs,
    },
}

/// The `sandbox command` group.
#[derive(Subcommand, Debug)]
pub enum SandboxCommandVerb {
    /// Print every program that is a tool
    List(LookArgs),
}

/// The `sandbox grant` group.
#[derive(Subcommand, Debug)]
pub enum SandboxGrantVerb {
    /// Make a program a tool of its own
    Command {
        /// The tool's name
        name: String,
        #[command(flatten)]
        change: ChangeArgs,
        /// The program and arguments before those of a call, after `--`
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
}
