//! What one simple command would do.

mod disks;
mod find;
mod kills;
mod output;
mod permissions;
mod wrappers;

use std::path::Path;

use super::lexer::{GLOB, HERE, UNKNOWN, Variables};
use super::targets::Ground;
use super::{Class, Reason, Simple, check_script};

pub(super) use output::printed;

/// Words that may stand before a command.
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "coproc",
];

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash", "fish"];

pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

pub(super) fn check(
    command: &Simple,
    ground: &Ground<'_>,
    cwd: Option<&Path>,
    depth: usize,
) -> Option<Reason> {
    let output = command
        .outputs
        .iter()
        .find_map(|target| disks::written(&target.text, cwd));
    if output.is_some() {
        return output;
    }
    let words: Vec<&str> = command
        .words
        .iter()
        .skip_while(|word| !word.is_quoted && is_keyword(&word.text))
        .map(|word| word.text.as_str())
        .collect();
    Looking {
        ground,
        cwd,
        depth,
        input: command.input.as_deref(),
        deletes_below: None,
    }
    .at(&words)
}

/// Where a command stands while its wrappers are taken off.
#[derive(Clone, Copy)]
struct Looking<'a> {
    ground: &'a Ground<'a>,
    cwd: Option<&'a Path>,
    depth: usize,
    input: Option<&'a str>,
    /// Inside `find -exec`: the folder it starts at, when nothing narrows it down.
    deletes_below: Option<&'a str>,
}

impl<'a> Looking<'a> {
    fn at(self, words: &[&'a str]) -> Option<Reason> {
        let start = words.iter().position(|word| !is_assignment(word))?;
        let (name, args) = words[start..].split_first()?;
        let name = name.rsplit('/').next().unwrap_or(name);
        match name {
            "rm" => self.delete(args),
            "find" => self.find(args),
            "rsync" => self.sync(args),
            "mv" => self
                .moved(args)
                .or_else(|| disks::check(name, args, self.cwd)),
            "chmod" | "chown" | "chgrp" => self.permissions(name, args),
            "kill" | "pkill" | "killall" | "skill" => kills::check(name, args, self.ground.home),
            "shutdown" | "reboot" | "poweroff" | "halt" => {
                let is_question = args
                    .iter()
                    .any(|arg| matches!(*arg, "--help" | "--version" | "-c" | "--show"));
                (!is_question).then(|| Reason::new(Class::Power, name))
            }
            "init" | "telinit" => args
                .iter()
                .find(|arg| matches!(**arg, "0" | "6"))
                .map(|level| Reason::new(Class::Power, format!("{name} {level}"))),
            "systemctl" | "loginctl" => args
                .iter()
                .find(|arg| !arg.starts_with('-'))
                .filter(|verb| {
                    matches!(
                        **verb,
                        "poweroff" | "reboot" | "halt" | "kexec" | "terminate-user" | "kill-user"
                    )
                })
                .map(|verb| Reason::new(Class::Power, format!("{name} {verb}"))),
            _ if SHELLS.contains(&name) => self.shell(args),
            "." | "source" => self.sourced(args),
            "eval" => self.script(&args.join(" ")),
            _ => disks::check(name, args, self.cwd).or_else(|| self.wrapper(name, args)),
        }
    }

    fn script(self, script: &str) -> Option<Reason> {
        check_script(
            script,
            self.ground,
            self.cwd,
            &Variables::default(),
            self.depth + 1,
        )
    }

    /// `rsync --delete` empties what it copies to.
    fn sync(self, args: &[&str]) -> Option<Reason> {
        let (options, operands) = split_options(args);
        let deletes = options.iter().any(|option| option.starts_with("--del"));
        let is_rehearsal = options.iter().any(|option| {
            *option == "--dry-run" || (!option.starts_with("--") && option.contains('n'))
        });
        operands
            .last()
            .filter(|_| deletes && !is_rehearsal && operands.len() > 1)
            .filter(|target| self.ground.forbids_emptying(target, self.cwd))
            .map(|target| {
                Reason::new(
                    Class::Delete,
                    format!("rsync --delete to {}", readable(target)),
                )
            })
    }

    /// What is moved is gone from its place.
    fn moved(self, args: &[&str]) -> Option<Reason> {
        let (options, mut operands) = split_options(args);
        let has_target = options
            .iter()
            .any(|option| option.starts_with("--target") || option.starts_with("-t"));
        if !has_target {
            operands.pop();
        }
        operands
            .iter()
            .find(|source| self.ground.forbids_delete(source, self.cwd))
            .map(|source| Reason::new(Class::Delete, format!("moving {} away", readable(source))))
    }

    fn delete(self, args: &[&str]) -> Option<Reason> {
        let (options, targets) = split_options(args);
        let is_recursive = self.deletes_below.is_some()
            || options
                .iter()
                .any(|option| match option.strip_prefix("--") {
                    Some(long) => !long.is_empty() && "recursive".starts_with(long),
                    None => option.contains(['r', 'R']),
                });
        if !is_recursive {
            return None;
        }
        targets
            .iter()
            .map(|target| {
                if *target == "{}" {
                    self.deletes_below.unwrap_or("\u{E001}")
                } else {
                    target
                }
            })
            .find(|target| self.ground.forbids_delete(target, self.cwd))
            .map(|target| {
                Reason::new(
                    Class::Delete,
                    format!("recursive delete of {}", readable(target)),
                )
            })
    }
}

/// A target as the user wrote it, more or less.
fn readable(target: &str) -> String {
    target
        .replace(GLOB, "*")
        .replace(HERE, ".")
        .replace(UNKNOWN, "…")
}

pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|letter: char| letter.is_ascii_digit())
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    })
}

fn split_options<'w>(args: &[&'w str]) -> (Vec<&'w str>, Vec<&'w str>) {
    let end = args
        .iter()
        .position(|arg| *arg == "--")
        .unwrap_or(args.len());
    let (options, mut operands): (Vec<&str>, Vec<&str>) = args[..end]
        .iter()
        .partition(|arg| arg.starts_with('-') && arg.len() > 1);
    operands.extend(args.iter().skip(end + 1));
    (options, operands)
}
