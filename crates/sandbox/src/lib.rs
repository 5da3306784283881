//! Path policy, child environment and the command runner: the only crate that spawns a process.
//!
//! [`Sandbox`] answers three questions for a turn: may this path be read or written, what does a
//! command see, and how does a command run. Its answers are values that can only be used as
//! checked: a [`ReadablePath`] opens the object that was judged, below a descriptor, whatever its
//! name leads to by then; a [`WorkingDir`] is an open folder; a run ends with all it started.

mod beneath;
mod confine;
mod denial;
mod env;
mod guarded;
pub mod hardline;
mod jail;
pub mod launcher;
mod names;
mod plan;
mod process_tree;
mod protected;
mod read;
mod remedy;
mod resolve;
mod roots;
mod runner;
mod sandbox;
mod settings;
mod spawn;
mod tree;
mod workdir;
mod write;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

pub use confine::{
    ConfineMode, ConfineSettings, Confinement, ConfinementReport, MissingLayer, ProcessLimit,
    SshAccess, Step, ViewSummary,
};
pub use denial::{Access, DenialReason, Denied};
pub use env::{ChildEnv, EnvError};
pub use jail::{Jail, Network};
pub use process_tree::MARKER_VARIABLE as RUN_MARKER;
pub use read::{FileError, OpenFile, ReadablePath};
pub use roots::{Provenance, Root, UnsafeRoot};
pub use runner::{
    CommandOutcome, CommandSpec, DEFAULT_OUTPUT_CAP, DEFAULT_TIMEOUT, Ending, MAX_PRODUCED,
    MAX_RUNS, MAX_RUNS_PER_CONVERSATION, MAX_STDIN, RunError, Runner, Stderr,
};
pub use sandbox::{Sandbox, SandboxError};
pub use settings::{EnvMode, EnvPolicy, EnvSource, SandboxSettings, Scope, Surroundings};
pub use spawn::find_executable;
pub use tree::{ReadableTree, Stopped, TreeFile, WalkOptions, WalkSummary};
pub use workdir::WorkingDir;
pub use write::{Existing, WritablePath, Written};

/// Whether this process runs inside the view of a confined command, whatever became of its
/// environment and its ancestors.
pub fn is_inside_a_run() -> bool {
    std::fs::symlink_metadata(confine::SIGN).is_ok()
}

/// Sixteen bytes nobody can guess, as hexadecimal digits.
fn random_hex() -> Result<String, Errno> {
    use std::fmt::Write as _;
    let mut bytes = [0u8; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let mut text = String::with_capacity(32);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
