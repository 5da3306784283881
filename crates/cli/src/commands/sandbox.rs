//! `fermix sandbox …`: what tools and commands reach.

mod approved;
pub mod policy;
mod run;

use fermix_daemon::approvals::policy::Operation;

use self::policy::{absolute, change, look};
use crate::args::{
    SandboxCommandVerb, SandboxCommandsVerb, SandboxEnvVerb, SandboxGrantVerb, SandboxVerb,
};
use crate::output::Exit;
use crate::start::Start;

/// Runs one verb of the group.
pub fn run(verb: SandboxVerb, start: &Start) -> Exit {
    match verb {
        SandboxVerb::Status(args) => look(&Operation::Status {}, args, start),
        SandboxVerb::Explain(args) => look(&Operation::Explain {}, args, start),
        SandboxVerb::Approved(args) => approved::list(args, start),
        SandboxVerb::Forget { id, look: args } => approved::forget(&id, args.json, start),
        SandboxVerb::Grants(args) => look(&Operation::Grants {}, args, start),
        SandboxVerb::Check {
            path,
            write,
            look: args,
        } => policy::check(
            &Operation::Check {
                path: absolute(&path, start),
                write,
            },
            args,
            start,
        ),
        SandboxVerb::Run { dry_run, command } => run::run(&command, dry_run, start),
        SandboxVerb::Mode { mode, change: args } => {
            change(&Operation::SetMode { mode }, args, start)
        }
        SandboxVerb::Env(verb) => env(verb, start),
        SandboxVerb::Commands(verb) => commands(verb, start),
        SandboxVerb::Command(SandboxCommandVerb::List(args)) => {
            look(&Operation::Commands {}, args, start)
        }
        SandboxVerb::Grant(SandboxGrantVerb::Command {
            name,
            change: args,
            command,
        }) => {
            let (command, arguments) = program(command);
            let operation = Operation::BindCommand {
                name,
                command,
                args: arguments,
            };
            change(&operation, args, start)
        }
    }
}

fn env(verb: SandboxEnvVerb, start: &Start) -> Exit {
    match verb {
        SandboxEnvVerb::Allow { name, change: args } => {
            change(&Operation::EnvAllow { name }, args, start)
        }
        SandboxEnvVerb::Deny { name, change: args } => {
            change(&Operation::EnvDeny { name }, args, start)
        }
        SandboxEnvVerb::Set {
            name,
            change: args,
            command,
        } => {
            let (command, arguments) = program(command);
            let operation = Operation::EnvSet {
                name,
                command,
                args: arguments,
            };
            change(&operation, args, start)
        }
        SandboxEnvVerb::Unset { name, change: args } => {
            change(&Operation::EnvUnset { name }, args, start)
        }
        SandboxEnvVerb::Get { name, look: args } => look(&Operation::EnvGet { name }, args, start),
    }
}

fn commands(verb: SandboxCommandsVerb, start: &Start) -> Exit {
    match verb {
        SandboxCommandsVerb::Profile {
            profile,
            change: args,
        } => change(&Operation::CommandProfile { profile }, args, start),
        SandboxCommandsVerb::Enable { name, change: args } => {
            change(&Operation::enable(&name), args, start)
        }
        SandboxCommandsVerb::Disable { name, change: args } => {
            change(&Operation::disable(&name), args, start)
        }
    }
}

/// The program and its arguments. The command line lets no empty list through.
fn program(command: Vec<String>) -> (String, Vec<String>) {
    let mut words = command.into_iter();
    (words.next().unwrap_or_default(), words.collect())
}
