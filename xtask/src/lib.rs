//! Development tasks, as a library so that the tests run what `cargo xtask` runs.

// These tasks talk to the developer on a terminal.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool prints"
)]

pub mod bench;
pub mod docgen;
pub mod harness;
mod process;
pub mod test_run;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The workspace this tool was built from.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("the tool lives in a folder of the workspace")
        .to_owned()
}

/// Why a task could not do its work. What a task finds is its result, not an error.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// A file could not be read or written.
    #[error("cannot access {path}: {cause}")]
    File {
        /// The file or folder.
        path: String,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {cause}; is it installed and on PATH?")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// A program ran and failed.
    #[error("{program} failed: {detail}")]
    Failed {
        /// The program.
        program: String,
        /// Its exit and the end of what it said.
        detail: String,
    },
    /// `cargo metadata` gave no answer.
    #[error("cargo metadata gave no answer: {0}")]
    Metadata(#[from] cargo_metadata::Error),
    /// The walk over the source tree stopped.
    #[error("cannot list the source tree: {0}")]
    Walk(#[from] ignore::Error),
    /// The system refused to say how much time a program used.
    #[error("the system does not report the time of programs: {0}")]
    Usage(#[from] nix::Error),
}

impl TaskError {
    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |cause| Self::File { path, cause }
    }
}
