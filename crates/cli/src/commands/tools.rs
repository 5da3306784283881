//! `fermix tools …`: what a caller would see, and what a call would do.

mod call;
mod list;

use fermix_daemon::inspect::StandIn;

use crate::args::{As, ToolsVerb};
use crate::output::Exit;
use crate::start::Start;

/// Runs one verb of the group.
pub fn run(verb: ToolsVerb, start: &Start) -> Exit {
    match verb {
        ToolsVerb::List { caller, json } => list::run(caller, json, start),
        ToolsVerb::Call {
            name,
            args,
            caller,
            json,
        } => call::run(&name, &args, caller, json, start),
    }
}

impl From<As> for StandIn {
    fn from(caller: As) -> Self {
        match caller {
            As::Operator => Self::Operator,
            As::Guest => Self::Guest,
            As::Worker => Self::Worker,
            As::Job => Self::Job,
        }
    }
}
