//! Keeping the memory of a process that holds secrets from other processes of the same user.

use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// The kernel refused. The process holds secrets that a debugger or a core file could take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process could not be closed to debuggers and core files: {0}")]
pub struct HardenError(#[from] rustix::io::Errno);

/// Closes this process to debuggers, to readers of `/proc/<pid>/mem` and `environ`, and to core
/// files. For a process that lives long and holds secrets; call it before it reads the first one.
///
/// Its own files in `/proc/self` belong to root from then on. It may still open its own program,
/// descriptors and status, and a program it starts is open to its user again.
///
/// # Errors
/// When the kernel refuses.
pub fn harden_process() -> Result<(), HardenError> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(Resource::Core, none)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
