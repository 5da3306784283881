//! The one place where a development task starts a program.

use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;

use crate::TaskError;

/// A measured program that takes longer hangs and is killed.
const DEADLINE: Duration = Duration::from_secs(60);

/// A program that is not started in `sandbox`, because nothing of Fermix runs here.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "development tasks start cargo and the binary under test"
    )]
    Command::new(program)
}

/// Runs `cargo` in `root` with its output on the terminal. An unsuccessful end is an error.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<(), TaskError> {
    let status = command("cargo")
        .args(arguments)
        .current_dir(root)
        .status()
        .map_err(|cause| start_error("cargo", cause))?;
    if status.success() {
        return Ok(());
    }
    Err(TaskError::Failed {
        program: format!("cargo {}", arguments.join(" ")),
        detail: status.to_string(),
    })
}

/// Whether `cargo NAME --version` works.
pub(crate) fn has_cargo_tool(root: &Path, name: &str) -> bool {
    command("cargo")
        .args([name, "--version"])
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Which stream of a program is watched while it passes by.
#[derive(Clone, Copy)]
pub(crate) enum Watched {
    Stdout,
    Stderr,
}

/// Runs `command`, hands every line of the watched stream to `line`, and returns the exit status.
/// The other stream goes to the terminal untouched.
pub(crate) fn watch(
    mut command: Command,
    watched: Watched,
    mut line: impl FnMut(&str),
) -> Result<ExitStatus, TaskError> {
    let program = command.get_program().to_string_lossy().into_owned();
    match watched {
        Watched::Stdout => command.stdout(Stdio::piped()),
        Watched::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command
        .spawn()
        .map_err(|cause| start_error(&program, cause))?;
    let stream: Box<dyn Read> = match watched {
        Watched::Stdout => Box::new(child.stdout.take().expect("the stream was piped above")),
        Watched::Stderr => Box::new(child.stderr.take().expect("the stream was piped above")),
    };
    let mut reader = BufReader::new(stream);
    let mut bytes = Vec::new();
    // A line that is no UTF-8 must not end the run, so bytes are read.
    while reader
        .read_until(b'\n', &mut bytes)
        .is_ok_and(|count| count > 0)
    {
        line(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']));
        bytes.clear();
    }
    child.wait().map_err(|cause| start_error(&program, cause))
}

/// What one run of a program cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// From start to end.
    pub(crate) wall: Duration,
    /// User and system time of the program and of those of its children that it waited for.
    pub(crate) cpu: Duration,
}

/// Runs `command` to its end and measures it. It is killed after [`DEADLINE`].
pub(crate) fn measure(mut command: Command) -> Result<(Cost, Output), TaskError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let before = children_time()?;
    let started = Instant::now();
    let child = command
        .spawn()
        .map_err(|cause| start_error(&program, cause))?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let (ended, watch) = channel::<()>();
    let watchdog = std::thread::spawn(move || kill_late(pid, &watch));
    let output = child
        .wait_with_output()
        .map_err(|cause| start_error(&program, cause));
    let wall = started.elapsed();
    drop(ended);
    let was_late = watchdog.join().expect("the watchdog does not panic");
    let cpu = children_time()?.saturating_sub(before);
    if was_late {
        let detail = format!("no end within {} s", DEADLINE.as_secs());
        return Err(TaskError::Failed { program, detail });
    }
    Ok((Cost { wall, cpu }, output?))
}

/// Kills the program unless `ended` closes in time; whether it had to.
fn kill_late(pid: Pid, ended: &Receiver<()>) -> bool {
    let late = ended.recv_timeout(DEADLINE) == Err(RecvTimeoutError::Timeout);
    if late {
        // It may have ended this very moment; then there is nothing to kill.
        let _gone = kill(pid, Signal::SIGKILL);
    }
    late
}

/// User and system time of every program waited for so far.
fn children_time() -> Result<Duration, TaskError> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok(as_duration(usage.user_time()) + as_duration(usage.system_time()))
}

fn as_duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

fn start_error(program: &str, cause: std::io::Error) -> TaskError {
    TaskError::Start {
        program: program.to_owned(),
        cause,
    }
}
