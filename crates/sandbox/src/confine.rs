//! Confinement of commands by the kernel.
//!
//! Three layers, each of which would stop most of what the others stop: namespaces give the command
//! a disk, a process list and perhaps a network of its own, in which what it may not reach does not
//! exist; Landlock judges every file that is opened; seccomp takes away the system calls that lead
//! out. Fermix computes a [`plan::ConfinePlan`] from the policy; the launcher carries it out, step
//! by step, and runs nothing when a step fails. A command is never less confined than planned.

pub(crate) mod compose;
pub(crate) mod enter;
mod landlock;
mod limits;
mod mounts;
pub(crate) mod plan;
pub(crate) mod probe;
mod programs;
pub(crate) mod report;
mod seccomp;
mod settings;
pub(crate) mod step;
pub(crate) mod syscall;
pub(crate) mod view;

pub(crate) use mounts::SIGN;
pub use report::{Confinement, ConfinementReport, MissingLayer, ProcessLimit};
pub use settings::{ConfineMode, ConfineSettings, SshAccess};
pub use step::Step;
pub use view::ViewSummary;
