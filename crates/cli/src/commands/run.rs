//! `fermix run`: the daemon, in the foreground.

use std::sync::Arc;
use std::time::Duration;

use fermix_daemon::run::{Boot, Daemon, Ended, say_ready};
use fermix_daemon::{LocalPeer, logs};

use crate::output::{self, Exit};
use crate::start::Start;

/// How long threads that are still busy when everything has ended may take.
const LAST_THREADS: Duration = Duration::from_millis(500);

/// Runs until told to end.
pub fn run(start: Start) -> Exit {
    // A daemon that the agent starts would take the owner's place: its commands would be the
    // owner's own processes to it.
    if start.peer() == LocalPeer::StartedByFermix {
        return output::failure(
            false,
            "the daemon is the owner's to start, and this process was started by Fermix; start it \
             in your own terminal",
        );
    }
    match prepare(start) {
        Ok(exit) => exit,
        Err(error) => output::failure(false, &error),
    }
}

fn prepare(start: Start) -> Result<Exit, String> {
    let home = start.home.clone();
    logs::to_file(home.log_file(), &start.environment, &start.redactor)?;
    let daemon = Daemon::prepare(Boot {
        home: home.clone(),
        environment: start.environment.clone(),
        executable: start.executable.clone(),
        redactor: Arc::clone(&start.redactor),
    })
    .map_err(|error| error.to_string())?;
    for warning in daemon.warnings() {
        output::notice(&format!("warning: {warning}"));
    }
    let runtime = start.runtime()?;
    let ended = runtime.block_on(daemon.run(|| say_ready(&home)));
    runtime.shutdown_timeout(LAST_THREADS);
    match ended {
        Ok(Ended::InOrder) => Ok(Exit::Ok),
        Ok(Ended::AtOnce(code)) => Ok(Exit::AtOnce(code)),
        Err(error) => Err(error.to_string()),
    }
}
