//! `fermix stop`: ends the daemon, and waits for that very process to be gone.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fermix_api::Request;
use fermix_daemon::run::MAX_STOP;
use fermix_daemon::{LocalPeer, locks};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;

use crate::client::{ClientError, Daemon};
use crate::output::{self, Exit};
use crate::start::Start;

/// How long a killed process may take to disappear.
const KILLED: Duration = Duration::from_secs(5);

/// Stops the daemon.
pub fn run(as_json: bool, start: &Start) -> Exit {
    if start.peer() == LocalPeer::StartedByFermix {
        return output::failure(
            as_json,
            "the daemon's end is the owner's to ask for, and this process was started by Fermix; \
             stop it in your own terminal",
        );
    }
    match stop(as_json, start) {
        Ok(exit) => exit,
        Err(error) => output::failure(as_json, &error),
    }
}

fn stop(as_json: bool, start: &Start) -> Result<Exit, String> {
    let runtime = start.runtime()?;
    let daemon = Daemon::of(&start.home);
    // Whoever holds the daemon's lock, before it is asked: afterwards its number may be another's.
    let Some(pid) = locks::daemon_pid(&start.home) else {
        return Ok(output::not_running(as_json));
    };
    let Some(process) = Process::open(pid)? else {
        return Ok(output::not_running(as_json));
    };
    match runtime.block_on(daemon.request(&Request::Shutdown {})) {
        Ok(_) => {}
        Err(error @ ClientError::Refused(_)) => return Err(error.to_string()),
        // It starts, it ends already, or it is stuck: its lock says that it is there.
        Err(ClientError::NotRunning | ClientError::Broken(_)) => process.send(Signal::TERM)?,
    }
    let mut was_killed = false;
    if !process.is_gone_within(MAX_STOP)? {
        process.send(Signal::KILL)?;
        was_killed = true;
        if !process.is_gone_within(KILLED)? {
            return Err(format!(
                "the daemon (process {pid}) is still there; end it with `kill -9 {pid}`"
            ));
        }
    }
    if as_json {
        output::json(&json!({ "status": "ok", "pid": pid, "killed": was_killed }));
    } else if was_killed {
        let waited = MAX_STOP.as_secs();
        output::line(&format!(
            "the daemon (process {pid}) did not end within {waited} s and was killed"
        ));
    } else {
        output::line(&format!("stopped the daemon (process {pid})"));
    }
    Ok(Exit::Ok)
}

/// One process and no other, even when its number is given to another.
struct Process(OwnedFd);

impl Process {
    /// `None` when there is none.
    fn open(pid: u32) -> Result<Option<Self>, String> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => Ok(Some(Self(process))),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(format!("cannot watch the daemon's process: {error}")),
        }
    }

    fn send(&self, signal: Signal) -> Result<(), String> {
        match pidfd_send_signal(&self.0, signal) {
            // It has ended meanwhile.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(format!("cannot signal the daemon's process: {error}")),
        }
    }

    fn is_gone_within(&self, patience: Duration) -> Result<bool, String> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&left)) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error) => return Err(format!("cannot wait for the daemon: {error}")),
            }
        }
    }
}
