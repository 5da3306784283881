//! Killing everything.

use std::path::Path;

use crate::hardline::lexer::{UNKNOWN, USER};
use crate::hardline::{Class, Reason};

pub(super) fn check(name: &str, args: &[&str], home: &Path) -> Option<Reason> {
    if name == "kill" {
        kills_everything(args).then(|| Reason::new(Class::KillAll, "killing every process"))
    } else {
        kills_user(args, home)
            .then(|| Reason::new(Class::KillAll, "killing every process of the user"))
    }
}

/// `-1` as a process means all of them; as the first of several arguments it is a signal.
fn kills_everything(args: &[&str]) -> bool {
    let is_list = args
        .iter()
        .any(|arg| matches!(*arg, "-l" | "-L" | "--list"));
    // Signal 0 asks whether there is such a process.
    let is_question =
        args.first() == Some(&"-0") || matches!(args, ["-s" | "-n" | "--signal", "0" | "EXIT", ..]);
    !is_list
        && !is_question
        && args
            .iter()
            .enumerate()
            .any(|(at, arg)| *arg == "-1" && (at > 0 || args.len() == 1))
}

/// A user to kill without a pattern to narrow it down.
fn kills_user(args: &[&str], home: &Path) -> bool {
    let own_name = home
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let is_own = |user: &str| user == own_name || user == "root" || user.contains([USER, UNKNOWN]);
    let mut is_user = false;
    let mut has_pattern = false;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match *arg {
            "-u" | "-U" | "--euid" | "--uid" | "--user" => {
                is_user |= rest.next().is_some_and(|user| is_own(user));
            }
            "-s" | "--signal" | "-g" | "-G" | "-P" | "-t" => {
                rest.next();
            }
            other if other.starts_with("-u") || other.starts_with("-U") => {
                is_user |= is_own(&other[2..]);
            }
            other => has_pattern |= !other.starts_with('-'),
        }
    }
    is_user && !has_pattern
}
