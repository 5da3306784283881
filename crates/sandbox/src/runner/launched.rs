//! A run under a launcher of its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::supervise::{End, Leader};
use super::{CommandSpec, RunError, Shared};
use crate::confine::plan::ConfinePlan;
use crate::confine::{Confinement, Step};
use crate::launcher::ARGUMENT;
use crate::plan::{Plan, Report, TERMINATE};
use crate::process_tree::{
    MARKER_VARIABLE, Process, carries_marker, freeze_and_kill, processes, read, with_descendants,
};
use crate::spawn;

/// How long after being told to stop the launcher may take before its tree is killed over its head.
const OVERDUE: Duration = Duration::from_millis(400);
/// How long a launcher may take to read its plan.
const MAX_HANDOVER: Duration = Duration::from_secs(2);
/// How long killed processes may take to disappear before the tree is given up on.
const MAX_SWEEP: Duration = Duration::from_secs(2);

pub(super) struct Launched {
    pub(super) leader: Leader,
    socket: UnixStream,
    marker: String,
    shared: Arc<Shared>,
    started: u64,
    report: [u8; Report::LEN],
    received: usize,
    overdue: Option<Instant>,
    was_stopped: bool,
    is_gone: bool,
    pub(super) confined: Confinement,
}

impl Launched {
    pub(super) async fn start(
        shared: &Arc<Shared>,
        launcher: &Path,
        spec: &CommandSpec,
        marker: &str,
        confine: Option<(ConfinePlan, Vec<(OsString, OsString)>)>,
        (stdout, stderr): (Stdio, Stdio),
    ) -> Result<Self, RunError> {
        let failed = |source: io::Error| RunError::NotStarted {
            program: spec.program.clone(),
            source,
        };
        let (confine, mut env) = match confine {
            Some((confine, env)) => (Some(confine), env),
            None => (None, spec.env.clone()),
        };
        let confined = confine
            .as_ref()
            .map_or(Confinement::NONE, |confine| confine.layers);
        // Whatever the name outside is, this one leads there from everywhere.
        let program = match &confine {
            Some(confine) if confine.runs_own_program => Path::new("/proc/self/exe"),
            _ => spec.program.as_path(),
        };
        env.retain(|(name, _)| name != MARKER_VARIABLE);
        env.push((MARKER_VARIABLE.into(), marker.into()));
        let plan = Plan {
            program: program.as_os_str().to_owned(),
            args: spec.args.clone(),
            env,
            stdin: spec.stdin.clone(),
            umask: if spec.private_files { 0o077 } else { 0o022 },
            confine,
        };
        let plan = plan
            .to_bytes()
            .ok_or(RunError::Invalid("the command and its input are too long"))?;
        let (ours, theirs) = StdStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let mut socket = UnixStream::from_std(ours).map_err(failed)?;
        let mut command = spawn::command(launcher);
        command
            .arg(ARGUMENT)
            .env(MARKER_VARIABLE, marker)
            .current_dir(descriptor_path(&spec.cwd.handle))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(stdout)
            .stderr(stderr);
        let leader = Leader::spawn(shared, command).await.map_err(failed)?;
        // A launcher that is not one closes the socket, and one that is stuck does not read; either
        // way there is no report, and that is told.
        let _ = tokio::time::timeout(MAX_HANDOVER, socket.write_all(&plan)).await;
        let started = read(leader.pid()).map_or(0, |process| process.started);
        Ok(Self {
            leader,
            socket,
            marker: marker.to_owned(),
            shared: shared.clone(),
            started,
            report: [0; Report::LEN],
            received: 0,
            overdue: None,
            was_stopped: false,
            is_gone: false,
            confined,
        })
    }

    /// Waits for the report, for the end of the launcher, or until it is overdue.
    pub(super) async fn is_over(&mut self) {
        while self.received < Report::LEN && !self.is_gone {
            let overdue = self.overdue;
            tokio::select! {
                read = self.socket.read(&mut self.report[self.received..]) => match read {
                    Ok(count) if count > 0 => self.received += count,
                    _ => self.is_gone = true,
                },
                () = sleep_until(overdue) => self.is_gone = true,
            }
        }
    }

    pub(super) fn stop(&mut self) {
        self.was_stopped = true;
        // A socket that does not take one byte belongs to a launcher that is gone.
        let _ = rustix::io::write(&self.socket, &[TERMINATE]);
        self.overdue = Some(Instant::now() + OVERDUE);
    }

    pub(super) async fn finish(&mut self, program: &Path) -> Result<End, RunError> {
        let report = if self.received == Report::LEN {
            Report::from_bytes(&self.report)
        } else {
            None
        };
        match report {
            Some(Report::NotStarted(number)) => {
                let source = io::Error::from_raw_os_error(number);
                Err(match source.kind() {
                    io::ErrorKind::NotFound => RunError::ExecutableNotFound(program.to_owned()),
                    _ => RunError::NotStarted {
                        program: program.to_owned(),
                        source,
                    },
                })
            }
            Some(Report::NotConfined { step, errno }) => Err(RunError::NotConfined {
                step: Step::from_number(step).ok_or(RunError::Lost)?,
                source: io::Error::from_raw_os_error(errno),
            }),
            Some(Report::Ended {
                exit,
                signal,
                is_clean,
            }) => {
                // The report is believed, and after a stop it is also checked.
                let is_clean = is_clean && (!self.was_stopped || self.kill_over_its_head().await);
                Ok(End {
                    exit,
                    signal,
                    is_clean,
                })
            }
            None => {
                let is_clean = self.kill_over_its_head().await;
                // It was to be ended, and that is how it ended.
                if self.was_stopped {
                    Ok(End {
                        exit: 128 + 9,
                        signal: Some(9),
                        is_clean,
                    })
                } else {
                    Err(RunError::Lost)
                }
            }
        }
    }

    /// Ends whatever of this run is still there, the launcher included. Whether nothing is.
    async fn kill_over_its_head(&self) -> bool {
        let (leader, marker, started, shared) = (
            self.leader.pid(),
            self.marker.clone(),
            self.started,
            self.shared.clone(),
        );
        let sweep = tokio::task::spawn_blocking(move || {
            let begun = std::time::Instant::now();
            while begun.elapsed() < MAX_SWEEP {
                let mut found = Vec::new();
                let killed = freeze_and_kill(|| {
                    found = members(leader, &marker, started, &shared)?;
                    Ok(found.clone())
                });
                match killed {
                    Ok(0) => return true,
                    Ok(_) => std::thread::sleep(Duration::from_millis(2)),
                    Err(_) => return false,
                }
                reap_adopted(&found, leader);
            }
            false
        });
        sweep.await.unwrap_or(false)
    }
}

/// The launcher, its descendants, its session, whatever carries the run's marker, and orphans that
/// were adopted here since the run began: nobody else's orphans come here.
fn members(leader: i32, marker: &str, started: u64, shared: &Shared) -> io::Result<Vec<Process>> {
    let all = processes()?;
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let leaders = shared.leaders();
    let is_orphaned = read(leader).is_none_or(|leader| leader.is_zombie);
    Ok(with_descendants(&all, |process| {
        let is_adopted = || {
            is_orphaned
                && process.parent == me
                && process.started >= started
                && !leaders.contains(&process.pid)
                && !carries_any_marker(process.pid)
        };
        process.pid == leader
            || process.session == leader
            || (process.started >= started && carries_marker(process.pid, marker))
            || is_adopted()
    }))
}

/// Another run's process, which its own run will end.
fn carries_any_marker(pid: i32) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    environment.split(|byte| *byte == 0).any(|entry| {
        entry
            .strip_prefix(MARKER_VARIABLE.as_bytes())
            .is_some_and(|rest| rest.starts_with(b"="))
    })
}

/// Reaps the killed processes that came to be children of this one. The leader is reaped by its owner.
fn reap_adopted(processes: &[Process], leader: i32) {
    for process in processes.iter().filter(|process| process.pid != leader) {
        if let Some(pid) = Pid::from_raw(process.pid) {
            // Those that are not our children are their parent's to reap.
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// The folder a descriptor stands for, as a path that only a copy of this process can use: the child
/// changes to it before it becomes another program, so nothing can be swapped in between.
pub(super) fn descriptor_path(folder: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd())
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
