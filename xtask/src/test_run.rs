//! Every test of the workspace, through whichever runner is there, and one closing line.

use std::path::Path;
use std::process::Command;

use crate::TaskError;
use crate::process::{Watched, command, has_cargo_tool, watch};

/// How many tests ended which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Succeeded.
    pub passed: u64,
    /// Failed, timed out, or did not start.
    pub failed: u64,
}

/// Runs the tests and prints `N passed, N failed`. True when some ran and none failed.
///
/// # Errors
/// When the runner cannot be started.
pub fn run(root: &Path, arguments: &[String]) -> Result<bool, TaskError> {
    let mut tally = Tally::default();
    let status = if has_cargo_tool(root, "nextest") {
        let mut nextest = cargo(root, &["nextest", "run", "--no-fail-fast"]);
        nextest.args(scope(arguments));
        watch(nextest, Watched::Stderr, |line| {
            eprintln!("{line}");
            tally.add_nextest(line);
        })?
    } else {
        // The same targets as nextest runs; one that fails does not stop the others.
        let mut cargo_test = cargo(
            root,
            &["test", "--no-fail-fast", "--lib", "--bins", "--tests"],
        );
        cargo_test.args(scope(arguments));
        watch(cargo_test, Watched::Stdout, |line| {
            println!("{line}");
            tally.add_cargo_test(line);
        })?
    };
    let succeeded = status.success() && tally.failed == 0 && tally.passed > 0;
    if !succeeded && tally.failed == 0 {
        eprintln!("error: the test run did not complete ({status})");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(succeeded)
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut cargo = command("cargo");
    cargo.current_dir(root).args(arguments);
    cargo
}

/// The whole workspace, unless the caller names packages or anything else.
fn scope(arguments: &[String]) -> Vec<String> {
    if arguments.is_empty() {
        vec!["--workspace".to_owned()]
    } else {
        arguments.to_vec()
    }
}

impl Tally {
    /// Reads a line of nextest. Its last one says
    /// `Summary [ 1.2s] 5 tests run: 3 passed (1 slow), 1 failed, 1 timed out, 2 skipped`.
    pub fn add_nextest(&mut self, line: &str) {
        let Some((_, counts)) = line
            .trim_start()
            .strip_prefix("Summary [")
            .and_then(|rest| rest.split_once(" run: "))
        else {
            return;
        };
        for part in counts.split(',') {
            match counted(part) {
                Some((count, "passed")) => self.passed += count,
                Some((count, "failed" | "exec" | "timed")) => self.failed += count,
                _ => {}
            }
        }
    }

    /// Reads a line of `cargo test`. Each binary says
    /// `test result: FAILED. 3 passed; 1 failed; 0 ignored; …`.
    pub fn add_cargo_test(&mut self, line: &str) {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split(';') {
            match counted(part) {
                Some((count, "passed")) => self.passed += count,
                Some((count, "failed")) => self.failed += count,
                _ => {}
            }
        }
    }
}

/// The number and the word after it.
fn counted(part: &str) -> Option<(u64, &str)> {
    let mut words = part.split_whitespace();
    let count = words.next()?.parse().ok()?;
    Some((count, words.next()?))
}
