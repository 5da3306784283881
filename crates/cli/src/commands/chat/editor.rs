//! The line that is typed: editing, history, completion of slash commands.

use std::cell::RefCell;

use fermix_config::Home;
use fermix_daemon::commands::table;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Helper};

use super::history::History;

/// What stands before the line.
const PROMPT: &str = "> ";
/// What leaves the conversation; these are this program's and not the agent's.
const LEAVE: [&str; 2] = ["exit", "quit"];

/// What became of a line.
pub(super) enum Entered {
    /// It was sent off. Lines may follow lines: what is pasted stays one message.
    Text(String),
    /// Ctrl-C took it away.
    Discarded,
    /// Ctrl-C, and there was nothing to take away.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    Ended,
}

/// Reads lines.
pub(super) struct Editor {
    lines: rustyline::Editor<Slash, MemHistory>,
    history: History,
}

impl Editor {
    /// An editor that goes on with the history of the home.
    pub(super) fn open(home: &Home) -> Result<Self, String> {
        let config = Config::builder()
            .max_history_size(History::MAX_ENTRIES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(|error| format!("cannot set up the line editor: {error}"))?
            .history_ignore_space(true)
            .auto_add_history(false)
            .bracketed_paste(true)
            .completion_type(CompletionType::List)
            .build();
        let remembered = MemHistory::with_config(&config);
        let mut lines = rustyline::Editor::with_history(config, remembered)
            .map_err(|error| format!("cannot use this terminal: {error}"))?;
        lines.set_helper(Some(Slash::default()));
        let history = History::open(home, lines.history_mut());
        Ok(Self { lines, history })
    }

    /// Reads one message.
    pub(super) fn read(&mut self) -> Result<Entered, String> {
        match self.lines.readline(PROMPT) {
            Ok(text) => {
                self.history.keep(&text, self.lines.history_mut());
                Ok(Entered::Text(joined(&text)))
            }
            Err(ReadlineError::Interrupted) => {
                let was_empty = self
                    .lines
                    .helper()
                    .is_none_or(|slash| slash.line.borrow().is_empty());
                Ok(if was_empty {
                    Entered::Interrupted
                } else {
                    Entered::Discarded
                })
            }
            Err(ReadlineError::Eof) => Ok(Entered::Ended),
            Err(error) => Err(format!("cannot read from this terminal: {error}")),
        }
    }
}

/// A line break that was typed as `\` and Enter is a line break.
fn joined(text: &str) -> String {
    text.replace("\\\n", "\n")
}

/// Knows the slash commands, and what is on the line.
#[derive(Default)]
struct Slash {
    line: RefCell<String>,
}

impl Completer for Slash {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let Some(name) = typed.strip_prefix('/') else {
            return Ok((0, Vec::new()));
        };
        let names = table::ALL
            .iter()
            .flat_map(|spec| std::iter::once(&spec.name).chain(spec.aliases))
            .chain(&LEAVE)
            .filter(|known| known.starts_with(name))
            .map(|known| format!("/{known}"));
        Ok((0, names.collect()))
    }
}

impl Hinter for Slash {
    type Hint = String;

    /// Gives no hint. It is asked after every change, which is how the line is known when Ctrl-C
    /// takes it away.
    fn hint(&self, line: &str, _position: usize, _context: &Context<'_>) -> Option<String> {
        line.clone_into(&mut self.line.borrow_mut());
        None
    }
}

impl Validator for Slash {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Highlighter for Slash {}
impl Helper for Slash {}

#[cfg(test)]
mod tests {
    use rustyline::history::MemHistory;

    use super::*;

    fn completed(line: &str) -> Vec<String> {
        let history = MemHistory::new();
        let context = Context::new(&history);
        let (_, mut names) = Slash::default()
            .complete(line, line.len(), &context)
            .unwrap();
        names.sort();
        names
    }

    #[test]
    fn names_of_commands_are_completed_and_nothing_else_is() {
        assert_eq!(completed("/co"), ["/compact", "/confirm"]);
        assert_eq!(completed("/e"), ["/exit"]);
        assert_eq!(completed("/stop h"), Vec::<String>::new());
        assert_eq!(completed("co"), Vec::<String>::new());
    }

    #[test]
    fn a_backslash_before_enter_is_a_line_break() {
        assert_eq!(joined("a\\\nb\nc\\d"), "a\nb\nc\\d");
    }
}
