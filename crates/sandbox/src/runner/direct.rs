//! A run without a launcher, for programs that embed the sandbox and are not one themselves.
//!
//! The tree is found by ancestry, group and marker when the command ends or is stopped. It is not
//! tied to the life of this process, which is why the `fermix` binary never runs this way.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use super::launched::descriptor_path;
use super::supervise::{End, Leader};
use super::{CommandSpec, RunError, Shared};
use crate::launcher::{GRACE, in_memory};
use crate::process_tree::{
    MARKER_VARIABLE, Process, carries_marker, freeze_and_kill, processes, read, send,
    with_descendants,
};
use crate::spawn;

/// How long killed processes may take to disappear before the tree is given up on.
const MAX_SWEEP: Duration = Duration::from_secs(2);

pub(super) struct Direct {
    pub(super) leader: Leader,
    tree: Tree,
    grace_ends: Option<Instant>,
    has_ended: bool,
}

#[derive(Clone)]
struct Tree {
    leader: i32,
    started: u64,
    marker: String,
}

impl Direct {
    pub(super) async fn start(
        shared: &Arc<Shared>,
        spec: &CommandSpec,
        marker: &str,
        stdout: Stdio,
        stderr: Stdio,
    ) -> Result<Self, RunError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => RunError::ExecutableNotFound(spec.program.clone()),
            _ => RunError::NotStarted {
                program: spec.program.clone(),
                source,
            },
        };
        let stdin = match &spec.stdin {
            None => Stdio::null(),
            Some(bytes) => Stdio::from(in_memory(bytes).map_err(failed)?),
        };
        let mut command = spawn::command(&spec.program);
        command
            .args(&spec.args)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .env(MARKER_VARIABLE, marker)
            .current_dir(descriptor_path(&spec.cwd.handle))
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0);
        let leader = Leader::spawn(shared, command).await.map_err(failed)?;
        let pid = leader.pid();
        let started = read(pid).map_or(0, |process| process.started);
        let tree = Tree {
            leader: pid,
            started,
            marker: marker.to_owned(),
        };
        Ok(Self {
            leader,
            tree,
            grace_ends: None,
            has_ended: false,
        })
    }

    /// Waits until the command has ended, or until it has had its grace.
    pub(super) async fn is_over(&mut self) {
        match self.grace_ends {
            None => self.leader.exited().await,
            Some(grace_ends) => {
                // Whether or not it has ended by then, the sweep follows.
                let _ = tokio::time::timeout_at(grace_ends, self.leader.exited()).await;
            }
        }
    }

    pub(super) async fn finish(&mut self) -> Result<End, RunError> {
        let tree = self.tree.clone();
        let sweep = tokio::task::spawn_blocking(move || tree.sweep());
        let is_clean = sweep.await.unwrap_or(false);
        let status = self.leader.reaped().await.ok_or(RunError::Lost)?;
        self.has_ended = true;
        let signal = status.signal();
        let exit = status
            .code()
            .or_else(|| signal.map(|signal| 128 + signal))
            .unwrap_or(-1);
        Ok(End {
            exit,
            signal,
            is_clean,
        })
    }

    pub(super) fn stop(&mut self) {
        self.grace_ends = Some(Instant::now() + GRACE);
        for process in self.tree.members().unwrap_or_default() {
            send(process.pid, Signal::TERM);
        }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        if !self.has_ended {
            self.tree.sweep();
        }
    }
}

impl Tree {
    /// The leader, which is not reaped yet and so still has its number, and what belongs to it.
    fn members(&self) -> io::Result<Vec<Process>> {
        let all = processes()?;
        let mut found = with_descendants(&all, |process| {
            process.pid == self.leader
                || process.group == self.leader
                || (process.started >= self.started && carries_marker(process.pid, &self.marker))
        });
        found.retain(|process| !process.is_zombie);
        Ok(found)
    }

    /// Kills what is left. Whether nothing is.
    fn sweep(&self) -> bool {
        let begun = std::time::Instant::now();
        while begun.elapsed() < MAX_SWEEP {
            match freeze_and_kill(|| self.members()) {
                Ok(0) => return true,
                Ok(_) => std::thread::sleep(Duration::from_millis(2)),
                Err(_) => return false,
            }
        }
        false
    }
}
