//! Finding and ending processes by what the kernel says about them.
//!
//! A process leaves its group and its session with one call, so neither says who belongs to a run.
//! Ancestry does as long as the ancestors live, and the run's marker in the environment does until a
//! program replaces its environment; the callers combine them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;

use rustix::process::{Pid, Signal, kill_process};

/// The variable that marks every process of a run.
pub const MARKER_VARIABLE: &str = "FERMIX_RUN";
/// How often processes that appear while the others are being frozen are looked for again.
const FREEZE_ROUNDS: usize = 5;

/// One process, as `/proc/<pid>/stat` has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Clock ticks since the machine started.
    pub(crate) started: u64,
    pub(crate) is_zombie: bool,
}

/// Every process there is.
pub(crate) fn processes() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process that ended since the folder was listed is none of ours to end.
        if let Some(process) = read(pid) {
            found.push(process);
        }
    }
    Ok(found)
}

/// One process; nothing when it is gone.
pub(crate) fn read(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold spaces and parentheses; everything after the last one is ours.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(&stat[after_name..]).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    Some(Process {
        pid,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        started: fields.get(19)?.parse().ok()?,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
    })
}

/// Whether the process was started with `marker`.
pub(crate) fn carries_marker(pid: i32, marker: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    environment
        .split(|byte| *byte == 0)
        .filter_map(|entry| {
            entry
                .strip_prefix(MARKER_VARIABLE.as_bytes())?
                .strip_prefix(b"=")
        })
        .any(|value| value == marker.as_bytes())
}

/// Everything below `root`, without it.
pub(crate) fn descendants(root: i32, processes: &[Process]) -> Vec<Process> {
    let mut found = with_descendants(processes, |process| process.parent == root);
    found.retain(|process| process.pid != root);
    found
}

/// The processes `is_member` picks, and everything below them.
pub(crate) fn with_descendants(
    processes: &[Process],
    is_member: impl Fn(&Process) -> bool,
) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut pending: Vec<Process> = processes.iter().copied().filter(is_member).collect();
    while let Some(process) = pending.pop() {
        if seen.insert(process.pid) {
            pending.extend(children.get(&process.pid).into_iter().flatten());
            found.push(process);
        }
    }
    found
}

/// Sends `signal` to one process. It may be gone already.
pub(crate) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid).filter(|pid| !pid.is_init()) {
        // The only other answer is that it belongs to somebody else by now.
        let _ = kill_process(pid, signal);
    }
}

/// Freezes what `find` finds until nothing new appears, then kills all of it. Frozen processes
/// cannot start others, so the second half misses nothing. Returns how many were killed.
pub(crate) fn freeze_and_kill(
    mut find: impl FnMut() -> io::Result<Vec<Process>>,
) -> io::Result<usize> {
    let mut frozen: HashSet<(i32, u64)> = HashSet::new();
    for _ in 0..FREEZE_ROUNDS {
        let mut is_new = false;
        for process in find()?.into_iter().filter(|process| !process.is_zombie) {
            if frozen.insert((process.pid, process.started)) {
                is_new = true;
                send(process.pid, Signal::STOP);
            }
        }
        if !is_new {
            break;
        }
    }
    for (pid, _) in &frozen {
        send(*pid, Signal::KILL);
    }
    Ok(frozen.len())
}
