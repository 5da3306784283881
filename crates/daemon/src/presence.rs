//! Whether a local caller is the owner in person or something Fermix itself started.
//!
//! A command that the agent runs may call `fermix` again. Such a call must not count as the owner
//! typing, or the agent could answer its own questions and widen its own sandbox (spec/06 §3.4).
//!
//! A confined command shows in two ways that it cannot shed. In the view of the disk that it and
//! all it starts are given stands a sign it cannot remove, and it can make no other view. And where
//! the kernel hides its launcher from it, some ancestor cannot be looked at by a process that can
//! gain no rights: for a person's own shell that is never so.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fermix_channels::LocalPeer;
use fermix_config::Environment;

/// More generations than any real shell has.
const MAX_ANCESTORS: usize = 64;

/// Classifies this process. The command runner puts a mark into the environment of every command
/// and of the launcher above it; a command can wash its own environment, not its ancestors'.
/// `executable` is this program's own file. Any doubt reads as "started by Fermix".
pub fn of_this_process(environment: &Environment, executable: &Path) -> LocalPeer {
    let is_marked = environment
        .pairs()
        .contains_key(OsStr::new(fermix_sandbox::RUN_MARKER));
    if is_marked
        || fermix_sandbox::is_inside_a_run()
        || has_fermix_above(executable, Path::new("/proc")).unwrap_or(true)
    {
        LocalPeer::StartedByFermix
    } else {
        LocalPeer::InPerson
    }
}

/// Whether any ancestor of this process carries the mark or runs `executable`. `None` when the
/// ancestry cannot be read.
fn has_fermix_above(executable: &Path, proc: &Path) -> Option<bool> {
    let own = fs::metadata(executable).ok()?;
    // A process that cannot tell is taken for one that cannot gain rights.
    let is_held_down = gains_no_rights(proc).unwrap_or(true);
    let mut process = parent_of(&proc.join("self/stat"))?;
    for _ in 0..MAX_ANCESTORS {
        if process == 0 {
            return Some(false);
        }
        let folder = proc.join(process.to_string());
        // For a process that can gain rights, what belongs to another user or hides from its own
        // cannot be read and is not one of ours: what Fermix starts unconfined is readable.
        let program = fs::metadata(folder.join("exe"));
        if program.is_err() && is_held_down {
            return Some(true);
        }
        let runs_fermix =
            program.is_ok_and(|program| (program.dev(), program.ino()) == (own.dev(), own.ino()));
        let is_marked = fs::read(folder.join("environ")).is_ok_and(|environment| {
            environment.split(|byte| *byte == 0).any(|variable| {
                variable
                    .strip_prefix(fermix_sandbox::RUN_MARKER.as_bytes())
                    .is_some_and(|rest| rest.starts_with(b"="))
            })
        });
        if runs_fermix || is_marked {
            return Some(true);
        }
        process = parent_of(&folder.join("stat"))?;
    }
    None
}

/// Whether no program this process starts can have more rights than it. So it is for everything
/// that is confined, and for some containers.
fn gains_no_rights(proc: &Path) -> Option<bool> {
    let status = fs::read_to_string(proc.join("self/status")).ok()?;
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("NoNewPrivs:"))?;
    Some(value.trim() != "0")
}

fn parent_of(stat: &Path) -> Option<u32> {
    let stat = fs::read_to_string(stat).ok()?;
    // The program's name stands in parentheses and may itself hold spaces and parentheses.
    stat[stat.rfind(')')? + 1..]
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_none_of_our_ancestors_runs_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("fermix");
        fs::write(&program, "").unwrap();
        assert_eq!(
            of_this_process(&Environment::default(), &program),
            LocalPeer::InPerson
        );
        let marked = Environment::from_pairs([(fermix_sandbox::RUN_MARKER, "")]);
        assert_eq!(
            of_this_process(&marked, &program),
            LocalPeer::StartedByFermix
        );
    }

    #[test]
    fn the_program_of_an_ancestor_is_found() {
        let parent = parent_of(Path::new("/proc/self/stat")).unwrap();
        let program = fs::read_link(format!("/proc/{parent}/exe")).unwrap();
        assert_eq!(
            of_this_process(&Environment::default(), &program),
            LocalPeer::StartedByFermix
        );
    }

    #[test]
    fn unreadable_ancestry_is_doubt() {
        assert_eq!(
            of_this_process(&Environment::default(), Path::new("/nonexistent")),
            LocalPeer::StartedByFermix
        );
    }
}
