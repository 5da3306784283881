//! The text of documents: PDF, docx and xlsx.
//!
//! A document comes from anywhere, and the libraries that read it were not written for an enemy.
//! So they run in a child process that has nothing to reach for: bytes in, text out, with a
//! deadline, a bound on its memory and a bound on what it prints. If it loops, crashes or wants the
//! whole machine, one child is gone and the call has failed.

mod child;
mod docx;
mod extraction;
mod package;
mod pdf;
mod xlsx;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fermix_sandbox::{CommandSpec, Ending, MAX_STDIN, Sandbox, Scope, Stderr};
use fermix_types::ToolError;
use serde::{Deserialize, Serialize};

pub use child::child_main;
use extraction::MAX_TEXT;

/// The first argument of the program that reads documents; the second is the kind of document.
pub const ARGUMENT: &str = "__document";
/// The most bytes a document may have. All of it is handed to a child.
pub const MAX_DOCUMENT: u64 = 20 * 1024 * 1024;
const _: () = assert!(MAX_DOCUMENT <= MAX_STDIN as u64);
/// How long reading one document may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// How much earlier than its caller the child stops by itself, so that what it has is not lost.
const MARGIN: Duration = Duration::from_secs(3);
/// What the child may print besides the text.
const MAX_HEADER: usize = 64 * 1024;

/// The kinds of document there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    /// Portable Document Format.
    Pdf,
    /// A Word document (Office Open XML).
    Docx,
    /// An Excel workbook (Office Open XML).
    Xlsx,
}

impl DocumentKind {
    /// The child's second argument.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Docx => "docx",
            Self::Xlsx => "xlsx",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Pdf, Self::Docx, Self::Xlsx]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }

    /// The kind of Office document a file of this name holds.
    pub fn by_ending(path: &Path) -> Option<Self> {
        match path.extension()?.to_ascii_lowercase().to_str()? {
            "docx" | "docm" | "dotx" => Some(Self::Docx),
            "xlsx" | "xlsm" | "xltx" => Some(Self::Xlsx),
            _ => None,
        }
    }

    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Self::Pdf => "PDF",
            Self::Docx => "Word document",
            Self::Xlsx => "workbook",
        }
    }
}

/// What was found in a document.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Document {
    /// For example `text of a PDF with 3 pages`.
    pub(crate) summary: String,
    /// What is missing from the text, and why.
    pub(crate) notes: Vec<String>,
    #[serde(skip)]
    pub(crate) text: String,
}

/// Reads documents.
#[derive(Clone, Debug)]
pub struct DocumentReader {
    /// A program whose `main` hands over to [`child_main`] when its first argument is
    /// [`ARGUMENT`]. Without one, documents are read in this process: fit for tests, where the
    /// documents are friendly.
    pub program: Option<PathBuf>,
}

impl DocumentReader {
    /// The text of `bytes`, at the latest when `deadline` comes.
    pub(crate) async fn read(
        &self,
        kind: DocumentKind,
        bytes: Vec<u8>,
        sandbox: &Sandbox,
        scope: &Scope,
        deadline: Instant,
    ) -> Result<Document, ToolError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let allowed = left.saturating_sub(MARGIN).min(DEADLINE);
        if allowed <= MARGIN {
            return Err(timed_out(kind));
        }
        match &self.program {
            Some(program) => in_child(program, kind, bytes, sandbox, scope, allowed).await,
            None => {
                let until = Instant::now() + (allowed - MARGIN);
                let reading =
                    tokio::task::spawn_blocking(move || child::extract(kind, &bytes, until));
                match tokio::time::timeout(allowed, reading).await {
                    Ok(Ok(found)) => found.map_err(|why| unreadable(kind, &why)),
                    Ok(Err(_)) => Err(unreadable(kind, "reading it failed inside")),
                    Err(_) => Err(timed_out(kind)),
                }
            }
        }
    }
}

async fn in_child(
    program: &Path,
    kind: DocumentKind,
    bytes: Vec<u8>,
    sandbox: &Sandbox,
    scope: &Scope,
    allowed: Duration,
) -> Result<Document, ToolError> {
    let cwd = sandbox
        .working_dir(None, scope)
        .map_err(|denied| unreadable(kind, &ToolError::from(denied).message))?;
    let arguments = [ARGUMENT, kind.as_str()];
    // An empty environment: a document's reader has no use for any of it.
    let mut spec = CommandSpec::new("document", program, arguments, cwd, Vec::new());
    spec.timeout = allowed;
    // The runner keeps three quarters from the start, so the room is larger than what can come.
    spec.output_cap = 2 * (MAX_TEXT + MAX_HEADER);
    spec.stdin = Some(bytes);
    spec.stderr = Stderr::Discarded;
    spec.conversation = scope.conversation.clone();
    let outcome = sandbox
        .runner()
        .run(spec, &scope.cancel)
        .await
        .map_err(|error| {
            ToolError::new(
                "unreadable_document",
                format!("the {} could not be read: {error}", kind.noun()),
            )
        })?;
    match outcome.ending {
        Ending::Exited => {}
        Ending::TimedOut => return Err(timed_out(kind)),
        Ending::OutputLimit => return Err(unreadable(kind, "its text has no end")),
        Ending::Cancelled => return Err(ToolError::new("stopped", "stopped before it finished")),
    }
    if outcome.signal.is_some() || outcome.truncated {
        return Err(unreadable(
            kind,
            "it is damaged, or reading it takes more memory than it may have",
        ));
    }
    child::answer(&outcome.stdout, outcome.exit).map_err(|why| unreadable(kind, &why))
}

fn unreadable(kind: DocumentKind, why: &str) -> ToolError {
    ToolError::new(
        "unreadable_document",
        format!("the {} could not be read: {why}", kind.noun()),
    )
}

fn timed_out(kind: DocumentKind) -> ToolError {
    unreadable(
        kind,
        "it took too long. Have a command split it, and read the parts",
    )
}
