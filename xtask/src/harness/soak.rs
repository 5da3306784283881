//! `cargo xtask soak`: many turns, and what the daemon keeps of them.

use std::path::Path;
use std::time::Instant;

use fermix_testkit::{Checks, FakeModel, Script, Step, TestHome};
use serde_json::json;

use super::daemon::Daemon;
use super::{Which, talk};
use crate::TaskError;

/// Conversations that take turns.
const CONVERSATIONS: u32 = 20;
/// How often the daemon is looked at.
const SAMPLES: u32 = 100;
/// What a turn may add to memory, in bytes: the budget of the design.
const MAX_SLOPE: f64 = 1024.0;
/// The part of the run that fills caches and pools and is not counted.
const WARM_UP: u32 = 4;

/// How to try.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// How many turns.
    #[arg(long, default_value_t = 10_000)]
    turns: u32,
    #[command(flatten)]
    which: Which,
}

/// The daemon at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    turns: u32,
    /// Resident memory in bytes.
    rss: u64,
    descriptors: usize,
    threads: u64,
}

/// Runs the turns and reports. True when memory, descriptors and threads stay flat.
///
/// # Errors
/// When the binary cannot be built or the daemon does not start, or a turn fails.
pub fn run(root: &Path, options: &Options) -> Result<bool, TaskError> {
    let binary = options.which.find(root)?;
    let home = TestHome::new();
    home.file("note.txt", "A note.\n");
    let script = Script::each(|seen| {
        if seen.last_results().is_empty() {
            Step::call("file_read", json!({"path": "note.txt"}))
        } else {
            Step::say("Read.")
        }
    });
    let model = FakeModel::start_with(script, Checks::none());
    home.use_model(&model, "");
    let (daemon, _) = Daemon::start(&binary, &home)?;
    let began = Instant::now();
    let mut samples = vec![sample(&daemon, 0)?];
    for turn in 1..=options.turns {
        let session = format!("soak-{}", turn % CONVERSATIONS);
        let heard = talk::say(
            daemon.socket(),
            &session,
            &format!("Read note number {turn}."),
        );
        if heard.done.as_ref().is_none_or(|done| done.status != "ok") {
            return Err(TaskError::Failed {
                program: "fermix run".to_owned(),
                detail: format!("turn {turn} failed: {:?}", heard.done),
            });
        }
        if turn % (options.turns / SAMPLES).max(1) == 0 {
            samples.push(sample(&daemon, turn)?);
        }
    }
    let took = began.elapsed();
    let stopped = daemon.stop();
    let counted: Vec<Sample> = samples
        .iter()
        .copied()
        .filter(|sample| sample.turns >= options.turns / WARM_UP)
        .collect();
    let slope = slope(&counted);
    let (first, last) = (counted[0], counted[counted.len() - 1]);
    println!(
        "soak: {} turns in {:.0} s; RSS {:.1} MiB at start, {:.1} MiB after warm-up, {:.1} MiB at the end: \
         {slope:.0} bytes a turn; descriptors {} -> {}; threads {} -> {}",
        options.turns,
        took.as_secs_f64(),
        mebibytes(samples[0].rss),
        mebibytes(first.rss),
        mebibytes(last.rss),
        first.descriptors,
        last.descriptors,
        first.threads,
        last.threads,
    );
    // A connection or a pool thread may come or go at the moment of a look; growth shows as more.
    let is_flat = slope < MAX_SLOPE
        && last.descriptors <= first.descriptors + 4
        && last.threads <= first.threads + 4;
    if !stopped {
        println!("finding: the daemon did not end on SIGTERM");
    }
    Ok(is_flat && stopped)
}

fn sample(daemon: &Daemon, turns: u32) -> Result<Sample, TaskError> {
    let folder = format!("/proc/{}", daemon.pid());
    let path = Path::new(&folder).join("status");
    let status = std::fs::read_to_string(&path).map_err(TaskError::file(&path))?;
    let number = |name: &str| -> u64 {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    };
    let descriptors = std::fs::read_dir(Path::new(&folder).join("fd")).map_or(0, Iterator::count);
    Ok(Sample {
        turns,
        rss: number("VmRSS:") * 1024,
        descriptors,
        threads: number("Threads:"),
    })
}

/// Bytes a turn, by least squares.
fn slope(samples: &[Sample]) -> f64 {
    let count = samples.len() as f64;
    let mean = |part: fn(&Sample) -> f64| samples.iter().map(part).sum::<f64>() / count;
    let (turns, rss) = (mean(|s| f64::from(s.turns)), mean(|s| s.rss as f64));
    let above: f64 = samples
        .iter()
        .map(|s| (f64::from(s.turns) - turns) * (s.rss as f64 - rss))
        .sum();
    let below: f64 = samples
        .iter()
        .map(|s| (f64::from(s.turns) - turns).powi(2))
        .sum();
    if below > 0.0 { above / below } else { 0.0 }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_slope() {
        let at = |turns: u32| Sample {
            turns,
            rss: 1_000_000 + 300 * u64::from(turns),
            descriptors: 1,
            threads: 1,
        };
        let samples: Vec<Sample> = (0..10).map(|step| at(step * 100)).collect();
        assert!((slope(&samples) - 300.0).abs() < 1e-6);
        assert!(slope(&samples[..1]).abs() < f64::EPSILON);
    }
}
