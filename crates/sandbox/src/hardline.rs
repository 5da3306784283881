//! The accident guard: commands that would cost the owner the home, a disk or the session.
//!
//! It stops mistakes, not attackers: what it cannot parse it lets pass, and the kernel is the
//! boundary. It looks at every simple command wherever one can stand (after operators, in
//! substitutions, behind wrappers such as `sudo` or `xargs`) and never at quoted text.

mod lexer;
mod rules;
mod targets;

use std::fmt;
use std::path::{Path, PathBuf};

use self::lexer::{Token, Variables, Word, lex};
use self::targets::Ground;
use crate::denial::Denied;
use crate::sandbox::Sandbox;
use crate::settings::Scope;

/// How deep commands may hide in each other before they are no longer looked at.
const MAX_DEPTH: usize = 8;
/// The longest script whose output is worked out, in bytes.
const MAX_PRINTED: usize = 4096;

/// Why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    class: Class,
    what: String,
}

/// The kind of accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A recursive delete of something that must not go.
    Delete,
    /// Making a file system, or writing to a disk as a device.
    Device,
    /// A function that starts itself twice.
    ForkBomb,
    /// Killing everything of a user.
    KillAll,
    /// Turning the machine off.
    Power,
    /// A password on `sudo`'s standard input.
    SudoPassword,
    /// Changing modes or owners of a whole system.
    Permissions,
}

impl Reason {
    fn new(class: Class, what: impl Into<String>) -> Self {
        Self {
            class,
            what: what.into(),
        }
    }

    /// The kind of accident.
    pub fn class(&self) -> Class {
        self.class
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Why `command` is refused, if it is. `cwd` is where it would run; relative paths of deletes are
/// judged from there.
pub fn check(command: &str, roots: &[PathBuf], home: &Path, cwd: Option<&Path>) -> Option<Reason> {
    let ground = Ground { home, roots };
    check_script(command, &ground, cwd, &Variables::default(), 0)
}

impl Sandbox {
    /// Refuses a command that matches the accident guard, and records that it did. `working_dir` is
    /// the folder as the caller asked for it; it need not exist.
    pub fn hardline(
        &self,
        command: &str,
        working_dir: Option<&str>,
        scope: &Scope,
    ) -> Result<(), Denied> {
        let inner = self.now();
        let roots = inner.roots(scope);
        let base = inner.default_folder(&roots, scope);
        let cwd = match (working_dir, base) {
            (Some(requested), base) => {
                let requested = inner.expanded(Path::new(requested));
                Some(base.map_or_else(|| requested.clone(), |base| base.join(&requested)))
            }
            (None, base) => base,
        };
        let paths: Vec<PathBuf> = roots.roots.iter().map(|root| root.path.clone()).collect();
        match check(command, &paths, &inner.surroundings.home, cwd.as_deref()) {
            None => Ok(()),
            Some(reason) => Err(self.hardline_denied(&reason.to_string(), scope)),
        }
    }
}

/// A command without its operators.
#[derive(Debug, Default)]
struct Simple {
    words: Vec<Word>,
    outputs: Vec<Word>,
    /// Here-documents, and what an `echo` before the pipe prints.
    input: Option<String>,
}

fn check_script(
    script: &str,
    ground: &Ground<'_>,
    cwd: Option<&Path>,
    variables: &Variables,
    depth: usize,
) -> Option<Reason> {
    if depth > MAX_DEPTH {
        return None;
    }
    let lexed = lex(script, ground.home, variables)?;
    if is_fork_bomb(&lexed.tokens) {
        return Some(Reason::new(Class::ForkBomb, "a fork bomb"));
    }
    let mut cwd = cwd.map(Path::to_owned);
    for simple in simple_commands(lexed.tokens) {
        let reason = rules::check(&simple, ground, cwd.as_deref(), depth);
        if reason.is_some() {
            return reason;
        }
        if let Some(folder) = changed_folder(&simple.words, cwd.as_deref(), ground) {
            cwd = folder;
        }
    }
    lexed.nested.iter().find_map(|nested| {
        check_script(nested, ground, cwd.as_deref(), &lexed.variables, depth + 1)
    })
}

/// What the last command of `script` prints, where that can be told.
fn printed_by(script: &str, home: &Path, variables: &Variables) -> Option<String> {
    // A script inside itself inside itself is nobody's accident.
    if script.contains("<(") || script.len() > MAX_PRINTED {
        return None;
    }
    let lexed = lex(script, home, variables)?;
    rules::printed(simple_commands(lexed.tokens).last()?)
}

/// Where `cd` or `pushd` leads, as far as it can be told.
fn changed_folder(
    words: &[Word],
    cwd: Option<&Path>,
    ground: &Ground<'_>,
) -> Option<Option<PathBuf>> {
    let mut words = words
        .iter()
        .map(|word| word.text.as_str())
        .skip_while(|word| rules::is_keyword(word));
    if !matches!(words.next()?, "cd" | "pushd") {
        return None;
    }
    match words.find(|word| !word.starts_with('-')) {
        None => Some(Some(ground.home.to_owned())),
        Some(folder) => Some(targets::absolute(folder, cwd).map(PathBuf::from)),
    }
}

/// `NAME() { NAME | NAME & }`, whatever it is called.
fn is_fork_bomb(tokens: &[Token]) -> bool {
    let text = |token: &Token| match token {
        Token::Word(word) => Some(word.text.trim_start_matches('{').to_owned()),
        _ => None,
    };
    (0..tokens.len()).any(|start| {
        let rest = &tokens[start..];
        let Some(name) = rest.first().and_then(text).filter(|name| !name.is_empty()) else { return false };
        if !matches!(rest.get(1..3), Some([Token::Open, Token::Close])) {
            return false;
        }
        let body: Vec<&Token> = rest[3..]
            .iter()
            .filter(|token| !matches!(token, Token::Next) && text(token).as_deref() != Some(""))
            .take(4)
            .collect();
        matches!(body.as_slice(), [first, Token::Pipe, second, Token::Background]
            if text(first).as_deref() == Some(name.as_str()) && text(second).as_deref() == Some(name.as_str()))
    })
}

fn simple_commands(tokens: Vec<Token>) -> Vec<Simple> {
    let mut commands = Vec::new();
    let mut current = Simple::default();
    for token in tokens {
        match token {
            Token::Word(word) => current.words.push(word),
            Token::Output(target) => current.outputs.push(target),
            Token::Input(text) => current.input = Some(text),
            Token::Pipe => {
                let printed = rules::printed(&current);
                commands.push(std::mem::take(&mut current));
                current.input = printed;
            }
            Token::Next | Token::Background | Token::Open | Token::Close => {
                commands.push(std::mem::take(&mut current));
            }
        }
    }
    commands.push(current);
    commands.retain(|command| !command.words.is_empty() || !command.outputs.is_empty());
    commands
}

#[cfg(test)]
mod tests;
