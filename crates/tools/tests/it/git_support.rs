//! Repositories made with the real Git, by the owner's hand: nothing here is what the tools run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fermix_capability::CallOutcome;
use fermix_types::TraceKind;
use serde_json::{Value, json};

use crate::world::World;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command in the owner's environment.
#[expect(
    clippy::disallowed_methods,
    reason = "the owner's own git, which no tool runs"
)]
pub fn owner_command(world: &World, program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", world.home.os_home())
        .env("LC_ALL", "C.UTF-8")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null());
    command
}

/// Runs git as the owner would, whatever becomes of it.
pub fn try_git(world: &World, folder: &Path, args: &[&str]) -> Output {
    owner_command(world, "git")
        .current_dir(folder)
        .args(["-c", "protocol.file.allow=always"])
        .args(args)
        .output()
        .expect("git is installed")
}

/// Runs git as the owner would; its output without the last line end.
#[track_caller]
pub fn git(world: &World, folder: &Path, args: &[&str]) -> String {
    let output = try_git(world, folder, args);
    assert!(
        output.status.success(),
        "git {args:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

/// The owner's own settings.
pub fn settings(world: &World) {
    fs::write(
        world.home.os_home().join(".gitconfig"),
        "[user]\nname = Owner\nemail = owner@example.org\n[init]\ndefaultBranch = main\n[advice]\ndetachedHead = false\n",
    )
    .unwrap();
}

/// A repository in the workspace with two commits, a branch `topic` and a tag `v1`.
pub fn repository(world: &World, name: &str) -> PathBuf {
    settings(world);
    let folder = world.home.workspace().join(name);
    fs::create_dir_all(folder.join("dir")).unwrap();
    git(world, &folder, &["init", "-q"]);
    fs::write(folder.join("a.txt"), "one\n").unwrap();
    fs::write(folder.join("dir/b.txt"), "two\n").unwrap();
    git(world, &folder, &["add", "."]);
    git(world, &folder, &["commit", "-qm", "first"]);
    git(world, &folder, &["tag", "v1"]);
    git(world, &folder, &["branch", "topic"]);
    fs::write(folder.join("a.txt"), "one\nmore\n").unwrap();
    git(world, &folder, &["commit", "-qam", "second"]);
    folder
}

/// A program of the owner's at `path`.
pub fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a call of `git_read` or `git_write` came to: `ok`, or the tag of its failure.
pub async fn verdict(
    world: &World,
    tool: &str,
    command: &str,
    repo: &Path,
    args: &[&str],
) -> (String, CallOutcome) {
    let outcome = world
        .call(
            tool,
            json!({"command": command, "repo": repo, "args": args}),
        )
        .await;
    let rows = world.rows(TraceKind::ToolExec);
    let row = rows.last().expect("the call left a row");
    let tag = row.fields.get("failure").and_then(Value::as_str);
    let tag = tag.unwrap_or(if outcome.is_error { "?" } else { "ok" });
    (tag.to_owned(), outcome)
}

/// Every file below `folder` with its bytes, and every link with its target.
pub fn snapshot(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap().file_type();
            if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                all.push((path, target.into_os_string().into_encoded_bytes()));
            } else if kind.is_dir() {
                pending.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                all.push((path, bytes));
            }
        }
    }
    all.sort();
    all
}

/// `git daemon` on loopback, ended when dropped.
pub struct Daemon {
    child: Child,
    /// Where it listens.
    pub port: u16,
}

impl Daemon {
    /// Serves every repository below `base`.
    pub fn start(world: &World, base: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("loopback is there")
            .port();
        // The program itself and not its wrapper, so that ending the child ends it.
        let folder = git(world, base, &["--exec-path"]);
        let child = owner_command(world, &format!("{folder}/git-daemon"))
            .arg("--reuseaddr")
            .arg("--export-all")
            .arg("--listen=127.0.0.1")
            .arg(format!("--port={port}"))
            .arg(format!("--base-path={}", base.display()))
            .arg(base)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("git daemon is installed");
        let daemon = Self { child, port };
        let start = Instant::now();
        while !is_listening(port) {
            assert!(start.elapsed() < PATIENCE, "git daemon does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        daemon
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "asks the test's own server whether it is there"
)]
fn is_listening(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
