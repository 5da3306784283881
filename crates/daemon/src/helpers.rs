//! The small processes this program becomes when it starts itself: between Fermix and a command,
//! and around a document that nobody trusts.

use std::process::ExitCode;

/// Does the helper's work when the arguments of this process ask for one. Comes before anything
/// else in `main`, while there is one thread.
pub fn run_if_asked() -> Option<ExitCode> {
    if fermix_sandbox::launcher::is_asked_for(std::env::args_os().skip(1)) {
        return Some(fermix_sandbox::launcher::main());
    }
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    (first == fermix_tools::document::ARGUMENT)
        .then(|| fermix_tools::document::child_main(arguments))
}
