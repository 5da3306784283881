//! One daemon in a home of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fermix_api::Request;
use fermix_testkit::TestHome;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::talk;
use crate::TaskError;
use crate::process::command;

/// How long a daemon may take to be ready on a busy machine.
const MAX_START: Duration = Duration::from_secs(30);
/// How long it may take to end when it is asked to.
const MAX_STOP: Duration = Duration::from_secs(40);

/// A running daemon. Dropping it kills it.
pub(crate) struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    /// Starts a daemon and waits until it answers. Gives the time that took.
    pub(crate) fn start(binary: &Path, home: &TestHome) -> Result<(Self, Duration), TaskError> {
        let started = Instant::now();
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(home.os_home().join("daemon.err"))
            .map_err(TaskError::file(home.os_home()))?;
        let mut start = command(binary);
        start
            .arg("run")
            .env_clear()
            .envs(home.env())
            .current_dir(home.workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = start.spawn().map_err(|cause| TaskError::Start {
            program: binary.display().to_string(),
            cause,
        })?;
        let mut daemon = Self {
            child,
            socket: home.fermix_home().join("daemon.sock"),
        };
        while started.elapsed() < MAX_START {
            if talk::ask(&daemon.socket, &Request::Status {}).is_ok() {
                return Ok((daemon, started.elapsed()));
            }
            if let Ok(Some(status)) = daemon.child.try_wait() {
                return Err(failed(home, &format!("it ended at once: {status}")));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Err(failed(home, "it was not ready in time"))
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it where it stands.
    pub(crate) fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits. False when it had to be killed.
    pub(crate) fn stop(mut self) -> bool {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        if kill(pid, Signal::SIGTERM).is_err() {
            return false;
        }
        let asked = Instant::now();
        while asked.elapsed() < MAX_STOP {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(home: &TestHome, what: &str) -> TaskError {
    let said = std::fs::read_to_string(home.os_home().join("daemon.err")).unwrap_or_default();
    let end: Vec<&str> = said.lines().rev().take(5).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    TaskError::Failed {
        program: "fermix run".to_owned(),
        detail: format!("{what}: {}", end.join(" | ")),
    }
}
