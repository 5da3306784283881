//! The launcher on its own, as the `fermix` binary holds it. Under a name such as
//! `fail-at-landlock` it is one in which that step of confinement fails, as on a machine without it;
//! as `fail-late-at-landlock` the step fails for commands only, not when the machine is tried out.

use std::path::Path;
use std::process::ExitCode;

use fermix_sandbox::{RUN_MARKER, Step, launcher};

#[expect(
    clippy::disallowed_methods,
    reason = "the run's mark tells a command from a trial"
)]
fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    if !launcher::is_asked_for(arguments) {
        return ExitCode::from(2);
    }
    let name = Path::new(&name).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let step = |prefix| {
        let step = name.strip_prefix(prefix)?;
        Step::ALL.iter().find(|known| known.as_str() == step)
    };
    let is_command = std::env::var_os(RUN_MARKER).is_some();
    match step("fail-at-").or_else(|| step("fail-late-at-").filter(|_| is_command)) {
        Some(step) => launcher::main_failing_at(*step),
        None => launcher::main(),
    }
}
