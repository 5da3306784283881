//! Runs the binary in a home of its own.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use fermix_testkit::TestHome;
use serde_json::Value;

/// What a finished command left behind.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Standard output as the one JSON value it must be.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "not one JSON value ({error}): {}\n{}",
                self.stdout, self.stderr
            )
        })
    }

    /// Asserts the exit code, showing both streams otherwise.
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(
            self.code, expected,
            "stdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        self
    }
}

/// The binary with a clean environment, in the workspace.
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts the binary as a person would"
)]
pub fn command(home: &TestHome, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fermix"));
    command
        .args(args)
        .env_clear()
        .envs(home.env())
        .current_dir(home.workspace())
        .stdin(Stdio::null());
    command
}

/// Runs the binary to its end.
pub fn fermix(home: &TestHome, args: &[&str]) -> Run {
    finish(command(home, args).output().expect("the binary starts"))
}

/// Runs the binary with something on standard input.
pub fn fermix_with_stdin(home: &TestHome, args: &[&str], input: &[u8]) -> Run {
    use std::io::Write as _;
    let mut child = command(home, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it was piped");
    // The command may refuse before it has read everything.
    let _ = stdin.write_all(input);
    drop(stdin);
    finish(child.wait_with_output().expect("the binary ends"))
}

/// Starts the binary and leaves it running.
pub fn start(home: &TestHome, args: &[&str]) -> Child {
    command(home, args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

pub fn finish(output: Output) -> Run {
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Every regular file below `folder` with its bytes, for "nothing else changed".
pub fn tree(folder: &Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// The trace rows of one kind, oldest first.
pub fn traces(home: &TestHome, kind: &str) -> Vec<Value> {
    let run = fermix(home, &["traces", "--type", kind, "-n", "10000", "--json"]).code(0);
    run.json().as_array().expect("traces are a list").clone()
}
