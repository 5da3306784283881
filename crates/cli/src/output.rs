//! What the commands print, and the exit codes.

use std::borrow::Cow;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::process::ExitCode;

use serde::Serialize;

use crate::interrupt::Signal;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Ok,
    /// Failed or refused.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// It needs the daemon, and none is running.
    NotRunning,
    /// A signal ended it.
    Signalled(Signal),
    /// It was told twice to end, and did so at once: the exit code for that.
    AtOnce(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Ok => Self::SUCCESS,
            Exit::Failed => Self::from(1),
            Exit::Usage => Self::from(2),
            Exit::NotRunning => Self::from(3),
            Exit::Signalled(signal) => Self::from(signal.exit_code()),
            Exit::AtOnce(code) => Self::from(code),
        }
    }
}

/// Prints a line on standard output.
pub fn line(text: &str) {
    raw(&format!("{text}\n"));
}

/// Prints text on standard output and shows it at once. On a terminal, control characters of
/// whatever was read or said are shown, not obeyed.
pub fn raw(text: &str) {
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() {
        visible(text)
    } else {
        Cow::Borrowed(text)
    };
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that has gone away ends the output, not the command.
        if error.kind() != ErrorKind::BrokenPipe {
            notice(&format!("cannot write to standard output: {error}"));
            // Nothing that is printed from here on would arrive, and a caller must learn of it.
            std::process::exit(1);
        }
    }
}

/// Prints one JSON value on standard output.
pub fn json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => line(&text),
        Err(error) => notice(&format!("the result is not JSON: {error}")),
    }
}

/// Prints a remark for the person on standard error.
pub fn notice(text: &str) {
    let mut err = io::stderr().lock();
    let text = if err.is_terminal() {
        visible(text)
    } else {
        Cow::Borrowed(text)
    };
    let _ = writeln!(err, "fermix: {text}");
}

/// Prints a failure: a JSON object on standard output when `as_json`, else words on standard error.
pub fn failure(as_json: bool, text: &str) -> Exit {
    report(as_json, text);
    Exit::Failed
}

/// The same for a command line that makes no sense.
pub fn usage(as_json: bool, text: &str) -> Exit {
    report(as_json, text);
    Exit::Usage
}

/// The same for a command that needs the daemon when none is running.
pub fn not_running(as_json: bool) -> Exit {
    if as_json {
        report(true, "not_running");
    } else {
        report(false, "no daemon is running; start one with `fermix run`");
    }
    Exit::NotRunning
}

/// The same for a command that a signal ended.
pub fn stopped(as_json: bool, signal: Signal) -> Exit {
    report(as_json, "stopped");
    Exit::Signalled(signal)
}

fn report(as_json: bool, text: &str) {
    if as_json {
        json(&serde_json::json!({ "status": "error", "error": text }));
    } else {
        notice(text);
    }
}

/// Ends the editing of a line that nobody will finish: what is pasted is no longer marked.
pub fn leave_editing() {
    let mut out = io::stdout().lock();
    let _ = out.write_all(b"\x1b[?2004l\r\n").and_then(|()| out.flush());
}

/// Whether standard output is a terminal.
pub fn is_interactive() -> bool {
    io::stdout().is_terminal()
}

/// `text` with control characters other than line breaks and tabs, and characters that reorder
/// text, written as `\u{…}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    let acts = |character: char| {
        (character.is_control() && !matches!(character, '\n' | '\t'))
            || matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    // A carriage return before a line break only ends a line, as in every file from Windows.
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Columns of equal width, two spaces apart; the last column is not padded.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<_> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_shown_control_characters_and_obeys_none() {
        assert_eq!(visible("plain\ttext\nüñ"), "plain\ttext\nüñ");
        assert_eq!(
            visible("a\u{1b}[31m\u{7}b\r\nc\rd"),
            "a\\u{1b}[31m\\u{7}b\nc\\rd"
        );
        assert_eq!(visible("s\u{202e}exe"), "s\\u{202e}exe");
    }
}
