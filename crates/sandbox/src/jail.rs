//! What one command may reach, for the kernel to enforce.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::confine::{ConfinementReport, ViewSummary};
use crate::protected::names_of;
use crate::remedy::shell_quoted;
use crate::resolve::resolve;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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
    /// The view of a command of this turn: its roots, what `[sandbox.confine]` adds, the toolchains,
    /// the configured network. Skills are only changed while the owner is there.
    pub fn jail(&self, scope: &Scope) -> Jail {
        let inner = self.now();
        let settings = &inner.settings.confine;
        let skills = names_of(&inner.surroundings.fermix_home.join("skills"));
        let mut writable = settings.extra_write.clone();
        let mut readable = settings.extra_read.clone();
        for root in self.roots(scope) {
            let is_kept = !scope.attended && skills.contains(&root.path);
            match root.access {
                RootAccess::ReadWrite if !is_kept => writable.push(root.path.clone()),
                RootAccess::ReadWrite | RootAccess::ReadOnly => readable.push(root.path.clone()),
            }
        }
        if !scope.attended {
            // Also where a root lies around them.
            readable.extend(skills);
        }
        Jail {
            writable,
            readable,
            toolchains: true,
            network: settings.network,
            ssh: inner.runner.policy().opens_ssh(),
            is_open: false,
        }
    }

    /// What commands of this turn see, for `explain`.
    pub fn explain_view(&self, scope: &Scope) -> ViewSummary {
        self.runner().policy().view(&self.jail(scope)).summary()
    }

    /// Why commands of this turn do not see `path`, with the way out; nothing when they do, or when
    /// there is no such folder that could be opened.
    pub fn why_not_seen(&self, path: &Path, scope: &Scope) -> Option<String> {
        let inner = self.now();
        let object = resolve(path).ok()?;
        let view = self.runner().policy().view(&self.jail(scope));
        let is_kernels = ["/proc", "/dev", "/tmp", "/sys"]
            .iter()
            .any(|kernels| object.path.starts_with(kernels));
        if view.has_folder(&object.path) || (is_kernels && object.kind.is_none()) {
            return None;
        }
        let path = object.path.display();
        if inner.protected.covers(&object) {
            let why = inner.protected.why(&object);
            return Some(format!("commands do not see `{path}`, because {why}"));
        }
        let is_folder = object.kind == Some(rustix::fs::FileType::Directory);
        let folder = if is_folder {
            object.path.as_path()
        } else {
            object.path.parent()?
        };
        let folder = self.grantable_root(folder).ok()?;
        Some(format!(
            "commands do not see `{path}`: it lies outside their folders; the owner can open it with `fermix grant path {}`",
            shell_quoted(&folder)
        ))
    }

    /// How commands are confined, for doctor, `explain` and status. Blocks for some milliseconds
    /// the first time: the layers are tried out.
    pub fn confinement(&self) -> ConfinementReport {
        let runner = self.runner();
        runner.policy().report(&runner.machine())
    }
}
