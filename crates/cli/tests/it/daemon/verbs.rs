//! `status`, `stop`, `health` and `logs`, with and without a daemon.

use std::io::{BufRead as _, BufReader};

use fermix_testkit::TestHome;
use serde_json::json;

use super::running::{Running, eventually};
use crate::support::{fermix, start};

#[test]
fn without_a_daemon_every_verb_says_so() {
    let home = TestHome::new();
    for verb in ["status", "stop", "reload", "health"] {
        let run = fermix(&home, &[verb]).code(3);
        assert!(run.stderr.contains("fermix run"), "{verb}: {}", run.stderr);
        let value = fermix(&home, &[verb, "--json"]).code(3).json();
        assert_eq!(
            value,
            json!({ "status": "error", "error": "not_running" }),
            "{verb}"
        );
    }
    let run = fermix(&home, &["logs", "-f"]).code(1);
    assert!(run.stderr.contains("there is no log yet"), "{}", run.stderr);
}

#[test]
fn with_a_daemon_they_tell_about_it_and_stop_waits_for_its_end() {
    let home = TestHome::new();
    let mut daemon = Running::start(&home);
    let status = fermix(&home, &["status", "--full", "--json"]).code(0);
    assert_eq!(status.stderr, "");
    let status = status.json();
    assert_eq!(status["pid"], json!(daemon.pid()));
    assert_eq!(status["version"], json!(env!("CARGO_PKG_VERSION")));
    assert_eq!(status["overview"]["active_turns"], json!(0));
    let words = fermix(&home, &["status"]).code(0).stdout;
    assert!(words.starts_with("running: version"), "{words}");

    let health = fermix(&home, &["health", "--json"]).code(0).json();
    let names: Vec<_> = health["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "daemon",
            "turns",
            "commands",
            "store",
            "configuration",
            "providers"
        ]
    );
    let stopped = fermix(&home, &["stop", "--json"]).code(0).json();
    assert_eq!(
        stopped,
        json!({ "status": "ok", "pid": daemon.pid(), "killed": false })
    );
    assert!(!home.fermix_home().join("daemon.sock").exists());
    assert_eq!(daemon.wait().code(), Some(0));
    fermix(&home, &["status"]).code(3);
}

#[test]
fn a_followed_log_goes_on_when_it_is_put_aside() {
    let home = TestHome::new();
    let _daemon = Running::start(&home);
    let log = home.fermix_home().join("logs/fermix.log");
    assert!(fermix(&home, &["logs"]).code(0).stdout.contains(" ready "));
    assert_eq!(fermix(&home, &["logs", "-n", "0"]).code(0).stdout, "");
    let mut follower = start(&home, &["logs", "-f", "-n", "1"]);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains(" ready "));
    fermix(&home, &["reload"]).code(0);
    assert!(lines.next().unwrap().unwrap().contains("read again"));
    std::fs::rename(&log, home.fermix_home().join("logs/fermix.log.1")).unwrap();
    fermix(&home, &["reload"]).code(0);
    assert!(lines.next().unwrap().unwrap().contains("read again"));
    let _ = follower.kill();
    let _ = follower.wait();
    // Both parts are one log.
    let whole = fermix(&home, &["logs"]).code(0).stdout;
    assert_eq!(whole.matches("read again").count(), 2);
    assert_eq!(
        fermix(&home, &["logs", "-n", "2"])
            .code(0)
            .stdout
            .lines()
            .count(),
        2
    );
    eventually("a log that others cannot read", || {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(&log).unwrap().permissions().mode() & 0o777 == 0o600
    });
}
