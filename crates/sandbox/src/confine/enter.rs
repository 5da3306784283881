//! The steps from a launcher to a confined command. They run in the launcher, which has one thread.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::limits::{self, Groups};
use super::plan::ConfinePlan;
use super::step::{Failure, Step, Steps};
use super::syscall::{Forked, fork, unshare};
use super::{landlock, mounts, seccomp};
use crate::jail::Network;
use crate::launcher;
use crate::plan::{Plan, Report, write_report};

/// A confined command's first process, as the launcher sees it.
pub(crate) enum Entered {
    /// The first process of a process namespace of its own. When it goes, all in there goes.
    Init(Pid, UnixStream),
    /// The command itself.
    Command(Pid),
}

/// What has to be removed when everything has ended.
#[derive(Default)]
pub(crate) struct Leftovers {
    scratch: Option<PathBuf>,
    groups: Groups,
}

impl Leftovers {
    pub(crate) fn remove(mut self) {
        self.groups.remove();
        if let Some(scratch) = &self.scratch {
            // Nobody can be told if something in there resists.
            let _ = fs::remove_dir_all(scratch);
        }
    }
}

/// Starts `plan`'s command confined. The error is the report to give; nothing runs then.
pub(crate) fn enter(
    plan: &Plan,
    confine: &ConfinePlan,
    steps: Steps,
    socket: &mut Option<UnixStream>,
    leftovers: &mut Leftovers,
) -> Result<Entered, Report> {
    let before = prepare(confine, steps, leftovers)?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| broken(Step::Fork, &error))?;
    match steps.take(Step::Fork, fork)? {
        Forked::Child => {
            drop((ours, socket.take()));
            let code = inside(plan, confine, steps, before, theirs, &mut leftovers.groups);
            std::process::exit(code);
        }
        Forked::Parent(pid) => {
            drop(theirs);
            if confine.layers.namespaces {
                Ok(Entered::Init(pid, ours))
            } else {
                await_command(pid, ours)
            }
        }
    }
}

impl From<Failure> for Report {
    fn from(failure: Failure) -> Self {
        Self::NotConfined {
            step: failure.step as i32,
            errno: failure.errno,
        }
    }
}

fn broken(step: Step, error: &io::Error) -> Report {
    let errno = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
    Failure { step, errno }.into()
}

/// What is taken from outside before it goes out of sight.
struct Before {
    own_program: OwnedFd,
    /// The working folder.
    cwd: (u64, u64),
}

fn prepare(
    confine: &ConfinePlan,
    steps: Steps,
    leftovers: &mut Leftovers,
) -> Result<Before, Failure> {
    steps.take(Step::Scratch, || {
        if let Some(scratch) = &confine.scratch {
            rustix::fs::mkdir(scratch, Mode::from_raw_mode(0o700))?;
            leftovers.scratch = Some(scratch.clone());
        }
        Ok(())
    })?;
    leftovers.groups = steps.take(Step::Cgroup, || Groups::make(&confine.groups))?;
    let before = steps.take(Step::WorkingDir, || {
        let stat = rustix::fs::stat(".")?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(Before {
            own_program: rustix::fs::open("/proc/self/exe", flags, Mode::empty())?,
            cwd: (stat.st_dev, stat.st_ino),
        })
    })?;
    if confine.layers.namespaces {
        let (user, group) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        steps.take(Step::Namespaces, || {
            let mut flags = UnshareFlags::NEWUSER
                | UnshareFlags::NEWNS
                | UnshareFlags::NEWPID
                | UnshareFlags::NEWIPC;
            if confine.network == Network::Denied {
                flags |= UnshareFlags::NEWNET;
            }
            unshare(flags)
        })?;
        steps.take(Step::Identity, || {
            fs::write("/proc/self/setgroups", "deny")?;
            fs::write("/proc/self/uid_map", format!("{user} {user} 1\n"))?;
            fs::write("/proc/self/gid_map", format!("{group} {group} 1\n"))
        })?;
    }
    Ok(before)
}

/// Waits until the copy has become the command.
fn await_command(pid: Pid, mut ours: UnixStream) -> Result<Entered, Report> {
    let mut report = [0; Report::LEN];
    let mut received = 0;
    loop {
        match ours.read(&mut report[received..]) {
            // The other end closed: it is the command now.
            Ok(0) if received == 0 => return Ok(Entered::Command(pid)),
            Ok(0) => break,
            Ok(count) => received += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(Step::Fork, &error)),
        }
        if received == Report::LEN {
            break;
        }
    }
    let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    Err(Report::from_bytes(&report)
        .unwrap_or_else(|| broken(Step::Fork, &io::ErrorKind::InvalidData.into())))
}

/// The life of the copy. What it returns is its exit code; it does not return when it becomes the
/// command.
fn inside(
    plan: &Plan,
    confine: &ConfinePlan,
    steps: Steps,
    before: Before,
    mut control: UnixStream,
    groups: &mut Groups,
) -> i32 {
    if let Err(failure) = seal(confine, steps, before, &control, groups) {
        let _ = write_report(failure.into(), &mut control);
        return 125;
    }
    if confine.is_probe {
        let report = Report::Ended {
            exit: 0,
            signal: None,
            is_clean: true,
        };
        return i32::from(write_report(report, &mut control).is_err());
    }
    if confine.layers.namespaces {
        return launcher::init(plan, &mut control);
    }
    let error = launcher::become_command(plan);
    let number = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
    let _ = write_report(Report::NotStarted(number), &mut control);
    125
}

fn seal(
    confine: &ConfinePlan,
    steps: Steps,
    before: Before,
    control: &UnixStream,
    groups: &mut Groups,
) -> Result<(), Failure> {
    let layers = confine.layers;
    steps.take(Step::Lifeline, || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // A launcher that died before that line took the other end along.
        let mut watched = [rustix::event::PollFd::new(
            control,
            rustix::event::PollFlags::empty(),
        )];
        rustix::event::poll(&mut watched, Some(&rustix::event::Timespec::default()))?;
        let gone = rustix::event::PollFlags::HUP | rustix::event::PollFlags::ERR;
        if watched[0].revents().intersects(gone) {
            return Err(Errno::CONNRESET.into());
        }
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdin(&null)?;
        if layers.namespaces {
            rustix::process::setsid()?;
        }
        Ok(())
    })?;
    steps.take(Step::Limits, || {
        groups.join()?;
        limits::apply(confine)
    })?;
    if layers.namespaces {
        steps.take(Step::View, || mounts::build(confine))?;
        steps.take(Step::WorkingDir, || match &confine.cwd {
            Some(path) => mounts::enter(path, before.cwd),
            None => Ok(rustix::process::chdir("/")?),
        })?;
    }
    steps.take(Step::Capabilities, || {
        if layers.namespaces {
            // What is inside must not reach into the process that speaks for it.
            rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        }
        give_up_capabilities()
    })?;
    steps.take(Step::NoNewPrivileges, || {
        Ok(rustix::thread::set_no_new_privs(true)?)
    })?;
    if layers.landlock {
        steps.take(Step::Landlock, || {
            let own_program = confine.runs_own_program.then_some(&before.own_program);
            landlock::restrict(&confine.rules, own_program, confine.network)
        })?;
    }
    if layers.seccomp {
        steps.take(Step::Seccomp, || {
            seccomp::restrict(confine.network, confine.allow_nested)
        })?;
    }
    Ok(())
}

/// Also those a program of root's would get back when it starts. For root they would lead past
/// Landlock: some of the kernel's doors ask for a capability first.
fn give_up_capabilities() -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The kernel knows no further ones, or this process has none to begin with.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?;
    Ok(())
}
