//! Long life, checked from outside: a real daemon, real sockets, a scripted model.
//!
//! [`crash`] kills the daemon at random instants and then accounts for every message, call, child
//! and file. [`soak`] runs many turns and watches memory, descriptors and threads.

mod accounts;
pub mod crash;
pub(crate) mod daemon;
pub mod soak;
pub(crate) mod talk;

use std::path::{Path, PathBuf};

use crate::TaskError;
use crate::process::cargo;

/// Which binary is tried.
#[derive(clap::Args, Debug)]
pub struct Which {
    /// A finished binary, instead of a fresh build of this workspace.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Build without optimisation; quicker to build and slower to run.
    #[arg(long, conflicts_with = "binary")]
    debug: bool,
}

impl Which {
    /// The binary, built if need be.
    fn find(&self, root: &Path) -> Result<PathBuf, TaskError> {
        if let Some(path) = &self.binary {
            return path.canonicalize().map_err(TaskError::file(path));
        }
        let mut arguments = vec!["build", "--quiet", "--locked", "--package", "fermix-cli"];
        if !self.debug {
            arguments.push("--release");
        }
        cargo(root, &arguments)?;
        let metadata = cargo_metadata::MetadataCommand::new()
            .current_dir(root)
            .no_deps()
            .other_options(["--offline".to_owned()])
            .exec()?;
        let profile = if self.debug { "debug" } else { "release" };
        Ok(metadata
            .target_directory
            .as_std_path()
            .join(profile)
            .join("fermix"))
    }
}
