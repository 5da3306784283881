//! The small process between Fermix and a command.
//!
//! It is this very executable, started again. It leads a session of its own, starts the command,
//! adopts whatever the command's tree orphans (so that no process can hide by leaving its parent,
//! its group or its session), and ends only when all of it is gone. It does so when the command
//! ends, when it is told to stop, and when Fermix itself dies: then the socket between them closes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode, memfd_create};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid};

use crate::confine::enter::{Entered, Leftovers, enter};
use crate::confine::step::{Step, Steps};
use crate::plan::{Plan, Report, TERMINATE, write_report};
use crate::process_tree::{descendants, freeze_and_kill, processes, send};
use crate::spawn;

/// The first argument that makes the executable a launcher.
pub const ARGUMENT: &str = "__launch";

/// How long a tree that is told to stop has before it is killed.
pub(crate) const GRACE: Duration = Duration::from_millis(200);
/// How long killed processes may take to disappear before the launcher gives up on them. Only a
/// process stuck inside the kernel takes longer.
const MAX_SWEEP: Duration = Duration::from_secs(2);
/// How much longer than its grace the first process of a namespace may take to report.
const MARGIN: Duration = Duration::from_millis(100);
/// How often adopted children are reaped while the command runs.
const REAP_EVERY: Duration = Duration::from_secs(1);
/// How often exits are looked for on a kernel without process descriptors, and during a sweep.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The launcher's whole life. To be called before anything else, while the process has one thread.
pub fn main() -> ExitCode {
    main_with(Steps::default())
}

/// A launcher in which one step of confinement fails, for the tests that see that nothing runs then.
#[doc(hidden)]
pub fn main_failing_at(step: Step) -> ExitCode {
    main_with(Steps { broken: Some(step) })
}

fn main_with(steps: Steps) -> ExitCode {
    match launch(steps) {
        Ok(true) => ExitCode::SUCCESS,
        // Nobody reads words from here; the report or the closed socket says it.
        Ok(false) | Err(_) => ExitCode::from(125),
    }
}

/// Whether `arguments`, without the executable's own name, ask for a launcher.
pub fn is_asked_for(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.next().is_some_and(|first| first == ARGUMENT) && arguments.next().is_none()
}

/// Whether the command was started.
fn launch(steps: Steps) -> io::Result<bool> {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let plan = Plan::read(&mut socket)?;
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(getpid()))?;
    rustix::process::umask(Mode::from_raw_mode(plan.umask));
    keep_descriptors_to_myself()?;
    let Some(confine) = &plan.confine else {
        let report = match start(&plan) {
            Ok(main) => attend_tree(main, &mut socket),
            Err(error) => not_started(&error),
        };
        return finish(report, &mut socket);
    };
    let mut leftovers = Leftovers::default();
    let mut socket = Some(socket);
    let entered = enter(&plan, confine, steps, &mut socket, &mut leftovers);
    let Some(mut socket) = socket else {
        return Err(io::ErrorKind::NotConnected.into());
    };
    let report = match entered {
        Ok(Entered::Init(init, control)) => attend_init(init, control, &mut socket),
        Ok(Entered::Command(main)) => attend_tree(main, &mut socket),
        Err(report) => report,
    };
    leftovers.remove();
    finish(report, &mut socket)
}

fn finish(report: Report, socket: &mut UnixStream) -> io::Result<bool> {
    // Nobody may be left to hear it.
    let _ = write_report(report, socket);
    Ok(matches!(report, Report::Ended { .. }))
}

fn not_started(error: &io::Error) -> Report {
    Report::NotStarted(error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()))
}

/// Watches over a command that shares the process list with Fermix.
fn attend_tree(main: Pid, socket: &mut UnixStream) -> Report {
    let mut tree = Tree { main, status: None };
    match tree.watch(socket) {
        Order::Ended | Order::Kill => {}
        Order::Terminate => tree.terminate(socket),
    }
    let is_clean = tree.sweep();
    let (exit, signal) = tree.status.map_or((-1, None), exit_of);
    Report::Ended {
        exit,
        signal,
        is_clean,
    }
}

/// Watches over the first process of a process namespace. The kernel ends everything in there before
/// that process is gone, and only then is it reaped: that is the proof.
fn attend_init(init: Pid, mut control: UnixStream, socket: &mut UnixStream) -> Report {
    let report = hear(&mut control, socket);
    let is_clean = end(init);
    match report {
        Some(Report::Ended { exit, signal, .. }) => Report::Ended {
            exit,
            signal,
            is_clean,
        },
        Some(other) => other,
        // It was killed: by this process, or by the kernel because memory ran out.
        None => Report::Ended {
            exit: 128 + 9,
            signal: Some(9),
            is_clean,
        },
    }
}

/// What the first process reports; nothing when it is to be killed or is dead.
fn hear(control: &mut UnixStream, socket: &mut UnixStream) -> Option<Report> {
    let mut bytes = [0; Report::LEN];
    let mut received = 0;
    let mut overdue: Option<Instant> = None;
    while received < Report::LEN {
        let left = overdue.map(|overdue| overdue.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return None;
        }
        let mut watched = vec![PollFd::new(&*control, PollFlags::IN)];
        if overdue.is_none() {
            watched.push(PollFd::new(&*socket, PollFlags::IN));
        }
        match poll(&mut watched, left.map(timespec).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let has_order = watched.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if !watched[0].revents().is_empty() {
            match control.read(&mut bytes[received..]) {
                Ok(count) if count > 0 => received += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return None,
            }
        } else if has_order {
            let mut order = [0];
            match socket.read(&mut order) {
                Ok(1) if order[0] == TERMINATE => {
                    control.write_all(&order).ok()?;
                    overdue = Some(Instant::now() + GRACE + MARGIN);
                }
                _ => return None,
            }
        }
    }
    Report::from_bytes(&bytes)
}

/// Kills the first process of a namespace. Whether it, and with it everything inside, is gone.
fn end(init: Pid) -> bool {
    send(init.as_raw_nonzero().get(), Signal::KILL);
    let started = Instant::now();
    loop {
        match rustix::process::waitpid(Some(init), WaitOptions::NOHANG) {
            Ok(None) | Err(Errno::INTR) => {}
            Ok(Some(_)) | Err(_) => return true,
        }
        if started.elapsed() > MAX_SWEEP {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The life of the first process of a namespace: it starts the command, reaps what is orphaned, and
/// takes everything along when it goes. Returns its exit code.
pub(crate) fn init(plan: &Plan, control: &mut UnixStream) -> i32 {
    let main = match start(plan) {
        Ok(main) => main,
        Err(error) => {
            let _ = write_report(not_started(&error), control);
            return 125;
        }
    };
    let mut tree = Tree { main, status: None };
    match tree.watch(control) {
        Order::Ended => {}
        Order::Terminate => tree.terminate_namespace(),
        Order::Kill => return 125,
    }
    let (exit, signal) = tree.status.map_or((128 + 9, Some(9)), exit_of);
    let report = Report::Ended {
        exit,
        signal,
        is_clean: true,
    };
    i32::from(write_report(report, control).is_err())
}

/// Replaces this process with the command; returns only when that fails.
pub(crate) fn become_command(plan: &Plan) -> io::Error {
    match command(plan) {
        Ok(mut command) => command.exec(),
        Err(error) => error,
    }
}

/// The exit code as a shell gives it, and the signal that ended the process.
pub(crate) fn exit_of(status: WaitStatus) -> (i32, Option<i32>) {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(exit), _) => (exit, None),
        (None, Some(signal)) => (128 + signal, Some(signal)),
        (None, None) => (-1, None),
    }
}

/// Everything but the three standard streams stays behind when the command is started.
fn keep_descriptors_to_myself() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<RawFd>().ok());
        if let Some(number) = number.filter(|number| *number > 2) {
            close_on_exec(number)?;
        }
    }
    Ok(())
}

/// Descriptors that came from outside have no owner in this process, so there is no safe value to
/// call this on.
#[expect(unsafe_code, reason = "inherited descriptors are only known by number")]
fn close_on_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: the number comes from the list of this process's open descriptors, the process has one
    // thread that could close it, and it is borrowed for this one call.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    match rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC) {
        // The list itself was open while it was read.
        Ok(()) | Err(Errno::BADF) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn start(plan: &Plan) -> io::Result<Pid> {
    let child = command(plan)?.spawn()?;
    // The handle is dropped: this process reaps all its children by one call.
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(0))
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn command(plan: &Plan) -> io::Result<std::process::Command> {
    let stdin = match &plan.stdin {
        None => Stdio::null(),
        Some(bytes) => Stdio::from(in_memory(bytes)?),
    };
    let mut command = spawn::command(Path::new(&plan.program));
    command
        .args(&plan.args)
        .envs(plan.env.iter().map(|(name, value)| (name, value)))
        .stdin(stdin)
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        // A group apart from the launcher's, so that `kill 0` in the command does not reach it.
        .process_group(0);
    Ok(command)
}

/// A file without a name that holds `bytes`: unlike a pipe it never makes its writer wait.
pub(crate) fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Why the launcher stops waiting.
enum Order {
    /// The command ended by itself.
    Ended,
    /// Fermix wants it to end.
    Terminate,
    /// Fermix is gone.
    Kill,
}

struct Tree {
    main: Pid,
    status: Option<WaitStatus>,
}

impl Tree {
    fn watch(&mut self, socket: &mut UnixStream) -> Order {
        let exits = rustix::process::pidfd_open(self.main, PidfdFlags::empty()).ok();
        let wait = timespec(if exits.is_some() {
            REAP_EVERY
        } else {
            LOOK_EVERY
        });
        loop {
            let has_order = {
                let mut watched = vec![PollFd::new(&*socket, PollFlags::IN)];
                watched.extend(
                    exits
                        .as_ref()
                        .map(|exits| PollFd::new(exits, PollFlags::IN)),
                );
                match poll(&mut watched, Some(&wait)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    // Without a way to hear of the end there is only one safe end.
                    Err(_) => return Order::Kill,
                }
                !watched[0].revents().is_empty()
            };
            self.reap();
            if self.status.is_some() {
                return Order::Ended;
            }
            if has_order {
                let mut order = [0];
                return match socket.read(&mut order) {
                    Ok(1) if order[0] == TERMINATE => Order::Terminate,
                    _ => Order::Kill,
                };
            }
        }
    }

    /// Reaps what has ended. False when there is nothing left below this process: as it adopts every
    /// orphan, that proves that the tree is gone.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.status = Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Asks everything to end and waits a little.
    fn terminate(&mut self, socket: &mut UnixStream) {
        for process in processes()
            .map(|all| descendants(my_pid(), &all))
            .unwrap_or_default()
        {
            send(process.pid, Signal::TERM);
        }
        let started = Instant::now();
        while self.reap() && started.elapsed() < GRACE {
            let mut watched = [PollFd::new(&*socket, PollFlags::IN)];
            let is_abandoned =
                matches!(poll(&mut watched, Some(&timespec(LOOK_EVERY))), Ok(ready) if ready > 0);
            if is_abandoned {
                return;
            }
        }
    }

    /// The same in a process namespace whose first process this is: there, everybody is meant.
    fn terminate_namespace(&mut self) {
        // The group called 1 is the kernel's word for all processes but the sender and the first.
        let _ = rustix::process::kill_process_group(Pid::INIT, Signal::TERM);
        let started = Instant::now();
        while self.reap() && started.elapsed() < GRACE {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = rustix::process::kill_process_group(Pid::INIT, Signal::KILL);
        while self.status.is_none() && self.reap() && started.elapsed() < GRACE + MARGIN / 2 {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Kills whatever is left. Whether nothing is.
    fn sweep(&mut self) -> bool {
        let started = Instant::now();
        while self.reap() {
            if started.elapsed() > MAX_SWEEP {
                return false;
            }
            if freeze_and_kill(|| Ok(descendants(my_pid(), &processes()?))).is_err() {
                return false;
            }
            let killed = Instant::now();
            while self.reap() && killed.elapsed() < Duration::from_millis(50) {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        true
    }
}

fn my_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
