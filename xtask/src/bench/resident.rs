//! What the running daemon costs: its start, its idling, a warm turn over the socket.

use std::path::Path;
use std::time::{Duration, Instant};

use fermix_testkit::TestHome;

use super::report::{Row, Unit};
use super::{FINAL_WORDS, Turn, millis};
use crate::TaskError;
use crate::harness::daemon::Daemon;
use crate::harness::talk;

/// How long the idle daemon is watched.
const IDLE: Duration = Duration::from_secs(5);
/// How long it is left alone before that, for its start to settle.
const SETTLE: Duration = Duration::from_secs(1);

/// The daemon's rows.
pub(super) fn rows(binary: &Path, runs: u16) -> Result<Vec<Row>, TaskError> {
    let mut starts = Vec::new();
    for _ in 0..runs {
        let home = TestHome::new();
        // The first start of a home makes its folders and files; the daily start is the next.
        drop(Daemon::start(binary, &home)?);
        let (daemon, ready) = Daemon::start(binary, &home)?;
        drop(daemon);
        starts.push(ready);
    }
    let home = TestHome::new();
    let (idle, _) = Daemon::start(binary, &home)?;
    std::thread::sleep(SETTLE);
    let before = cpu(idle.pid())?;
    std::thread::sleep(IDLE);
    let used = cpu(idle.pid())?.saturating_sub(before);
    let resident = resident(idle.pid())?;
    drop(idle);

    let turn = Turn::with_calls(1);
    let (daemon, _) = Daemon::start(binary, &turn.home)?;
    let mut turns = Vec::new();
    for run in 0..=runs {
        let began = Instant::now();
        let heard = talk::say(
            daemon.socket(),
            &format!("bench-{run}"),
            "Read all my notes.",
        );
        let took = began.elapsed();
        let said = heard
            .done
            .and_then(|done| done.response)
            .unwrap_or_default();
        if !said.contains(FINAL_WORDS) {
            return Err(TaskError::Failed {
                program: "fermix run".to_owned(),
                detail: format!("it did not say {FINAL_WORDS:?} but {said:?}"),
            });
        }
        // The first warms the caches.
        if run > 0 {
            turns.push(took);
        }
    }
    Ok(vec![
        Row::new("daemon: ready", millis(middle(starts)), Unit::Millis, 15.0),
        Row::new(
            "daemon: idle memory",
            resident as f64 / f64::from(1 << 20),
            Unit::Mebibytes,
            25.0,
        ),
        Row::new(
            "daemon: idle CPU a second",
            millis(used) / IDLE.as_secs_f64(),
            Unit::Millis,
            1.0,
        ),
        Row::new(
            "warm turn over the socket",
            millis(middle(turns)),
            Unit::Millis,
            6.0,
        ),
    ])
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Time on a processor so far, all threads together (proc(5): nanoseconds in `schedstat`).
fn cpu(pid: u32) -> Result<Duration, TaskError> {
    let folder = format!("/proc/{pid}/task");
    let threads = std::fs::read_dir(&folder).map_err(TaskError::file(Path::new(&folder)))?;
    let nanos = threads
        .flatten()
        .filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        })
        .sum();
    Ok(Duration::from_nanos(nanos))
}

/// Resident memory in bytes.
fn resident(pid: u32) -> Result<u64, TaskError> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).map_err(TaskError::file(Path::new(&path)))?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kibibytes.unwrap_or(0) * 1024)
}
