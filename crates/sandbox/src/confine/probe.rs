//! What this machine offers, found out by trying it.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use super::limits::Controllers;
use super::plan::{ConfinePlan, Grant, Mount, MountKind, Rule};
use super::report::{Confinement, MissingLayer};
use super::step::Step;
use super::syscall;
use crate::jail::Network;
use crate::launcher::ARGUMENT;
use crate::plan::{Plan, Report};
use crate::spawn;

/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the kernel, as far as it lets this user, can confine a command with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) layers: Confinement,
    pub(crate) missing: Vec<MissingLayer>,
    pub(crate) landlock_abi: Option<u32>,
    pub(crate) controllers: Controllers,
    pub(crate) is_root: bool,
}

/// Starts `launcher` with all layers, and leaves out what it fails at, until it succeeds. `start`
/// starts and `reap` ends a process of this one.
pub(crate) fn machine(
    launcher: Option<&Path>,
    start: impl Fn(std::process::Command) -> std::io::Result<Child>,
    reap: impl Fn(Child),
) -> Machine {
    let mut machine = Machine {
        layers: Confinement::FULL,
        is_root: rustix::process::geteuid().is_root(),
        ..Machine::default()
    };
    let Some(launcher) = launcher else {
        machine.lose_all("there is no launcher to confine commands");
        return machine;
    };
    machine.controllers = Controllers::find();
    match syscall::landlock_version() {
        Ok(version) => machine.landlock_abi = Some(version),
        Err(error) => machine.lose("landlock", format!("the kernel does not offer it: {error}")),
    }
    while !machine.layers.is_none() {
        let plan = trial(machine.layers);
        let report = ask(launcher, &plan, &start, &reap);
        match report {
            Some(Report::Ended { exit: 0, .. }) => break,
            Some(Report::NotConfined { step, errno }) => {
                let error = std::io::Error::from_raw_os_error(errno);
                let step = Step::from_number(step);
                let reason = format!("{}: {error}", step.map_or("unknown step", Step::as_str));
                match step.and_then(layer_of) {
                    Some(layer) => machine.lose(layer, reason),
                    None => machine.lose_all(&reason),
                }
            }
            _ => machine.lose_all("the launcher did not report"),
        }
    }
    machine
}

impl Machine {
    fn lose(&mut self, layer: &'static str, reason: String) {
        match layer {
            "namespaces" => self.layers.namespaces = false,
            "landlock" => self.layers.landlock = false,
            _ => self.layers.seccomp = false,
        }
        self.missing.push(MissingLayer { layer, reason });
    }

    fn lose_all(&mut self, reason: &str) {
        for layer in self.layers.layers() {
            self.lose(layer, reason.to_owned());
        }
    }
}

/// The layer that cannot be had without this step; nothing when none can.
fn layer_of(step: Step) -> Option<&'static str> {
    match step {
        Step::Namespaces | Step::Identity | Step::View | Step::WorkingDir => Some("namespaces"),
        Step::Landlock => Some("landlock"),
        Step::Seccomp => Some("seccomp"),
        Step::Scratch
        | Step::Cgroup
        | Step::Fork
        | Step::Lifeline
        | Step::Limits
        | Step::Capabilities
        | Step::NoNewPrivileges => None,
    }
}

fn trial(layers: Confinement) -> Plan {
    Plan {
        program: "/proc/self/exe".into(),
        args: Vec::new(),
        env: Vec::new(),
        stdin: None,
        umask: 0o077,
        confine: Some(ConfinePlan {
            layers,
            mounts: vec![Mount {
                path: "/usr".into(),
                kind: MountKind::ReadOnly,
            }],
            rules: vec![Rule {
                path: "/usr".into(),
                grant: Grant::ReadAndRun,
            }],
            network: Network::Denied,
            is_probe: true,
            ..ConfinePlan::default()
        }),
    }
}

fn ask(
    launcher: &Path,
    plan: &Plan,
    start: impl Fn(std::process::Command) -> std::io::Result<Child>,
    reap: impl Fn(Child),
) -> Option<Report> {
    let (mut ours, theirs) = UnixStream::pair().ok()?;
    ours.set_read_timeout(Some(PATIENCE)).ok()?;
    ours.set_write_timeout(Some(PATIENCE)).ok()?;
    let mut command = spawn::command(launcher);
    command
        .arg(ARGUMENT)
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = start(command).ok()?;
    let mut bytes = [0; Report::LEN];
    let heard = ours
        .write_all(&plan.to_bytes()?)
        .and_then(|()| ours.read_exact(&mut bytes));
    // A launcher that hangs goes when its socket closes.
    drop(ours);
    reap(child);
    heard.ok()?;
    Report::from_bytes(&bytes)
}
