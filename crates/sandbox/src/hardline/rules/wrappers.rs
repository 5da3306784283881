//! Commands whose arguments are a command.

use super::{Looking, is_assignment};
use crate::hardline::lexer::PRINTED;
use crate::hardline::{Class, Reason};

/// Options of `sudo` and `doas` that take a value: as letters and as words.
const SUDO_LETTERS: &str = "ugpChrtDRTU";
const SUDO_WORDS: &[&str] = &[
    "--user",
    "--group",
    "--prompt",
    "--chdir",
    "--chroot",
    "--close-from",
    "--host",
    "--role",
    "--type",
    "--other-user",
    "--command-timeout",
];

impl<'a> Looking<'a> {
    pub(super) fn wrapper(self, name: &str, args: &[&'a str]) -> Option<Reason> {
        // How the options that take the word after them are called, and how many operands stand
        // before the command.
        let (with_value, operands): (&[&str], usize) = match name {
            "sudo" | "doas" => return self.sudo(args),
            "su" | "runuser" => return self.other_user(args),
            "watch" => return self.watch(args),
            "trap" => {
                let script = args.iter().find(|arg| !arg.starts_with('-'))?;
                return self.script(script);
            }
            "env" => (&["-u", "-C", "--unset", "--chdir"], 0),
            "command" | "builtin" | "exec" | "nohup" | "setsid" | "then" | "busybox" | "toybox" => {
                (&["-a"], 0)
            }
            "nice" => (&["-n", "--adjustment"], 0),
            "ionice" => (&["-c", "-n"], 0),
            "stdbuf" => (&["-i", "-o", "-e"], 0),
            "time" => (&["-f", "-o"], 0),
            "unshare" | "nsenter" => (&["-S", "-G", "-R", "-w", "-t", "--target"], 0),
            "strace" | "ltrace" => (&["-e", "-o", "-p", "-s", "-u"], 0),
            "systemd-run" => (&["-p", "-u", "-E", "--unit", "--property"], 0),
            "timeout" => (&["-k", "-s", "--kill-after", "--signal"], 1),
            "flock" => (&["-w", "-E"], 1),
            "chroot" => (&["--userspec", "--groups"], 1),
            "taskset" | "chrt" | "setarch" => (&["-p"], 1),
            "xargs" => (
                &[
                    "-a",
                    "-d",
                    "-E",
                    "-I",
                    "-L",
                    "-n",
                    "-P",
                    "-s",
                    "--max-args",
                    "--max-procs",
                    "--delimiter",
                ],
                0,
            ),
            "parallel" => (&["-j", "--jobs"], 0),
            _ => return None,
        };
        if name == "command" && args.first().is_some_and(|arg| matches!(*arg, "-v" | "-V")) {
            return None;
        }
        let rest = self.past_options(name, args, with_value)?;
        let rest = rest.get(operands..).unwrap_or_default();
        if name == "xargs"
            && let Some(input) = self.input
        {
            let mut words = rest.to_vec();
            words.extend(input.split_whitespace());
            return self.at(&words);
        }
        if name == "env"
            && let ["-S" | "--split-string", script @ ..] = rest
        {
            return self.script(&script.join(" "));
        }
        self.at(rest)
    }

    /// What follows the options, and for `env` the assignments.
    fn past_options<'w>(
        self,
        name: &str,
        args: &'w [&'a str],
        with_value: &[&str],
    ) -> Option<&'w [&'a str]> {
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            if name == "env" && matches!(*first, "-S" | "--split-string") {
                break;
            }
            if *first == "--" {
                return Some(after);
            }
            if with_value.contains(first) {
                rest = after.get(1..).unwrap_or_default();
            } else if first.starts_with('-') && first.len() > 1 || is_assignment(first) {
                rest = after;
            } else {
                break;
            }
        }
        Some(rest)
    }

    /// `sudo`'s own options come first; letters may stand together, the last with its value.
    fn sudo(self, args: &[&'a str]) -> Option<Reason> {
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            if *first == "--" {
                rest = after;
                break;
            }
            let takes_next = if first.starts_with("--") {
                if *first == "--stdin" {
                    return Some(password());
                }
                SUDO_WORDS.contains(first)
            } else if let Some(letters) = first.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                let value = letters.find(|letter| SUDO_LETTERS.contains(letter));
                if letters[..value.unwrap_or(letters.len())].contains('S') {
                    return Some(password());
                }
                value == Some(letters.len() - 1)
            } else if is_assignment(first) {
                false
            } else {
                break;
            };
            rest = after.get(usize::from(takes_next)..).unwrap_or_default();
        }
        self.at(rest)
    }

    /// `su - USER -c SCRIPT`, and `runuser -u USER -- COMMAND`.
    fn other_user(self, args: &[&'a str]) -> Option<Reason> {
        let script = args.windows(2).find_map(|pair| {
            let is_command = pair[0] == "--command"
                || (pair[0].starts_with('-')
                    && !pair[0].starts_with("--")
                    && pair[0].ends_with('c'));
            is_command.then_some(pair[1])
        });
        let joined = args.iter().find_map(|arg| arg.strip_prefix("--command="));
        if let Some(script) = script.or(joined) {
            return self.script(script);
        }
        let command = args.iter().position(|arg| *arg == "--")?;
        self.at(&args[command + 1..])
    }

    /// `watch` hands its arguments to a shell as one text.
    fn watch(self, args: &[&'a str]) -> Option<Reason> {
        let rest = self.past_options("watch", args, &["-n", "--interval", "-q"])?;
        self.script(&rest.join(" "))
    }

    pub(super) fn shell(self, args: &[&'a str]) -> Option<Reason> {
        let (mut takes_script, mut reads_input) = (false, false);
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            let is_option = first.len() > 1 && first.starts_with(['-', '+']);
            if !is_option {
                break;
            }
            rest = after;
            if *first == "--" {
                break;
            }
            let letters = if first.starts_with("--") {
                ""
            } else {
                &first[1..]
            };
            takes_script |= first.starts_with('-') && letters.contains('c');
            reads_input |= letters.contains('s');
            let takes_next =
                letters.ends_with(['o', 'O']) || matches!(*first, "--rcfile" | "--init-file");
            rest = rest.get(usize::from(takes_next)..).unwrap_or_default();
        }
        match rest.first() {
            Some(script) if takes_script => self.script(script),
            Some(_) if !reads_input => self.sourced(rest),
            _ => self.input.and_then(|script| self.script(script)),
        }
    }

    /// A file that is run as a script, when it is known what is in it.
    pub(super) fn sourced(self, args: &[&'a str]) -> Option<Reason> {
        let file = args.first()?;
        if let Some(script) = file.strip_prefix(PRINTED) {
            return self.script(script);
        }
        self.input
            .filter(|_| matches!(*file, "/dev/stdin" | "/proc/self/fd/0"))
            .and_then(|script| self.script(script))
    }
}

fn password() -> Reason {
    Reason::new(Class::SudoPassword, "a password on sudo's standard input")
}
