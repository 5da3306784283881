//! The text of a document as it is found, bounded in size and time.

use std::time::Instant;

use super::Document;

/// The most text that is taken from one document, in bytes.
pub(super) const MAX_TEXT: usize = 4 * 1024 * 1024;

/// Why no more of a document is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// [`MAX_TEXT`] is reached; what was found so far is the answer.
    Full,
    /// The deadline passed; what was found so far is the answer.
    Late,
    /// There is no answer, for this reason.
    Refused(String),
}

impl Stop {
    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }
}

/// What was found so far.
pub(super) struct Extraction {
    text: String,
    summary: String,
    notes: Vec<String>,
    deadline: Instant,
}

impl Extraction {
    pub(super) fn new(deadline: Instant) -> Self {
        Self {
            text: String::new(),
            summary: String::new(),
            notes: Vec::new(),
            deadline,
        }
    }

    /// What the document is, for example `text of a PDF with 3 pages`.
    pub(super) fn describe(&mut self, summary: String) {
        self.summary = summary;
    }

    /// Says that something is missing.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// When the reading has to end.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// To be called once per small piece of work.
    pub(super) fn check(&self) -> Result<(), Stop> {
        if Instant::now() >= self.deadline {
            Err(Stop::Late)
        } else {
            Ok(())
        }
    }

    /// Adds to the text. What the format knows as one line stays one.
    pub(super) fn push(&mut self, text: &str) -> Result<(), Stop> {
        let room = MAX_TEXT - self.text.len();
        self.text.push_str(fermix_types::text::prefix(text, room));
        if text.len() > room {
            Err(Stop::Full)
        } else {
            Ok(())
        }
    }

    /// Adds one line.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Stop> {
        self.push(text)?;
        self.push("\n")
    }

    /// The answer, given how the reading ended.
    pub(super) fn finish(mut self, ended: Result<(), Stop>) -> Result<Document, String> {
        match ended {
            Ok(()) => {}
            Err(Stop::Full) => self.note(format!(
                "only the first {} MiB of its text are here",
                MAX_TEXT / (1024 * 1024)
            )),
            Err(Stop::Late) => {
                self.note("reading it took too long; the rest of its text is missing");
            }
            Err(Stop::Refused(why)) => return Err(why),
        }
        if self.text.trim().is_empty() {
            self.note("no text was found in it; it may hold pictures only");
        }
        Ok(Document {
            summary: self.summary,
            notes: self.notes,
            text: self.text,
        })
    }
}

/// `count` and the noun in the right number.
pub(super) fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}
