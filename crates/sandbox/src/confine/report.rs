//! What is in force, and what is missing and why.

use serde::Serialize;

use crate::confine::settings::{ConfineMode, SshAccess};
use crate::jail::Network;

/// The layers a run is confined by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// A disk, a process list, and without a network also a network of its own.
    pub namespaces: bool,
    /// Files are judged as they are opened.
    pub landlock: bool,
    /// System calls that lead out are refused.
    pub seccomp: bool,
}

impl Confinement {
    /// No layer.
    pub const NONE: Self = Self {
        namespaces: false,
        landlock: false,
        seccomp: false,
    };
    /// Every layer.
    pub const FULL: Self = Self {
        namespaces: true,
        landlock: true,
        seccomp: true,
    };

    /// The word in results and traces.
    pub const fn as_str(self) -> &'static str {
        match (self.namespaces, self.landlock, self.seccomp) {
            (true, true, true) => "full",
            (true, true, false) => "namespaces+landlock",
            (true, false, true) => "namespaces+seccomp",
            (true, false, false) => "namespaces",
            (false, true, true) => "landlock+seccomp",
            (false, true, false) => "landlock",
            (false, false, true) => "seccomp",
            (false, false, false) => "none",
        }
    }

    /// The names of the layers.
    pub fn layers(self) -> Vec<&'static str> {
        [
            ("namespaces", self.namespaces),
            ("landlock", self.landlock),
            ("seccomp", self.seccomp),
        ]
        .into_iter()
        .filter_map(|(name, is_there)| is_there.then_some(name))
        .collect()
    }

    pub(crate) const fn is_none(self) -> bool {
        !self.namespaces && !self.landlock && !self.seccomp
    }
}

/// A layer this machine does not offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingLayer {
    /// `namespaces`, `landlock` or `seccomp`.
    pub layer: &'static str,
    /// The system's reason, with the step it came from.
    pub reason: String,
}

/// What bounds the number of a command's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessLimit {
    /// A control group for each command.
    Cgroup,
    /// The limit of the user namespace, which the kernel keeps for each namespace.
    UserNamespace,
    /// Nothing: Fermix runs as root and may not make control groups, or there are no namespaces.
    None,
}

/// The state of confinement, for doctor, `explain` and status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfinementReport {
    /// `[sandbox.confine] mode`.
    pub mode: ConfineMode,
    /// One word for all layers: `full`, `landlock+seccomp`, `none` and so on.
    pub confined: &'static str,
    /// The layers in force.
    pub layers: Vec<&'static str>,
    /// The others, with the reason.
    pub missing: Vec<MissingLayer>,
    /// Whether commands are refused because a layer is missing and `mode` is `require`.
    pub refuses_commands: bool,
    /// The kernel's version of Landlock.
    pub landlock_abi: Option<u32>,
    /// Whether commands have a network.
    pub network: Network,
    /// Whether commands reach the SSH agent.
    pub ssh: SshAccess,
    /// Whether commands may make namespaces.
    pub allow_nested: bool,
    /// What bounds the number of processes.
    pub process_limit: ProcessLimit,
    /// Whether memory is bounded for a whole command; otherwise `max_memory_mb` bounds each process.
    pub bounds_memory_of_whole_command: bool,
}
