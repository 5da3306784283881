//! The document reader on its own, as the `fermix` binary holds it.

use std::process::ExitCode;

use fermix_tools::document::{ARGUMENT, child_main};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == ARGUMENT) {
        child_main(arguments)
    } else {
        ExitCode::from(2)
    }
}
