//! What exactly the owner says yes or no to.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::visible::{one_line, quoted};

/// One command with everything that decides what it does. Two subjects are one when their digests
/// are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// The tool that would run it.
    pub(super) tool: String,
    pub(super) what: What,
    /// The folder it would run in; `None` for a call that runs no command.
    pub(super) folder: Option<String>,
    /// The names of the variables it gets, sorted.
    pub(super) env_names: Vec<String>,
}

/// What would be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A script for a shell.
    Script(String),
    /// A program with its arguments.
    Argv(Vec<String>),
    /// A call that runs no command of its own, by its arguments.
    Call(String),
}

impl Subject {
    /// Names the subject, in hexadecimal digits. Every part is preceded by its length, so that no two
    /// subjects are written alike.
    pub(super) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(self.tool.as_bytes());
        match &self.what {
            What::Script(script) => {
                part(b"script");
                part(script.as_bytes());
            }
            What::Argv(argv) => {
                part(b"argv");
                part(&(argv.len() as u64).to_be_bytes());
                for word in argv {
                    part(word.as_bytes());
                }
            }
            What::Call(arguments) => {
                part(b"call");
                part(arguments.as_bytes());
            }
        }
        part(self.folder.as_deref().unwrap_or_default().as_bytes());
        part(&[u8::from(self.folder.is_some())]);
        for name in &self.env_names {
            part(name.as_bytes());
        }
        hex::encode(hash.finalize())
    }

    /// One line that says what is asked.
    pub(super) fn title(&self) -> String {
        match self.what {
            What::Script(_) | What::Argv(_) => format!("Run this command? ({})", self.tool),
            What::Call(_) => format!("Allow this call? ({})", self.tool),
        }
    }

    /// The whole of it for the owner, and why they are asked.
    pub(super) fn body(&self, why: &str) -> String {
        let mut body = String::new();
        match &self.what {
            What::Script(script) => {
                let _ = writeln!(body, "Command:\n{}", quoted(script).trim_end_matches('\n'));
            }
            What::Argv(argv) => {
                body.push_str("Program and arguments, one a line, without a shell:\n");
                for word in argv {
                    // A line break inside a word must not read as a new word.
                    let _ = writeln!(body, "  │ {}", one_line(word));
                }
            }
            What::Call(arguments) => {
                let _ = writeln!(
                    body,
                    "Arguments:\n{}",
                    quoted(arguments).trim_end_matches('\n')
                );
            }
        }
        if let Some(folder) = &self.folder {
            let _ = writeln!(body, "Folder: {}", one_line(folder));
            let names = self.env_names.join(", ");
            let _ = writeln!(body, "Variables: {}", one_line(&names));
        }
        let _ = write!(body, "Asked because {why}");
        body
    }

    /// The command as text to recognise it by, in a list.
    pub(super) fn readable(&self) -> String {
        match &self.what {
            What::Script(text) | What::Call(text) => text.clone(),
            What::Argv(argv) => argv
                .iter()
                .map(|word| shell_quoted(word))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}

/// `word` as a shell would have to be given it.
fn shell_quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter));
    if is_plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
