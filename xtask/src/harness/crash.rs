//! `cargo xtask crash`: the daemon is killed at random instants, and everything is accounted for.
//!
//! Three conversations work at once. Each message writes a file, starts a command that leaves a
//! process in a session of its own, and edits the file. At a random instant the daemon gets
//! SIGKILL. The next daemon must find: no message lost or doubled, no request without its end, no
//! tool run twice, no half-written file, no lost checkpoint, no process left.

use std::path::Path;
use std::time::{Duration, Instant};

use fermix_testkit::{Checks, FakeModel, Script, Seen, Step, TestHome};
use serde_json::json;

use super::daemon::Daemon;
use super::{Which, accounts, talk};
use crate::TaskError;

/// Conversations that work at once.
const CONVERSATIONS: u32 = 3;
/// The bytes of a written file: enough that a cut write would show.
const FILE_BYTES: usize = 48 * 1024;
/// The longest time between the messages and the kill.
const LATEST_KILL: Duration = Duration::from_millis(400);

/// How to try.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// How often the daemon is killed.
    #[arg(long, default_value_t = 500)]
    points: u32,
    /// Where the random instants come from, to repeat a run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    which: Which,
}

/// What was counted.
#[derive(Debug, Default)]
struct Tally {
    sent: u32,
    answered: u32,
    unfinished: u32,
    unseen: u32,
    checkpoints: usize,
    findings: Vec<String>,
}

/// Kills and accounts. True when nothing was found.
///
/// # Errors
/// When the binary cannot be built or the daemon does not start.
pub fn run(root: &Path, options: &Options) -> Result<bool, TaskError> {
    let binary = options.which.find(root)?;
    let home = TestHome::new();
    let model = FakeModel::start_with(Script::each(answer), Checks::none());
    home.use_model(&model, "");
    let mut random = Random(options.seed | 1);
    let mut tally = Tally::default();
    let began = Instant::now();
    for point in 0..options.points {
        let (daemon, _) = Daemon::start(&binary, &home)?;
        one_point(point, daemon, &home, &mut random, &mut tally);
        if tally.findings.len() > 20 {
            break;
        }
    }
    // The last daemon ends what the last kill left open.
    let (daemon, _) = Daemon::start(&binary, &home)?;
    account(&home, options.points, &mut tally);
    if !daemon.stop() {
        tally
            .findings
            .push("the daemon did not end on SIGTERM".to_owned());
    }
    for finding in &tally.findings {
        println!("finding: {finding}");
    }
    println!(
        "crash: {} points, {} messages: {} answered, {} closed as unfinished, {} never begun; \
         {} checkpoints whole; {} findings; {:.0} s, seed {}",
        options.points,
        tally.sent,
        tally.answered,
        tally.unfinished,
        tally.unseen,
        tally.checkpoints,
        tally.findings.len(),
        began.elapsed().as_secs_f64(),
        options.seed
    );
    Ok(tally.findings.is_empty())
}

fn one_point(point: u32, daemon: Daemon, home: &TestHome, random: &mut Random, tally: &mut Tally) {
    let socket = daemon.socket().to_owned();
    let delay = random.below(LATEST_KILL);
    let heard: Vec<(String, talk::Heard)> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CONVERSATIONS)
            .map(|lane| {
                let (socket, text) = (&socket, text_of(point, lane));
                scope.spawn(move || {
                    let heard = talk::say(socket, &format!("lane-{lane}"), &text);
                    (text, heard)
                })
            })
            .collect();
        std::thread::sleep(delay);
        daemon.kill();
        clients
            .into_iter()
            .map(|client| client.join().expect("a client does not panic"))
            .collect()
    });
    let left = accounts::orphans(home.os_home());
    if !left.is_empty() {
        tally
            .findings
            .push(format!("point {point}: processes left: {left:?}"));
    }
    let stored = match accounts::messages(&home.fermix_home().join("memory.db")) {
        Ok(stored) => stored,
        Err(finding) => {
            tally.findings.push(format!("point {point}: {finding}"));
            return;
        }
    };
    for (text, heard) in heard {
        tally.sent += 1;
        let times = stored.get(&text).map_or(0, |stored| stored.times);
        if heard.was_begun && times == 0 {
            tally
                .findings
                .push(format!("`{text}` was begun and is lost"));
        }
        let is_answered = heard.done.is_some_and(|done| done.status == "ok");
        if is_answered && stored.get(&text).is_none_or(|stored| stored.endings != 1) {
            tally
                .findings
                .push(format!("the answer to `{text}` is lost"));
        }
        tally.unseen += u32::from(times == 0);
        tally.answered += u32::from(is_answered);
    }
}

/// The whole home, once a new daemon has put it in order.
fn account(home: &TestHome, points: u32, tally: &mut Tally) {
    let database = home.fermix_home().join("memory.db");
    match accounts::messages(&database) {
        Err(finding) => tally.findings.push(finding),
        Ok(stored) => {
            for (text, stored) in &stored {
                if stored.times != 1 {
                    tally
                        .findings
                        .push(format!("`{text}` is stored {} times", stored.times));
                }
                if stored.endings != stored.times {
                    tally
                        .findings
                        .push(format!("`{text}` has {} endings", stored.endings));
                }
            }
            tally.unfinished = u32::try_from(stored.len())
                .unwrap_or(u32::MAX)
                .saturating_sub(tally.answered);
        }
    }
    match accounts::checkpoints(&home.fermix_home()) {
        Ok(checkpoints) => tally.checkpoints = checkpoints,
        Err(finding) => tally.findings.push(finding),
    }
    for point in 0..points {
        for lane in 0..CONVERSATIONS {
            let name = name_of(point, lane);
            if let Some(bytes) = home.read(format!("{name}.txt"))
                && bytes != first_content(&name)
                && bytes != edited_content(&name)
            {
                tally
                    .findings
                    .push(format!("{name}.txt is half-written: {} bytes", bytes.len()));
            }
            let runs = home.read(format!("{name}.ran")).unwrap_or_default();
            if runs.len() > b"ran\n".len() {
                tally
                    .findings
                    .push(format!("the command of {name} ran more than once"));
            }
        }
    }
}

fn text_of(point: u32, lane: u32) -> String {
    format!("work {}", name_of(point, lane))
}

fn name_of(point: u32, lane: u32) -> String {
    format!("p{point}-{lane}")
}

fn first_content(name: &str) -> Vec<u8> {
    let mut content = format!("begin {name}\n").into_bytes();
    content.resize(FILE_BYTES, b'.');
    content
}

fn edited_content(name: &str) -> Vec<u8> {
    let mut content = format!("ended {name}\n").into_bytes();
    content.resize(FILE_BYTES, b'.');
    content
}

/// The scripted model: write, run, edit, say so.
fn answer(seen: &Seen) -> Step {
    // Several messages of one conversation may have become one turn; the last one counts.
    let name = seen
        .last_user()
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("work "))
        .unwrap_or("nothing")
        .trim()
        .to_owned();
    match seen.last_results().len() {
        0 => Step::call(
            "file_write",
            json!({
                "path": format!("{name}.txt"),
                "content": String::from_utf8_lossy(&first_content(&name)),
            }),
        ),
        1 if seen
            .results()
            .last()
            .is_some_and(|result| result.text.contains("Wrote")) =>
        {
            Step::call(
                "shell",
                json!({
                    "command": format!("echo ran >> {name}.ran; setsid sleep 300 & sleep 0.03; echo done"),
                }),
            )
        }
        1 if seen
            .results()
            .last()
            .is_some_and(|result| result.text.contains("done")) =>
        {
            Step::call(
                "file_edit",
                json!({
                    "path": format!("{name}.txt"),
                    "old_string": format!("begin {name}"),
                    "new_string": format!("ended {name}"),
                }),
            )
        }
        _ => Step::say(format!("Finished {name}.")),
    }
}

/// A small generator whose run can be repeated (xorshift64*; the sequence matters, its quality does
/// not).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: Duration) -> Duration {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(value % micros.max(1))
    }
}
