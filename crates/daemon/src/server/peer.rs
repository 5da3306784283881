//! Who is at the other end of a connection.
//!
//! The socket's permissions keep other users out. Within the owner's own processes the ancestry
//! decides: what Fermix started, at any depth, stays below Fermix, because the daemon and every
//! launcher adopt the orphans below them. Ancestry is read once, when the connection comes, and
//! whatever cannot be read or changes meanwhile reads as "not the owner in person".

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fermix_channels::LocalPeer;
use tokio::net::UnixStream;

use crate::presence;

/// More generations than any real shell has.
const MAX_ANCESTORS: usize = 64;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) local: LocalPeer,
    /// Whether its process has a controlling terminal, so that somebody can read a prompt there.
    pub(super) has_terminal: bool,
    doubt: Option<Doubt>,
}

/// Why a peer is not the owner in person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    Started,
    Unreadable,
}

/// Why nobody is answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotOurs {
    #[error("another user's process asked")]
    OtherUser,
    #[error("the peer's credentials cannot be read: {0}")]
    Unknown(#[from] std::io::Error),
}

impl Peer {
    /// Reads who has connected. `executable` is this program's file.
    pub(super) fn of(stream: &UnixStream, executable: &Path) -> Result<Self, NotOurs> {
        let credentials = stream.peer_cred()?;
        if credentials.uid() != rustix::process::geteuid().as_raw() {
            return Err(NotOurs::OtherUser);
        }
        Ok(Self::of_process(
            credentials.pid(),
            executable,
            Path::new("/proc"),
        ))
    }

    fn of_process(pid: Option<i32>, executable: &Path, proc: &Path) -> Self {
        let in_doubt = |doubt| Self {
            local: LocalPeer::StartedByFermix,
            has_terminal: false,
            doubt: Some(doubt),
        };
        // A process of a namespace that is none of ours has no number here.
        let Some(pid) = pid.filter(|pid| *pid > 0) else {
            return in_doubt(Doubt::Unreadable);
        };
        let Some((line, is_started)) = judged(pid, executable, proc) else {
            return in_doubt(Doubt::Unreadable);
        };
        // A parent that ended while the line was read may have hidden what stood above it.
        if lineage(pid, proc).as_ref() != Some(&line) {
            return in_doubt(Doubt::Unreadable);
        }
        if is_started {
            return in_doubt(Doubt::Started);
        }
        Self {
            local: LocalPeer::InPerson,
            has_terminal: line[0].has_terminal,
            doubt: None,
        }
    }

    /// A peer that this process started.
    #[cfg(test)]
    pub(super) fn own_child() -> Self {
        let me = i32::try_from(std::process::id()).ok();
        Self::of_process(me, Path::new("/proc/self/exe"), Path::new("/proc"))
    }

    /// Refuses who is not the owner in person.
    pub(super) fn in_person(&self, what: &str) -> Result<(), String> {
        let why = match self.doubt {
            None => return Ok(()),
            Some(Doubt::Started) => "it was asked for by a process that Fermix started",
            Some(Doubt::Unreadable) => {
                "it cannot be seen that the process that asked is the owner's own"
            }
        };
        Err(format!(
            "not_in_person: {what} is the owner's to ask for in person, and {why}; do it in your own terminal"
        ))
    }

    /// Whether somebody can answer prompts there.
    pub(super) fn can_answer(&self) -> bool {
        self.local == LocalPeer::InPerson && self.has_terminal
    }
}

/// One process of a line, as it was when the line was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ancestor {
    pid: i32,
    /// Clock ticks since the machine started: with the number, one process and no other.
    started: u64,
    has_terminal: bool,
}

/// The line of a process, and whether Fermix is in it.
fn judged(pid: i32, executable: &Path, proc: &Path) -> Option<(Vec<Ancestor>, bool)> {
    // After an upgrade the running program and the one that clients run are two files.
    let programs: Vec<(u64, u64)> = [proc.join("self/exe"), executable.to_owned()]
        .iter()
        .filter_map(|path| fs::metadata(path).ok())
        .map(|file| (file.dev(), file.ino()))
        .collect();
    if programs.is_empty() {
        return None;
    }
    let folder = |pid: i32| -> PathBuf { proc.join(pid.to_string()) };
    // Its numbers are ours to look up only within our own namespace, and a process that hides from
    // its own user does so for a reason.
    let namespace = |of: PathBuf| fs::read_link(of.join("ns/pid")).ok();
    if namespace(folder(pid))? != namespace(proc.join("self"))? {
        return None;
    }
    let line = lineage(pid, proc)?;
    let me = i32::try_from(std::process::id()).ok()?;
    let is_started = line.iter().enumerate().any(|(generation, ancestor)| {
        let folder = folder(ancestor.pid);
        ancestor.pid == me
            || presence::is_marked(&folder)
            // The peer itself may well be `fermix`.
            || (generation > 0 && presence::runs(&folder, &programs))
    });
    Some((line, is_started))
}

/// A process and everything above it.
fn lineage(pid: i32, proc: &Path) -> Option<Vec<Ancestor>> {
    let mut line = Vec::new();
    let mut next = pid;
    while next != 0 {
        if line.len() == MAX_ANCESTORS {
            return None;
        }
        let stat = fs::read_to_string(proc.join(next.to_string()).join("stat")).ok()?;
        // The program's name stands in parentheses and may itself hold spaces and parentheses.
        let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
        line.push(Ancestor {
            pid: next,
            started: fields.get(19)?.parse().ok()?,
            has_terminal: *fields.get(4)? != "0",
        });
        next = fields.get(1)?.parse().ok()?;
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_pid() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    #[test]
    fn what_this_process_started_is_told_from_what_it_did_not() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("fermix");
        fs::write(&program, "").unwrap();
        let proc = Path::new("/proc");
        let parent = lineage(own_pid(), proc).unwrap()[1].pid;
        let above = Peer::of_process(Some(parent), &program, proc);
        assert_eq!(above.local, LocalPeer::InPerson);
        above.in_person("this").unwrap();

        // This process is its own ancestor here: what a child of the daemon looks like.
        let below = Peer::of_process(Some(own_pid()), &program, proc);
        assert_eq!(below.local, LocalPeer::StartedByFermix);
        assert!(!below.can_answer());
        let refused = below.in_person("`shutdown`").unwrap_err();
        assert!(refused.starts_with("not_in_person: `shutdown` is the owner's"));
    }

    #[test]
    fn who_cannot_be_read_is_not_the_owner_in_person() {
        let proc = Path::new("/proc");
        let program = std::env::current_exe().unwrap();
        for pid in [None, Some(0), Some(-1), Some(i32::MAX)] {
            let peer = Peer::of_process(pid, &program, proc);
            assert_eq!(peer.local, LocalPeer::StartedByFermix, "{pid:?}");
            peer.in_person("this").unwrap_err();
        }
        let empty = tempfile::tempdir().unwrap();
        let peer = Peer::of_process(Some(own_pid()), &program, empty.path());
        assert_eq!(peer.local, LocalPeer::StartedByFermix);
    }
}
