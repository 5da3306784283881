//! Runs a test in a process of its own, for those that measure or disturb the whole process:
//! under `cargo test` all others share theirs.

use std::process::Command;

const ALONE: &str = "FERMIX_SANDBOX_TEST_ALONE";

/// Starts this test binary again for the test called `name` alone, and checks that it passed. In
/// that second process it gives `false`: there the test goes on.
#[expect(
    clippy::disallowed_methods,
    reason = "a test starts its own binary, and tells it so by its environment"
)]
pub fn was_run_elsewhere(name: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let myself = std::env::current_exe().expect("known");
    let output = Command::new(myself)
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        // Marked, it is not taken for an orphan that some run of another test left behind.
        .env(fermix_sandbox::RUN_MARKER, "another process's")
        .output()
        .expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    true
}
