//! One command's confinement, from the policy and from what the machine offers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::plan::ConfinePlan;
use super::probe::Machine;
use super::report::{Confinement, ConfinementReport, ProcessLimit};
use super::settings::{ConfineMode, SshAccess};
use super::view::ViewPolicy;
use crate::jail::Jail;

/// Where the private folder for temporary files is made when there is no private `/tmp`.
const SCRATCH_PARENTS: &[&str] = &["/tmp", "/var/tmp"];
/// Variables that name sockets of the owner's session.
const SESSION_VARIABLES: &[&str] = &[
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "WAYLAND_DISPLAY",
    "DISPLAY",
    "XAUTHORITY",
];
const MIB: u64 = 1 << 20;

/// A command that is to be confined.
pub(crate) struct Confined<'a> {
    pub(crate) jail: &'a Jail,
    pub(crate) cwd: &'a Path,
    pub(crate) runs_own_program: bool,
    /// The run's marker, which nobody else has.
    pub(crate) marker: &'a str,
}

impl ViewPolicy {
    /// Whether `jail` is confined at all under these settings.
    pub(crate) fn confines(&self, jail: &Jail) -> bool {
        !jail.is_open && self.settings.mode != ConfineMode::Off
    }

    /// Why no command may run, if none may.
    pub(crate) fn refusal(&self, machine: &Machine) -> Option<String> {
        if self.settings.mode != ConfineMode::Require || machine.layers == Confinement::FULL {
            return None;
        }
        let missing = machine.missing.iter();
        Some(
            missing
                .map(|missing| format!("{} ({})", missing.layer, missing.reason))
                .collect::<Vec<_>>()
                .join(", "),
        )
    }

    /// The plan of one command, and its environment made to fit.
    pub(crate) fn plan(
        &self,
        command: &Confined<'_>,
        machine: &Machine,
        env: &mut Vec<(OsString, OsString)>,
    ) -> ConfinePlan {
        let layers = machine.layers;
        let settings = &self.settings;
        let view = self.view(command.jail);
        let scratch = (!layers.namespaces).then(|| scratch(command.marker));
        let counts_by_namespace = layers.namespaces && !machine.is_root;
        let groups = machine
            .controllers
            .groups(settings, !counts_by_namespace, command.marker);
        let is_memory_bounded = machine.controllers.memory.is_some();
        let rules = if !layers.landlock {
            Vec::new()
        } else if layers.namespaces {
            view.rules_inside()
        } else {
            view.rules_outside(scratch.as_deref())
        };
        env.retain(|(name, _)| {
            name != "TMPDIR" && !SESSION_VARIABLES.iter().any(|session| name == session)
        });
        let tmp = scratch.clone().unwrap_or_else(|| "/tmp".into());
        env.push(("TMPDIR".into(), tmp.into_os_string()));
        if command.jail.ssh
            && let Some(agent) = &self.launch_env.ssh_agent
        {
            env.push(("SSH_AUTH_SOCK".into(), agent.clone().into_os_string()));
        }
        ConfinePlan {
            layers,
            mounts: if layers.namespaces {
                view.mounts()
            } else {
                Vec::new()
            },
            links: view.links(),
            rules,
            cwd: view.has_folder(command.cwd).then(|| command.cwd.to_owned()),
            network: command.jail.network,
            allow_nested: settings.allow_nested,
            runs_own_program: command.runs_own_program,
            scratch,
            groups,
            // One more for the process that watches over the command.
            max_processes: counts_by_namespace.then(|| settings.max_pids.saturating_add(1)),
            max_data: Some(settings.max_memory_mb)
                .filter(|limit| *limit > 0 && !is_memory_bounded)
                .map(|limit| limit * MIB),
            is_probe: false,
        }
    }

    /// What doctor and status say.
    pub(crate) fn report(&self, machine: &Machine) -> ConfinementReport {
        let settings = &self.settings;
        let is_off = settings.mode == ConfineMode::Off;
        let layers = if is_off {
            Confinement::NONE
        } else {
            machine.layers
        };
        let process_limit = if is_off {
            ProcessLimit::None
        } else if layers.namespaces && !machine.is_root {
            ProcessLimit::UserNamespace
        } else if machine.controllers.processes.is_some() {
            ProcessLimit::Cgroup
        } else {
            ProcessLimit::None
        };
        ConfinementReport {
            mode: settings.mode,
            confined: layers.as_str(),
            layers: layers.layers(),
            missing: if is_off {
                Vec::new()
            } else {
                machine.missing.clone()
            },
            refuses_commands: self.refusal(machine).is_some(),
            landlock_abi: machine.landlock_abi,
            network: settings.network,
            ssh: settings.ssh,
            allow_nested: settings.allow_nested,
            process_limit,
            bounds_memory_of_whole_command: machine.controllers.memory.is_some(),
        }
    }

    /// Whether the SSH agent is opened to commands.
    pub(crate) fn opens_ssh(&self) -> bool {
        self.settings.ssh == SshAccess::Agent
    }
}

fn scratch(marker: &str) -> PathBuf {
    let parent = SCRATCH_PARENTS
        .iter()
        .find(|parent| Path::new(parent).is_dir())
        .unwrap_or(&"/tmp");
    Path::new(parent).join(format!("fermix-{marker}"))
}
