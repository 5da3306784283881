//! Runs whose owner, launcher or daemon goes away first.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use fermix_sandbox::{ConfineMode, Ending, RunError, Scope};
use fermix_types::SandboxMode;
use tokio_util::sync::CancellationToken;

use crate::support::{TestHome, gone, marked, spec, unique};

#[tokio::test]
async fn a_dropped_run_and_a_killed_launcher_leave_nothing() {
    // What a killed launcher leaves is adopted by the whole process, and so is not told from the
    // children of other tests.
    if crate::alone::was_run_elsewhere("ends::a_dropped_run_and_a_killed_launcher_leave_nothing") {
        return;
    }
    // A confined command cannot reach its launcher at all.
    let mut test = TestHome::new(SandboxMode::Standard);
    test.settings.confine.mode = ConfineMode::Off;
    let sandbox = test.sandbox();
    let cancel = CancellationToken::new();

    let mark = unique();
    let dropped = sandbox.runner().run(
        spec(&sandbox, &mark, "setsid sleep 300 & sleep 300").await,
        &cancel,
    );
    assert!(
        tokio::time::timeout(Duration::from_millis(200), dropped)
            .await
            .is_err(),
        "it was still running"
    );
    gone(&mark, Duration::from_secs(1)).await;

    // A command that kills its launcher, and one that has hidden its children before it does.
    for script in [
        "setsid sleep 300 & sleep 0.1; kill -9 $PPID; sleep 300",
        "env -i MARK=$MARK setsid sh -c 'sleep 300 & sleep 300' & sleep 0.2; kill -9 $PPID; sleep 300",
    ] {
        let mark = unique();
        let outcome = sandbox
            .runner()
            .run(spec(&sandbox, &mark, script).await, &cancel)
            .await;
        assert!(matches!(outcome, Err(RunError::Lost)), "{outcome:?}");
        gone(&mark, Duration::from_secs(1)).await;
    }
    assert!(sandbox.runner().shutdown(Duration::from_secs(2)).await);
}

/// Tells a process of this executable that it is the one to be killed, and under which mark its
/// command runs.
const MARK: &str = "FERMIX_SANDBOX_TEST_MARK";

/// By itself, a check that a stubborn tree ends at its deadline. In the process that the next test
/// starts, the deadline is far away, and the process is killed. Five hundred sessions of their own
/// are part of the tree.
#[tokio::test]
async fn a_stubborn_tree_ends_at_its_deadline() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    #[expect(
        clippy::disallowed_methods,
        reason = "the test that starts this process tells it so by its environment"
    )]
    let told = std::env::var(MARK).ok();
    let patience = Duration::from_millis(if told.is_some() { 60_000 } else { 3000 });
    let mark = told.unwrap_or_else(unique);
    let script = "i=0; while [ $i -lt 500 ]; do env -i MARK=$MARK setsid sleep 300 & i=$((i+1)); done; setsid sh -c 'sleep 300 & sleep 300' & trap '' TERM; sleep 300 & echo started; wait";
    let mut spec = spec(&sandbox, &mark, script).await;
    spec.timeout = patience;
    let outcome = sandbox
        .runner()
        .run(spec, &Scope::default().cancel)
        .await
        .expect("ran");
    assert_eq!((outcome.ending, outcome.is_clean), (Ending::TimedOut, true));
    gone(&mark, Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_killed_daemon_takes_its_commands_along() {
    let mark = unique();
    let test = TestHome::new(SandboxMode::Standard);
    let myself = std::env::current_exe().expect("known");
    kill_a_daemon(&myself, &mark, &test.home).await;
    gone(&mark, Duration::from_secs(5)).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "the process to be killed is no run"
)]
async fn kill_a_daemon(myself: &Path, mark: &str, scratch: &Path) {
    let mut daemon = std::process::Command::new(myself)
        .args([
            "--exact",
            "ends::a_stubborn_tree_ends_at_its_deadline",
            "--nocapture",
        ])
        .env(MARK, mark)
        // It leaves its home behind.
        .env("TMPDIR", scratch)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let stdout = daemon.stdout.take().expect("piped");
    let first = tokio::task::spawn_blocking(move || BufReader::new(stdout).lines().next());
    assert!(
        first.await.expect("no panic").is_some(),
        "the harness speaks"
    );
    let started = Instant::now();
    // The process itself, the shell, the sessions, three sleeps and the inner shell.
    while marked(mark).len() < 506 {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{:?}",
            marked(mark)
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    daemon.kill().expect("killed");
    daemon.wait().expect("reaped");
}
