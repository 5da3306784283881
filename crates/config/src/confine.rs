//! `[sandbox.confine]`: how the kernel holds commands to the sandbox.

use std::path::PathBuf;
use std::str::FromStr;

use fermix_types::UnknownName;

/// How commands are confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfineConfig {
    /// Whether and how firmly.
    pub mode: ConfineMode,
    /// The network of commands.
    pub network: NetworkAccess,
    /// Paths commands may read besides those of the view, absolute.
    pub extra_read: Vec<PathBuf>,
    /// Paths commands may change besides the roots, absolute.
    pub extra_write: Vec<PathBuf>,
    /// Whether commands reach the SSH agent.
    pub ssh: SshAccess,
    /// The most processes of one command.
    pub max_pids: u64,
    /// The most memory of one command in MiB; 0 means no limit.
    pub max_memory_mb: u64,
    /// Whether commands may make namespaces.
    pub allow_nested: bool,
}

impl Default for ConfineConfig {
    fn default() -> Self {
        Self {
            mode: ConfineMode::default(),
            network: NetworkAccess::default(),
            extra_read: Vec::new(),
            extra_write: Vec::new(),
            ssh: SshAccess::default(),
            max_pids: 1024,
            max_memory_mb: 0,
            allow_nested: false,
        }
    }
}

macro_rules! named {
    ($type:ident, $what:literal, $($name:literal => $variant:ident),+) => {
        impl $type {
            pub(crate) const NAMES: &'static [&'static str] = &[$($name),+];
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(UnknownName {
                        what: $what,
                        name: text.to_owned(),
                        accepted: Self::NAMES.join(", "),
                    }),
                }
            }
        }
    };
}

/// `[sandbox.confine] mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfineMode {
    /// Every layer the kernel offers.
    #[default]
    Auto,
    /// Every layer, or no command runs.
    Require,
    /// None.
    Off,
}
named!(ConfineMode, "confinement mode", "auto" => Auto, "require" => Require, "off" => Off);

/// `[sandbox.confine] network`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkAccess {
    /// The machine's.
    #[default]
    Allow,
    /// None.
    Deny,
}
named!(NetworkAccess, "network access", "allow" => Allow, "deny" => Deny);

/// `[sandbox.confine] ssh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SshAccess {
    /// Nothing of SSH.
    #[default]
    Off,
    /// The agent's socket, `known_hosts` and the configuration.
    Agent,
}
named!(SshAccess, "SSH access", "off" => Off, "agent" => Agent);
