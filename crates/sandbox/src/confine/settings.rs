//! The `[sandbox.confine]` section.

use std::path::PathBuf;

use serde::Serialize;

use crate::jail::Network;

/// How commands are confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfineSettings {
    /// Whether and how firmly.
    pub mode: ConfineMode,
    /// The network of commands.
    pub network: Network,
    /// Files and folders commands may read besides those of the view.
    pub extra_read: Vec<PathBuf>,
    /// Files and folders commands may change besides the roots.
    pub extra_write: Vec<PathBuf>,
    /// Whether commands reach the SSH agent.
    pub ssh: SshAccess,
    /// The most processes and threads of one command at once.
    pub max_pids: u32,
    /// The most memory of one command, in MiB; 0 means no limit.
    pub max_memory_mb: u64,
    /// Whether commands may make namespaces of their own.
    pub allow_nested: bool,
}

impl Default for ConfineSettings {
    fn default() -> Self {
        Self {
            mode: ConfineMode::Auto,
            network: Network::Allowed,
            extra_read: Vec::new(),
            extra_write: Vec::new(),
            ssh: SshAccess::Off,
            max_pids: Self::MAX_PIDS,
            max_memory_mb: 0,
            allow_nested: false,
        }
    }
}

impl ConfineSettings {
    /// `max_pids` unless configured.
    pub const MAX_PIDS: u32 = 1024;
}

/// `[sandbox.confine] mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfineMode {
    /// Every layer the kernel offers; what is missing is reported.
    #[default]
    Auto,
    /// Every layer, or no command runs.
    Require,
    /// None.
    Off,
}

impl ConfineMode {
    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Require => "require",
            Self::Off => "off",
        }
    }
}

/// `[sandbox.confine] ssh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SshAccess {
    /// Commands do not reach the SSH agent.
    #[default]
    Off,
    /// They reach its socket, `known_hosts` and the SSH configuration, never a key file.
    Agent,
}
