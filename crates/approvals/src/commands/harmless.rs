//! Which commands are known to do no harm: they read what Fermix may read anyway, print, and write
//! ordinary files in its folders.
//!
//! The list is one of what is known. A command that is not on it, an option that is not understood, a
//! word that is only known when the script runs and a script that cannot be read are all reasons to
//! ask. A wrapper is as harmless as what it wraps, when that can be told, and never more.

mod special;
mod tables;

use std::path::{Path, PathBuf};

use fermix_sandbox::{Access, Sandbox, Scope};

use super::run_later::is_run_later;
use super::script::{self, Simple, Word, is_harmless_variable, is_local};
use tables::{Options, READERS, SYSTEM_TREES, TALKERS, VERSIONED};

/// How deep `sh -c` and other wrappers may nest.
const MAX_DEPTH: usize = 4;

/// Where a command would run, and what it would reach there.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) sandbox: &'a Sandbox,
    pub(super) scope: &'a Scope,
    /// The folder it would run in, canonical.
    pub(super) folder: &'a Path,
}

/// Why the owner is asked, as the end of a sentence.
pub(super) type Doubt = String;

/// Whether `script` is known to be harmless; the first doubt otherwise.
pub(super) fn judge_script(script: &str, ground: Ground<'_>) -> Result<(), Doubt> {
    script_at(script, ground, 0)
}

/// The same for a program with arguments that no shell reads.
pub(super) fn judge_argv(argv: &[String], ground: Ground<'_>) -> Result<(), Doubt> {
    let words: Vec<Word> = argv.iter().map(|word| Word::exactly(word)).collect();
    Judging {
        ground,
        depth: 0,
        has_moved: false,
        fed_by: None,
    }
    .command(&words)
}

fn script_at(script: &str, ground: Ground<'_>, depth: usize) -> Result<(), Doubt> {
    if depth > MAX_DEPTH {
        return Err("it nests too deep".to_owned());
    }
    let home = ground.sandbox.os_home();
    // A home that is not text is a name nothing can be compared with.
    let home = home.to_str().unwrap_or("/\u{FFFD}");
    let commands = script::read(script, home)
        .map_err(|unread| format!("it cannot be read for sure: {}", unread.0))?;
    let has_moved = commands.iter().any(|command| {
        command
            .words
            .first()
            .is_some_and(|word| matches!(word.text.as_str(), "cd" | "pushd" | "popd"))
    });
    for command in &commands {
        let fed_by = command
            .reads_from
            .and_then(|place| commands.get(place))
            .map(|feeder| feeder.words.as_slice());
        Judging {
            ground,
            depth,
            has_moved,
            fed_by,
        }
        .simple(command)?;
    }
    Ok(())
}

/// One command on its way to a verdict.
#[derive(Clone, Copy)]
struct Judging<'a> {
    ground: Ground<'a>,
    depth: usize,
    /// Whether the script changes its folder, so that relative names cannot be followed.
    has_moved: bool,
    /// The words of the command whose output this one reads.
    fed_by: Option<&'a [Word]>,
}

impl Judging<'_> {
    fn simple(self, command: &Simple) -> Result<(), Doubt> {
        for (name, value) in &command.assignments {
            assigned(name, value)?;
        }
        for input in &command.inputs {
            self.reads(input)?;
        }
        for output in &command.outputs {
            self.writes(output)?;
        }
        if command.words.is_empty() {
            return Ok(());
        }
        self.command(&command.words)
    }

    /// A program with its arguments.
    fn command(self, words: &[Word]) -> Result<(), Doubt> {
        if self.depth > MAX_DEPTH {
            return Err("it nests too deep".to_owned());
        }
        let Some((first, args)) = words.split_first() else {
            return Err("it runs a command that is only known when it runs".to_owned());
        };
        let Some(name) = first.literal() else {
            return Err("it runs a command that is only known when it runs".to_owned());
        };
        let name = name
            .strip_prefix("/usr/bin/")
            .or_else(|| name.strip_prefix("/bin/"))
            .unwrap_or(name);
        if let [only] = args
            && matches!(only.literal(), Some("--version" | "--help" | "-V"))
            && VERSIONED.contains(&name)
        {
            return Ok(());
        }
        if TALKERS.contains(&name) {
            return Ok(());
        }
        if let Some((_, options)) = READERS.iter().find(|(reader, _)| *reader == name) {
            return self.reader(name, args, options);
        }
        self.special(name, args).unwrap_or_else(|| {
            Err(format!(
                "`{}` is not among the commands that are known to be harmless",
                super::visible::one_line(&fermix_types::text::shortened(name, 64))
            ))
        })
    }

    /// A command that only reads the files it names, unless an option makes it do more.
    fn reader(self, name: &str, args: &[Word], options: &Options) -> Result<(), Doubt> {
        let mut operands = 0;
        for word in args {
            if word.may_be_option && word.literal() != Some("-") {
                match word.literal() {
                    Some(option) if options.allow(option) => {}
                    Some(option) => {
                        return Err(format!(
                            "`{name} {}` does more than read",
                            super::visible::one_line(&fermix_types::text::shortened(option, 64))
                        ));
                    }
                    None if word.is_local_name && options.are_all_harmless() => {}
                    None if options.are_all_harmless() && !word.is_unknown() => {}
                    None => return Err(unknown_word(name)),
                }
            } else {
                // A pattern may become several names.
                operands += if word.is_glob { 2 } else { 1 };
            }
            self.reads(word)?;
        }
        if operands > options.operands {
            return Err(format!("`{name}` writes the file it names last"));
        }
        Ok(())
    }

    /// A word that may name a file to read.
    fn reads(self, word: &Word) -> Result<(), Doubt> {
        if word.is_unknown() && !is_local(word) {
            return Err("what it reads is only known when it runs".to_owned());
        }
        if is_local(word) && (word.is_unknown() || word.is_glob || self.has_moved) {
            return Ok(());
        }
        // What an option carries: `--file=/x`. A short one may be glued to its value: `-f/x`.
        let text = word.text.as_str();
        let path = match text.strip_prefix('-') {
            Some(option) => match option.split_once('=') {
                Some((_, value)) => value,
                None => match option.find('/') {
                    Some(slash) => &option[slash..],
                    None => return Ok(()),
                },
            },
            None => text,
        };
        let known: &str = match path.find(['*', '?', '[']).filter(|_| word.is_glob) {
            // A pattern reaches what lies below the folder before its first mark.
            Some(mark) if !path.contains("..") => path[..mark]
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder),
            Some(_) => return Err("a pattern in it leads out of the working folder".to_owned()),
            None => path,
        };
        let known = if known.is_empty() && path.starts_with('/') {
            "/"
        } else {
            known
        };
        if known.is_empty() || known.len() > 4096 {
            return Ok(());
        }
        if self.has_moved && !known.starts_with('/') {
            return Err("it leaves the folder it changed to".to_owned());
        }
        let found =
            self.ground
                .sandbox
                .foresee(known, self.ground.folder, Access::Read, self.ground.scope);
        if found.is_ok() || is_system_file(known) {
            return Ok(());
        }
        Err(format!(
            "it names `{}`, which is outside the folders Fermix works in",
            super::visible::one_line(&fermix_types::text::shortened(known, 200))
        ))
    }

    /// A word that names a file to write.
    fn writes(self, word: &Word) -> Result<(), Doubt> {
        let Some(path) = word.literal() else {
            return Err("what it writes is only known when it runs".to_owned());
        };
        if matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr") {
            return Ok(());
        }
        let shown = || super::visible::one_line(&fermix_types::text::shortened(path, 200));
        if self.has_moved && !path.starts_with('/') {
            return Err(format!("it writes `{}` in a folder it changes to", shown()));
        }
        let file: PathBuf = self
            .ground
            .sandbox
            .foresee(path, self.ground.folder, Access::Write, self.ground.scope)
            .map_err(|denied| format!("it writes `{}` ({})", shown(), denied.reason))?;
        if is_run_later(&file) {
            return Err(format!(
                "it writes `{}`, which something runs later",
                shown()
            ));
        }
        Ok(())
    }
}

/// A variable that a command or the rest of the script sees.
fn assigned(name: &str, value: &Word) -> Result<(), Doubt> {
    let is_plain = |extra: &str| {
        value.literal().is_some_and(|text| {
            text.chars()
                .all(|letter| letter.is_ascii_alphanumeric() || extra.contains(letter))
        })
    };
    let is_harmless = match name {
        "LC_ALL" | "LANG" | "NO_COLOR" => is_plain("._-"),
        "TZ" => is_plain("/_+-"),
        _ => is_harmless_variable(name),
    };
    is_harmless.then_some(()).ok_or_else(|| {
        format!("it sets the variable {name}, which may change what the command does")
    })
}

fn unknown_word(name: &str) -> Doubt {
    format!("a word of `{name}` is only known when it runs and may be an option")
}

/// Programs and libraries of the system, and what it says about itself: no secrets, and nothing a
/// reader changes.
fn is_system_file(path: &str) -> bool {
    !path.split('/').any(|part| part == "..")
        && SYSTEM_TREES.iter().any(|tree| {
            path == *tree
                || path
                    .strip_prefix(tree)
                    .is_some_and(|rest| rest.starts_with('/'))
        })
}
