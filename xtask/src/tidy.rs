//! What must hold of the source tree and no compiler checks.

mod files;
mod layers;

use std::fmt;
use std::path::Path;

use crate::{TaskError, docgen};

pub use files::check_text;
pub use layers::{Dependency, check_dependency};

/// One thing to put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, relative to the workspace.
    pub path: String,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong and what to do.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Everything that is wrong in the workspace at `root`.
///
/// # Errors
/// When the tree or its metadata cannot be read; a check that could not run has failed.
pub fn problems(root: &Path) -> Result<Vec<Problem>, TaskError> {
    let mut problems = layers::check(root)?;
    problems.extend(files::check(root)?);
    problems.extend(
        docgen::stale(root, docgen::PAGES)
            .into_iter()
            .map(|page| Problem {
                path: page.path.to_owned(),
                line: 0,
                what: "is out of date; run `cargo xtask docgen`".to_owned(),
            }),
    );
    Ok(problems)
}

/// Prints what is wrong. True when nothing is.
///
/// # Errors
/// As [`problems`].
pub fn print(root: &Path) -> Result<bool, TaskError> {
    let problems = problems(root)?;
    for problem in &problems {
        println!("{problem}");
    }
    println!("tidy: {} problems", problems.len());
    Ok(problems.is_empty())
}
