//! The steps between a launcher and a confined command, and what it means that one failed.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// One step, in the order they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// The private folder for temporary files.
    Scratch = 1,
    /// The control group that bounds processes and memory.
    Cgroup,
    /// User, mount, process, IPC and, without a network, network namespaces.
    Namespaces,
    /// The same user inside the user namespace.
    Identity,
    /// The process that is confined.
    Fork,
    /// The tie to the launcher's life, and a session of its own.
    Lifeline,
    /// Resource limits.
    Limits,
    /// The command's view of the disk.
    View,
    /// The working folder, found again in that view.
    WorkingDir,
    /// Giving up every capability.
    Capabilities,
    /// No program gains rights any more.
    NoNewPrivileges,
    /// The Landlock ruleset.
    Landlock,
    /// The system call filter.
    Seccomp,
}

impl Step {
    /// Every step, in order.
    pub const ALL: &'static [Self] = &[
        Self::Scratch,
        Self::Cgroup,
        Self::Namespaces,
        Self::Identity,
        Self::Fork,
        Self::Lifeline,
        Self::Limits,
        Self::View,
        Self::WorkingDir,
        Self::Capabilities,
        Self::NoNewPrivileges,
        Self::Landlock,
        Self::Seccomp,
    ];

    /// The word in errors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scratch => "scratch",
            Self::Cgroup => "cgroup",
            Self::Namespaces => "namespaces",
            Self::Identity => "identity",
            Self::Fork => "fork",
            Self::Lifeline => "lifeline",
            Self::Limits => "limits",
            Self::View => "view",
            Self::WorkingDir => "working_dir",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivileges => "no_new_privileges",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
        }
    }

    pub(crate) fn from_number(number: i32) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|step| i32::from(*step as u8) == number)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: i32,
}

/// Takes steps, or makes one of them fail: the tests of the launcher break each in turn to see that
/// nothing runs then. It cannot make a step pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) broken: Option<Step>,
}

impl Steps {
    pub(crate) fn take<T>(
        self,
        step: Step,
        action: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, Failure> {
        let result = if self.broken == Some(step) {
            Err(Errno::NOTRECOVERABLE.into())
        } else {
            action()
        };
        result.map_err(|error| Failure {
            step,
            errno: error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()),
        })
    }
}
