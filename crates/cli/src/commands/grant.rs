//! `fermix grant path PATH`.

use fermix_daemon::approvals::policy::{GrantScope, Operation};

use super::sandbox::policy::{absolute, change};
use crate::args::GrantVerb;
use crate::output::Exit;
use crate::start::Start;

/// Opens a folder to the tools.
pub fn run(verb: GrantVerb, start: &Start) -> Exit {
    let GrantVerb::Path {
        path,
        read,
        change: args,
    } = verb;
    let scope = if read {
        GrantScope::Read
    } else {
        GrantScope::Always
    };
    let operation = Operation::Grant {
        path: absolute(&path, start),
        scope,
    };
    change(&operation, args, start)
}
