//! Commands whose harmlessness hangs on their words: wrappers, searchers, small languages.

use super::{Doubt, Judging, script_at, unknown_word};
use crate::commands::script::{Word, is_harmless_variable, is_local};

/// What `find` may be told. Everything else runs, deletes or writes something.
const FIND_WORDS: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-regex",
    "-iregex",
    "-type",
    "-size",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-newer",
    "-empty",
    "-perm",
    "-user",
    "-group",
    "-maxdepth",
    "-mindepth",
    "-depth",
    "-prune",
    "-print",
    "-print0",
    "-printf",
    "-ls",
    "-o",
    "-or",
    "-a",
    "-and",
    "-not",
    "-quit",
    "-true",
    "-false",
    "-xdev",
    "-mount",
    "-readable",
    "-writable",
    "-executable",
    "-links",
    "-inum",
    "-samefile",
    "-H",
    "-L",
    "-P",
    "-regextype",
    "-follow",
];

/// What `git` may be told that only reads, with the options that do more.
const GIT_READS: &[&str] = &[
    "rev-parse",
    "ls-tree",
    "describe",
    "rev-list",
    "merge-base",
    "name-rev",
];
/// Options of those that run or write something; an abbreviation counts.
const GIT_ACTS: &[&str] = &[
    "output",
    "ext-diff",
    "textconv",
    "filters",
    "open-files-in-pager",
    "exec",
    "show-signature",
];

impl Judging<'_> {
    /// The verdict on a command of this module; `None` for any other.
    pub(super) fn special(self, name: &str, args: &[Word]) -> Option<Result<(), Doubt>> {
        Some(match name {
            "cd" => self.cd(args),
            "printf" => printf(args),
            "test" => test(args),
            "[" => match args.split_last() {
                Some((last, inner)) if last.literal() == Some("]") => test(inner),
                _ => Err("a test does not close".to_owned()),
            },
            "read" => read(args),
            "set" => set(args),
            "mkdir" => self.makes(args, &["-p", "-v", "--parents", "--verbose"]),
            "touch" => self.makes(args, &["-a", "-c", "-m"]),
            "tee" => self.makes(args, &["-a", "--append"]),
            "sh" | "bash" | "dash" => self.shell(args),
            "env" => self.env(args),
            "nice" => self.wrapped(args, &["-n"], &[], 0),
            "timeout" => self.wrapped(
                args,
                &["-k", "-s"],
                &["--foreground", "--preserve-status"],
                1,
            ),
            "stdbuf" => self.wrapped(args, &["-i", "-o", "-e"], &["-oL", "-eL", "-o0", "-e0"], 0),
            "nohup" | "setsid" | "time" => self.wrapped(args, &[], &["-w", "-p"], 0),
            "command" => match args.first().and_then(Word::literal) {
                Some("-v" | "-V") => Ok(()),
                _ => self.wrapped(args, &[], &["-p"], 0),
            },
            "xargs" => self.xargs(args),
            "find" => self.find(args),
            "git" => self.git(args),
            "awk" | "gawk" | "mawk" => self.awk(args),
            "sed" => self.sed(args),
            _ => return None,
        })
    }

    fn deeper(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }

    /// A folder that is named and may be read.
    fn cd(self, args: &[Word]) -> Result<(), Doubt> {
        match args {
            // A second step is judged from where the first began, so none may go up.
            [folder]
                if folder.literal().is_some_and(|text| !text.starts_with('-'))
                    && (is_local(folder) || folder.text.starts_with('/')) =>
            {
                let here = Self {
                    has_moved: false,
                    ..self
                };
                here.reads(folder)
            }
            _ => Err("it changes to a folder that is not named".to_owned()),
        }
    }

    /// A command that makes the files it names.
    fn makes(self, args: &[Word], options: &[&str]) -> Result<(), Doubt> {
        for word in args {
            match word.literal() {
                Some(option) if options.contains(&option) => {}
                Some(option) if option.starts_with('-') => {
                    return Err(format!(
                        "the option `{}` is not known to be harmless",
                        shown(option)
                    ));
                }
                _ => self.writes(word)?,
            }
        }
        Ok(())
    }

    /// `sh -c SCRIPT`: as harmless as the script. What the script's own arguments are is not known
    /// there, and what is not known is judged as such.
    fn shell(self, args: &[Word]) -> Result<(), Doubt> {
        let [option, script, ..] = args else {
            return Err("a shell runs what it is given or asked".to_owned());
        };
        match (option.literal(), script.literal()) {
            (Some("-c" | "-ec" | "-xc" | "-exc"), Some(script)) if !self.has_moved => {
                script_at(script, self.ground, self.depth + 1)
            }
            _ => Err("a shell runs what is only known when it runs".to_owned()),
        }
    }

    fn env(self, args: &[Word]) -> Result<(), Doubt> {
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            let Some(text) = first.literal() else {
                return Err(unknown_word("env"));
            };
            let Some((name, value)) = text.split_once('=') else {
                break;
            };
            super::assigned(name, &Word::exactly(value))?;
            rest = after;
        }
        if rest.is_empty() {
            return Ok(());
        }
        if rest[0].may_be_option {
            return Err("an option of `env` may change what runs".to_owned());
        }
        self.deeper().command(rest)
    }

    /// A wrapper with options that take a value, options that take none, and operands of its own.
    fn wrapped(
        self,
        args: &[Word],
        with_value: &[&str],
        alone: &[&str],
        operands: usize,
    ) -> Result<(), Doubt> {
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            if !first.may_be_option {
                break;
            }
            match first.literal() {
                Some(option) if with_value.contains(&option) => {
                    let is_value = after.first().is_some_and(|value| value.literal().is_some());
                    if !is_value {
                        return Err("an option of a wrapper has no value".to_owned());
                    }
                    rest = &after[1..];
                }
                Some(option) if alone.contains(&option) => rest = after,
                _ => return Err("an option of a wrapper is not understood".to_owned()),
            }
        }
        let own = rest.get(..operands).unwrap_or_default();
        if own.len() < operands || own.iter().any(|word| word.literal().is_none()) {
            return Err("a wrapper's own words are not understood".to_owned());
        }
        match &rest[operands..] {
            [] => Err("a wrapper wraps nothing".to_owned()),
            inner => self.deeper().command(inner),
        }
    }

    /// The wrapped command gets words nobody has seen: names of files when a command that lists
    /// files feeds it, anything otherwise.
    fn xargs(self, args: &[Word]) -> Result<(), Doubt> {
        let mut rest = args;
        let mut placeholder = None;
        while let Some((first, after)) = rest.split_first() {
            if !first.may_be_option {
                break;
            }
            match first.literal() {
                Some("-0" | "-r" | "-t" | "--null" | "--no-run-if-empty") => rest = after,
                Some("-n" | "-P" | "-L")
                    if after.first().is_some_and(|word| word.literal().is_some()) =>
                {
                    rest = &after[1..];
                }
                Some("-I") => {
                    let Some(mark) = after
                        .first()
                        .and_then(Word::literal)
                        .filter(|mark| !mark.is_empty())
                    else {
                        return Err("a placeholder of `xargs` is not understood".to_owned());
                    };
                    placeholder = Some(mark);
                    rest = &after[1..];
                }
                _ => return Err("an option of `xargs` is not understood".to_owned()),
            }
        }
        if rest.is_empty() {
            return Ok(());
        }
        let added = Word::anything(self.fed_by.is_some_and(lists_local_files));
        let mut words: Vec<Word> = rest
            .iter()
            .map(|word| match placeholder {
                Some(mark) if word.text == mark => added.clone(),
                Some(mark) if word.text.contains(mark) => Word::anything(false),
                _ => word.clone(),
            })
            .collect();
        if placeholder.is_none() {
            words.push(added);
        }
        Judging {
            fed_by: None,
            ..self.deeper()
        }
        .command(&words)
    }

    fn find(self, args: &[Word]) -> Result<(), Doubt> {
        let mut rest = args;
        let mut are_starts = true;
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            let Some(text) = first.literal() else {
                return Err(unknown_word("find"));
            };
            if matches!(text, "-exec" | "-execdir") {
                let Some(end) = rest
                    .iter()
                    .position(|word| matches!(word.literal(), Some(";" | "+")))
                else {
                    return Err("`find` runs a command that does not end".to_owned());
                };
                // Found files lie below the starts, which were judged.
                let inner: Vec<Word> = rest[..end]
                    .iter()
                    .map(|word| match word.text.as_str() {
                        "{}" => Word::anything(true),
                        text if text.contains("{}") => Word::anything(false),
                        _ => word.clone(),
                    })
                    .collect();
                self.deeper().command(&inner)?;
                rest = &rest[end + 1..];
            } else if text.starts_with('-') {
                are_starts = false;
                if !FIND_WORDS.contains(&text) {
                    return Err(format!("`find {}` may do more than find", shown(text)));
                }
            } else if matches!(text, "!" | "(" | ")") {
                are_starts = false;
            } else if are_starts {
                self.reads(first)?;
            }
        }
        Ok(())
    }

    /// Subcommands that read, without the options that run what the repository or the caller names.
    fn git(self, args: &[Word]) -> Result<(), Doubt> {
        let args = match args {
            [first, rest @ ..] if first.literal() == Some("--no-pager") => rest,
            args => args,
        };
        let Some((subcommand, args)) = args.split_first() else {
            return Ok(());
        };
        let mut texts = Vec::new();
        for word in args {
            texts.push(word.literal().ok_or_else(|| unknown_word("git"))?);
            // A relative path is Git's own business: it does not leave the work tree.
            if word.text.starts_with('/') || !is_local(word) {
                self.reads(word)?;
            }
        }
        let lists_only = |options: &[&str]| texts.iter().all(|text| options.contains(text));
        let is_harmless = match subcommand.literal().unwrap_or_default() {
            name if GIT_READS.contains(&name) => !texts.iter().any(|text| {
                text.strip_prefix("--").is_some_and(|word| {
                    let word = word.split('=').next().unwrap_or(word);
                    !word.is_empty() && GIT_ACTS.iter().any(|act| act.starts_with(word))
                })
            }),
            "branch" => lists_only(&["-a", "-r", "-v", "-vv", "--list", "--show-current", "--all"]),
            "remote" => lists_only(&["-v"]),
            "tag" => lists_only(&["-l", "--list"]),
            "stash" => texts == ["list"],
            _ => false,
        };
        if is_harmless {
            Ok(())
        } else {
            Err("this use of `git` changes something or may run something".to_owned())
        }
    }

    /// A program text that can neither run, read nor write anything but the files that are named.
    fn awk(self, args: &[Word]) -> Result<(), Doubt> {
        let mut rest = args;
        loop {
            let Some((first, after)) = rest.split_first() else {
                return Err("`awk` has no program".to_owned());
            };
            let Some(text) = first.literal() else {
                return Err(unknown_word("awk"));
            };
            if text == "-F" || text == "-v" {
                let value = after.first().and_then(Word::literal).unwrap_or("\u{FFFD}");
                if text == "-v" && !value.split('=').next().is_some_and(is_harmless_variable) {
                    return Err("`awk` sets a variable that may change what it does".to_owned());
                }
                rest = &after[1.min(after.len())..];
            } else if text.starts_with("-F") {
                rest = after;
            } else if text.starts_with('-') {
                return Err("an option of `awk` is not known to be harmless".to_owned());
            } else {
                let acts = [
                    "system", "getline", "ARGV", "ENVIRON", "PROCINFO", "close", "include", "load",
                ];
                if text.contains(['|', '>', '@']) || acts.iter().any(|act| text.contains(act)) {
                    return Err("a program in `awk` may run or write something".to_owned());
                }
                return after
                    .iter()
                    .try_for_each(|word| self.names_file("awk", word));
            }
        }
    }

    /// Printing lines and replacing text on the way to the output.
    fn sed(self, args: &[Word]) -> Result<(), Doubt> {
        let mut program = None;
        for word in args {
            match (word.literal(), program) {
                (Some("-n" | "-E" | "-r"), None) => {}
                (Some(text), None) if !text.starts_with('-') => {
                    if !is_plain_edit(text) {
                        return Err("a program in `sed` may run or write something".to_owned());
                    }
                    program = Some(text);
                }
                (_, Some(_)) => self.names_file("sed", word)?,
                _ => return Err("an option of `sed` is not known to be harmless".to_owned()),
            }
        }
        Ok(())
    }

    fn names_file(self, name: &str, word: &Word) -> Result<(), Doubt> {
        // An operand like `x=1` sets a variable of `awk`, and an option may stand anywhere.
        if word.may_be_option && word.literal() != Some("-")
            || name == "awk" && word.text.contains('=')
        {
            return Err(unknown_word(name));
        }
        self.reads(word)
    }
}

/// Whether a command prints nothing but names of files below the working folder.
fn lists_local_files(words: &[Word]) -> bool {
    let texts: Vec<&str> = words.iter().filter_map(Word::literal).collect();
    let are_known = texts.len() == words.len() && words.iter().all(is_local);
    are_known
        && match texts.as_slice() {
            ["find", rest @ ..] => !rest
                .iter()
                .any(|word| word.starts_with("-exec") || matches!(*word, "-printf" | "-ls")),
            ["git", "ls-files"] | ["ls"] | ["rg", "--files"] => true,
            _ => false,
        }
}

fn printf(args: &[Word]) -> Result<(), Doubt> {
    // `-v` sets a variable of the shell.
    match args.first() {
        Some(first) if first.may_be_option && first.literal() != Some("--") => {
            Err(unknown_word("printf"))
        }
        _ => Ok(()),
    }
}

/// One comparison. In some shells `-v` computes its operand, which may run a command.
fn test(args: &[Word]) -> Result<(), Doubt> {
    const UNARY: &[&str] = &[
        "-f", "-d", "-e", "-r", "-w", "-x", "-s", "-z", "-n", "-L", "-h",
    ];
    const BINARY: &[&str] = &[
        "=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot",
    ];
    let is = |word: &Word, list: &[&str]| word.literal().is_some_and(|text| list.contains(&text));
    // Without quotes, one expansion may be a whole test of its own.
    let is_split = args.iter().any(|word| word.is_unknown() && word.is_glob);
    let is_harmless = !is_split
        && match args {
            [] | [_] => true,
            [negation, operator, _] if is(negation, &["!"]) => is(operator, UNARY),
            [operator, _] => is(operator, UNARY),
            [_, operator, _] => is(operator, BINARY),
            _ => false,
        };
    if is_harmless {
        Ok(())
    } else {
        Err("a test is not understood".to_owned())
    }
}

fn read(args: &[Word]) -> Result<(), Doubt> {
    let are_plain = args.iter().all(|word| {
        word.literal()
            .is_some_and(|text| text == "-r" || is_harmless_variable(text))
    });
    if are_plain {
        Ok(())
    } else {
        Err("it reads into a variable that may change what follows".to_owned())
    }
}

fn set(args: &[Word]) -> Result<(), Doubt> {
    let are_plain = args.iter().all(|word| {
        word.literal().is_some_and(|text| {
            matches!(text, "pipefail")
                || text
                    .strip_prefix(['-', '+'])
                    .is_some_and(|letters| letters.chars().all(|letter| "euxof".contains(letter)))
        })
    });
    if are_plain {
        Ok(())
    } else {
        Err("it changes how the shell works".to_owned())
    }
}

/// `5p`, `1,20p`, `/x/d`, `s/a/b/g`: one edit without a command that runs, reads or writes.
fn is_plain_edit(program: &str) -> bool {
    if let Some(rest) = program.strip_prefix('s') {
        let Some(mark) = rest.chars().next().filter(char::is_ascii_punctuation) else {
            return false;
        };
        if mark == '\\' || program.contains('\n') {
            return false;
        }
        let parts: Vec<&str> = rest[mark.len_utf8()..].split(mark).collect();
        return match parts.as_slice() {
            [pattern, with, flags] => {
                // An escaped mark would move the flags.
                !pattern.ends_with('\\')
                    && !with.ends_with('\\')
                    && !pattern.contains('[')
                    && flags
                        .chars()
                        .all(|flag| flag.is_ascii_digit() || "gpI".contains(flag))
            }
            _ => false,
        };
    }
    let Some(address) = program.strip_suffix(['p', 'd', 'q']) else {
        return false;
    };
    if let Some(pattern) = address
        .strip_prefix('/')
        .and_then(|rest| rest.strip_suffix('/'))
    {
        return !pattern.contains(['/', '\\', '[', '\n']);
    }
    address
        .chars()
        .all(|letter| letter.is_ascii_digit() || matches!(letter, ',' | '$'))
}

fn shown(text: &str) -> String {
    crate::commands::visible::one_line(&fermix_types::text::shortened(text, 64))
}
