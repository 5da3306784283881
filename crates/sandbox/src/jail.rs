//! What one command may reach, for the kernel to enforce.

use std::path::PathBuf;

use crate::roots::RootAccess;
use crate::sandbox::Sandbox;
use crate::settings::Scope;

/// The view of one command. The system's programs and libraries are always part of it, read-only;
/// protected and blocked paths never are, whatever is listed here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jail {
    /// Trees it may read, change and run programs from. Canonical.
    pub writable: Vec<PathBuf>,
    /// Trees it may read and run programs from. Canonical.
    pub readable: Vec<PathBuf>,
    /// Whether it sees the toolchains and caches in the owner's home.
    pub toolchains: bool,
    /// Which network it has.
    pub network: Network,
    /// Whether it sees the SSH agent, `known_hosts` and the SSH configuration. Never a key file.
    pub ssh: bool,
    /// Whether the kernel confines it at all. Only for Fermix's own helpers and programs the owner
    /// named in the configuration for their access to credentials.
    pub is_open: bool,
}

/// The network a command has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// None.
    #[default]
    Denied,
    /// The machine's.
    Allowed,
}

impl Jail {
    /// Nothing but the system's programs: what absent settings mean.
    pub fn closed() -> Self {
        Self::default()
    }

    /// No confinement by the kernel. The command still ends with its run.
    pub fn open() -> Self {
        Self {
            is_open: true,
            network: Network::Allowed,
            ..Self::default()
        }
    }
}

impl Sandbox {
    /// The view of a command of this turn: its roots, the toolchains, the configured network.
    pub fn jail(&self, scope: &Scope) -> Jail {
        let roots = self.roots(scope);
        let of = |access: RootAccess| {
            let fitting = roots.iter().filter(|root| root.access == access);
            fitting.map(|root| root.path.clone()).collect()
        };
        Jail {
            writable: of(RootAccess::ReadWrite),
            readable: of(RootAccess::ReadOnly),
            toolchains: true,
            network: Network::Allowed,
            ..Jail::default()
        }
    }
}
