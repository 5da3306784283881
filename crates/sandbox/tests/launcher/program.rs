//! The launcher on its own, as the `fermix` binary holds it.

use std::process::ExitCode;

fn main() -> ExitCode {
    if fermix_sandbox::launcher::is_asked_for(std::env::args_os().skip(1)) {
        fermix_sandbox::launcher::main()
    } else {
        ExitCode::from(2)
    }
}
