//! One run from its start to the proof of its end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitId, WaitIdOptions};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::capture::Capture;
use super::direct::Direct;
use super::launched::Launched;
use super::{
    CommandOutcome, CommandSpec, Confinement, Ending, MAX_PRODUCED, RunError, Runner, Shared,
    Stderr,
};
use crate::confine::compose::Confined;
use crate::confine::plan::ConfinePlan;

/// Bytes read from a pipe at once.
const READ_SIZE: usize = 64 * 1024;
/// Reads that empty any pipe.
const MAX_DRAIN_READS: usize = 32;

pub(super) struct Run {
    pub(super) runner: Runner,
    pub(super) spec: CommandSpec,
    pub(super) deadline: Instant,
    pub(super) stop: CancellationToken,
}

/// A started command, by either way of starting it.
pub(super) enum Process {
    Launched(Launched),
    Direct(Direct),
}

/// What is known when a command and its tree have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) exit: i32,
    pub(super) signal: Option<i32>,
    pub(super) is_clean: bool,
}

impl Run {
    /// Runs the command and sends the outcome as soon as there is one; returns when the process is
    /// reaped.
    pub(super) async fn supervise(self, answer: oneshot::Sender<Result<CommandOutcome, RunError>>) {
        let label = self.spec.label;
        let marker = match crate::random_hex() {
            Ok(marker) => marker,
            Err(error) => {
                let source = error.into();
                let _ = answer.send(Err(RunError::NotStarted {
                    program: self.spec.program,
                    source,
                }));
                return;
            }
        };
        let (mut process, mut output) = match self.start(&marker).await {
            Ok(started) => started,
            Err(error) => {
                let _ = answer.send(Err(error));
                return;
            }
        };
        let started = Instant::now();
        let (ending, end) = self.attend(&mut process, &mut output).await;
        output.drain(ending == Ending::Exited);
        let confined = process.confined();
        let outcome = end.map(|end| CommandOutcome {
            confined,
            ..output.into_outcome(ending, end, started.elapsed())
        });
        match &outcome {
            Ok(outcome) if !outcome.is_clean => {
                tracing::error!(label, "processes of a run could not be ended");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(label, %error, "a run has no result"),
        }
        // The asker may be gone.
        let _ = answer.send(outcome);
        process.reap().await;
    }

    async fn start(&self, marker: &str) -> Result<(Process, Output), RunError> {
        let not_started = |source| RunError::NotStarted {
            program: self.spec.program.clone(),
            source,
        };
        let (output, stdout, stderr) = Output::open(&self.spec).map_err(not_started)?;
        let shared = &self.runner.shared;
        let process = match &shared.launcher {
            Some(launcher) => {
                let confine = self.confinement(marker).await?;
                let pipes = (stdout, stderr);
                Launched::start(shared, launcher, &self.spec, marker, confine, pipes)
                    .await
                    .map(Process::Launched)
            }
            None => {
                let policy = self.runner.policy();
                if policy.confines(&self.spec.jail)
                    && let Some(refusal) = self.runner.refusal(&policy)
                {
                    return Err(refusal);
                }
                Direct::start(shared, &self.spec, marker, stdout, stderr)
                    .await
                    .map(Process::Direct)
            }
        };
        Ok((process?, output))
    }

    /// The confinement of this command and the environment that fits it; nothing when it is to have
    /// none. Looks at the disk, and the first time tries out the kernel.
    async fn confinement(
        &self,
        marker: &str,
    ) -> Result<Option<(ConfinePlan, Vec<(OsString, OsString)>)>, RunError> {
        let policy = self.runner.policy();
        if !policy.confines(&self.spec.jail) {
            return Ok(None);
        }
        let runner = self.runner.clone();
        let jail = self.spec.jail.clone();
        let cwd = self.spec.cwd.path().to_owned();
        let mut env = self.spec.env.clone();
        let runs_own_program = Runner::is_own(&runner.shared, &self.spec.program);
        let marker = marker.to_owned();
        let planned = tokio::task::spawn_blocking(move || {
            if let Some(refusal) = runner.refusal(&policy) {
                return Err(refusal);
            }
            let command = Confined {
                jail: &jail,
                cwd: &cwd,
                runs_own_program,
                marker: &marker,
            };
            let plan = policy.plan(&command, &runner.machine(), &mut env);
            Ok(Some((plan, env)))
        });
        planned.await.unwrap_or(Err(RunError::Lost))
    }

    /// Reads output until the command has ended, by itself or because it was told to.
    async fn attend(
        &self,
        process: &mut Process,
        output: &mut Output,
    ) -> (Ending, Result<End, RunError>) {
        let mut ending = Ending::Exited;
        let mut is_stopping = false;
        loop {
            let why = tokio::select! {
                () = process.is_over() => break,
                is_too_much = output.read(is_stopping) => {
                    if !is_too_much || is_stopping { continue }
                    Ending::OutputLimit
                }
                () = tokio::time::sleep_until(self.deadline), if !is_stopping => Ending::TimedOut,
                () = self.stop.cancelled(), if !is_stopping => Ending::Cancelled,
            };
            (ending, is_stopping) = (why, true);
            output.drain(why != Ending::OutputLimit);
            process.stop();
        }
        (ending, process.finish(&self.spec.program).await)
    }
}

impl Process {
    /// Waits until there is nothing more to wait for. May be dropped and called again.
    async fn is_over(&mut self) {
        match self {
            Self::Launched(process) => process.is_over().await,
            Self::Direct(process) => process.is_over().await,
        }
    }

    fn confined(&self) -> Confinement {
        match self {
            Self::Launched(process) => process.confined,
            Self::Direct(_) => Confinement::NONE,
        }
    }

    /// Makes [`Process::is_over`] come true soon.
    fn stop(&mut self) {
        match self {
            Self::Launched(process) => process.stop(),
            Self::Direct(process) => process.stop(),
        }
    }

    /// Ends what is left of the tree and says how the command ended.
    async fn finish(&mut self, program: &Path) -> Result<End, RunError> {
        match self {
            Self::Launched(process) => process.finish(program).await,
            Self::Direct(process) => process.finish().await,
        }
    }

    async fn reap(self) {
        match self {
            Self::Launched(mut process) => {
                process.leader.reaped().await;
            }
            // It was reaped to learn how it ended.
            Self::Direct(_) => {}
        }
    }
}

/// A child of this process, reaped exactly once.
pub(super) struct Leader {
    child: Child,
    /// Waits on a thread of its own. There is at most one for each run, and it ends with the run.
    exits: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    is_reaped: bool,
}

impl Leader {
    /// Starts `command` on a blocking thread: the system call returns only once the new program is
    /// in place.
    pub(super) async fn spawn(shared: &Arc<Shared>, mut command: Command) -> io::Result<Self> {
        let registry = shared.clone();
        let spawned = tokio::task::spawn_blocking(move || {
            let mut leaders = registry.leaders();
            let child = command.spawn()?;
            leaders.insert(pid_of(&child));
            Ok::<_, io::Error>(child)
        });
        let child = spawned.await.map_err(io::Error::other)??;
        Ok(Self {
            child,
            exits: None,
            shared: shared.clone(),
            is_reaped: false,
        })
    }

    pub(super) fn pid(&self) -> i32 {
        pid_of(&self.child)
    }

    /// Waits until the process has exited, without reaping it: until then its number is its own.
    /// May be dropped and called again.
    pub(super) async fn exited(&mut self) {
        let Some(pid) = Pid::from_raw(self.pid()) else {
            return;
        };
        let exits = self.exits.get_or_insert_with(|| {
            tokio::task::spawn_blocking(move || {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                while matches!(
                    rustix::process::waitid(WaitId::Pid(pid), options),
                    Err(Errno::INTR)
                ) {}
            })
        });
        if !exits.is_finished() {
            // A failed wait means that there is nothing to wait for.
            let _ = exits.await;
        }
    }

    /// Reaps the process once it has exited.
    pub(super) async fn reaped(&mut self) -> Option<ExitStatus> {
        self.exited().await;
        let status = self.child.wait().ok();
        self.forget();
        status
    }

    fn forget(&mut self) {
        self.is_reaped = true;
        let pid = self.pid();
        self.shared.leaders().remove(&pid);
    }
}

impl Drop for Leader {
    /// Only reached unreaped when the runtime goes down in the middle of a run.
    fn drop(&mut self) {
        if !self.is_reaped {
            // A launcher sees its socket close, ends its tree and then itself.
            let _ = self.child.try_wait();
            self.forget();
        }
    }
}

pub(super) fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap_or(0)
}

/// The reading ends of a run's pipes and what came out of them.
struct Output {
    stdout: Stream,
    stderr: Option<Stream>,
}

struct Stream {
    pipe: Option<Receiver>,
    buffer: Box<[u8]>,
    capture: Capture,
}

impl Output {
    fn open(spec: &CommandSpec) -> io::Result<(Self, Stdio, Stdio)> {
        let (stdout, writer) = Stream::open(spec.output_cap)?;
        let (stderr, error_writer) = match spec.stderr {
            Stderr::Merged => (None, Stdio::from(writer.as_fd().try_clone_to_owned()?)),
            Stderr::Discarded => (None, Stdio::null()),
            Stderr::Separate => {
                let (stream, writer) = Stream::open(spec.output_cap)?;
                (Some(stream), Stdio::from(writer))
            }
        };
        Ok((Self { stdout, stderr }, Stdio::from(writer), error_writer))
    }

    /// Reads a little. Whether the run has printed too much. Never returns once all pipes are closed.
    async fn read(&mut self, discard: bool) -> bool {
        match &mut self.stderr {
            None => self.stdout.read_some(discard).await,
            Some(stderr) => {
                tokio::select! {
                    () = self.stdout.read_some(discard) => {}
                    () = stderr.read_some(discard) => {}
                }
            }
        }
        let other = self
            .stderr
            .as_ref()
            .map_or(0, |stream| stream.capture.total());
        self.stdout.capture.total() + other > MAX_PRODUCED
    }

    /// Takes what is left in the pipes of a tree that is gone. A pipe that was passed to a stranger
    /// stays open, so the end of the stream is not waited for.
    fn drain(&mut self, keep: bool) {
        self.stdout.drain(keep);
        if let Some(stderr) = &mut self.stderr {
            stderr.drain(keep);
        }
    }

    fn into_outcome(self, ending: Ending, end: End, duration: Duration) -> CommandOutcome {
        let (stdout, omitted_out) = self.stdout.capture.finish();
        let (stderr, omitted_err) = self
            .stderr
            .map(|stream| stream.capture.finish())
            .unwrap_or_default();
        CommandOutcome {
            ending,
            exit: end.exit,
            signal: end.signal,
            stdout,
            stderr,
            truncated: omitted_out + omitted_err > 0,
            omitted_bytes: omitted_out + omitted_err,
            duration,
            confined: Confinement::NONE,
            is_clean: end.is_clean,
        }
    }
}

impl Stream {
    fn open(cap: usize) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let pipe = Some(Receiver::from_owned_fd(reader)?);
        let buffer = vec![0; READ_SIZE].into_boxed_slice();
        Ok((
            Self {
                pipe,
                buffer,
                capture: Capture::new(cap),
            },
            writer,
        ))
    }

    async fn read_some(&mut self, discard: bool) {
        let Some(pipe) = &mut self.pipe else {
            return std::future::pending().await;
        };
        match pipe.read(&mut self.buffer).await {
            Ok(0) | Err(_) => self.pipe = None,
            Ok(count) if !discard => self.capture.push(&self.buffer[..count]),
            Ok(_) => {}
        }
    }

    fn drain(&mut self, keep: bool) {
        let Some(pipe) = &self.pipe else { return };
        // A writer that keeps writing cannot hold us here longer than this.
        for _ in 0..MAX_DRAIN_READS {
            // The runtime would answer from what it last heard about the pipe, which may be older
            // than what is in it.
            match rustix::io::read(pipe, &mut self.buffer[..]) {
                Ok(count) if count > 0 => {
                    if keep {
                        self.capture.push(&self.buffer[..count]);
                    }
                }
                _ => return,
            }
        }
    }
}
