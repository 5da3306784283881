//! `fermix revoke path PATH`.

use fermix_daemon::approvals::policy::Operation;

use super::sandbox::policy::{absolute, change};
use crate::args::RevokeVerb;
use crate::output::Exit;
use crate::start::Start;

/// Takes a granted folder away. Nothing is asked: it only narrows.
pub fn run(verb: RevokeVerb, start: &Start) -> Exit {
    let RevokeVerb::Path { path, change: args } = verb;
    let operation = Operation::Revoke {
        path: absolute(&path, start),
    };
    change(&operation, args, start)
}
