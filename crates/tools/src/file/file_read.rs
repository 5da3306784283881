//! `file_read`: a window of lines of one file, or the text of a PDF, docx or xlsx.
//!
//! The file is streamed and only the window is kept, so its size does not matter. Nothing but a
//! regular file is ever opened.

mod kind;
mod window;

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use encoding_rs::{Decoder, Encoding, UTF_8};
use fermix_capability::{Audience, CallContext, Capability, RegistrationError};
use fermix_sandbox::{OpenFile, Sandbox, Scope};
use fermix_types::{Category, PolicyClass, ToolError, ToolOutput, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::kind::{Kind, SNIFFED};
use self::window::{Window, Wish};
use super::document::{DocumentReader, MAX_DOCUMENT};
use crate::blocking::blocking;
use crate::scope::sandbox_scope;

/// The most text of a file that one call shows, in bytes (spec/02 §4.2).
const MAX_SHOWN: usize = 100 * 1024;
/// Up to this size a file is read to its end, so that its number of lines is known (spec/02 §4.2).
const COUNTED_BYTES: u64 = 8 * 1024 * 1024;
/// How much is read and decoded at once, in bytes.
const CHUNK: usize = 64 * 1024;
/// How long one call may take; a window far into a huge file is reached by reading up to it.
const DEADLINE: Duration = Duration::from_secs(60);

/// Read a text file, or the text of a PDF, docx or xlsx. Long files come in pieces; the end says
/// which `offset` continues.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Absolute, `~/…`, or relative to the working directory.
    #[schemars(length(min = 1))]
    path: String,
    /// First line, from 1. Default 1.
    #[schemars(range(min = 1))]
    offset: Option<NonZeroU64>,
    /// How many lines. Default all.
    #[schemars(range(min = 1))]
    limit: Option<NonZeroU64>,
}

/// The capability over `sandbox`; `documents` reads what is not plain text.
pub fn capability(
    sandbox: Sandbox,
    documents: DocumentReader,
) -> Result<Capability, RegistrationError> {
    let documents = Arc::new(documents);
    Capability::builtin(
        "file_read",
        PolicyClass::ReadOnly,
        Category::File,
        Audience::OwnerOnly,
    )
    .when_to_use("You know the path. To find one, use `glob_search`; to find text in many files, `content_search`.")
    .example(
        json!({"path": "src/main.rs", "offset": 200, "limit": 50}),
        "Lines 200 to 249.",
    )
    .failure("not_found", "Nothing has this name.")
    .failure("is_directory", "The path names a folder; list it with `glob_search`.")
    .failure("not_regular_file", "The path names a FIFO, a device or a socket.")
    .failure("invalid_path", "The path is empty, has a null byte, or cannot be resolved.")
    .failure("invalid_offset", "`offset` is past the end; the message has the number of lines.")
    .failure(
        "sandbox_denied",
        "The path is outside the sandbox roots, protected or blocked; the message names the remedy.",
    )
    .failure("too_large", "The document has more bytes than are read as a document.")
    .failure("unreadable_document", "The document is damaged, encrypted, or needs too much memory or time.")
    .failure("timeout", "The lines lie too far into a huge file to be reached in time.")
    .failure("stopped", "The turn was stopped, or fermix is shutting down.")
    .failure("io_failed", "The disk refused.")
    .deadline(DEADLINE)
    .handler(move |args: Args, context| run(sandbox.clone(), Arc::clone(&documents), args, context))
}

async fn run(
    sandbox: Sandbox,
    documents: Arc<DocumentReader>,
    args: Args,
    context: CallContext,
) -> ToolResult {
    let scope = sandbox_scope(&context);
    let wish = Wish {
        first: args.offset.map_or(1, NonZeroU64::get),
        lines: args.limit.map(NonZeroU64::get),
        cap: MAX_SHOWN,
    };
    let cancel = context.cancel.clone();
    let opening = {
        let (sandbox, scope) = (sandbox.clone(), scope.clone());
        tokio::task::spawn_blocking(move || open(&sandbox, &args.path, &scope, wish, &cancel))
    };
    let opened = match opening.await {
        Ok(opened) => opened?,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => return Err(ToolError::new("stopped", "fermix is shutting down")),
        },
    };
    let (kind, bytes) = match opened {
        Opened::Answer(output) => return Ok(output),
        Opened::Document(kind, bytes) => (kind, bytes),
    };
    let document = documents
        .read(kind, bytes, &sandbox, &scope, context.deadline)
        .await?;
    blocking(move || {
        let mut window = Window::new(wish);
        // The whole text is here already, so counting its lines costs nothing.
        window.feed(&document.text);
        let mut output = rendered(window, true, "the document's text")?;
        output.notes.insert(0, document.summary);
        output.notes.extend(document.notes);
        Ok(output)
    })
    .await
}

/// What the first look at a file came to.
enum Opened {
    Answer(ToolOutput),
    Document(super::document::DocumentKind, Vec<u8>),
}

fn open(
    sandbox: &Sandbox,
    path: &str,
    scope: &Scope,
    wish: Wish,
    cancel: &CancellationToken,
) -> Result<Opened, ToolError> {
    let mut opened = sandbox.readable(path, scope)?.open()?;
    let head = head(&mut opened)?;
    match Kind::of(&head, Path::new(path)) {
        Kind::Document(kind) if opened.len > MAX_DOCUMENT => Err(ToolError::new(
            "too_large",
            format!(
                "{} has {} bytes; a {} is read up to {MAX_DOCUMENT} bytes. Have a command split or convert it",
                opened.path.display(),
                opened.len,
                kind.noun(),
            ),
        )),
        Kind::Document(kind) => {
            let mut bytes = Vec::new();
            opened
                .file
                .take(MAX_DOCUMENT + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| failed(&opened.path, &error))?;
            Ok(Opened::Document(kind, bytes))
        }
        Kind::Binary(what) => Ok(Opened::Answer(
            format!("binary file, {} bytes, type {what}", opened.len).into(),
        )),
        Kind::Text => read_text(opened, &head, wish, cancel).map(Opened::Answer),
    }
}

/// The first bytes; the file stands at its start again.
fn head(opened: &mut OpenFile) -> Result<Vec<u8>, ToolError> {
    let mut head = Vec::with_capacity(SNIFFED);
    opened
        .file
        .by_ref()
        .take(SNIFFED as u64)
        .read_to_end(&mut head)
        .and_then(|_| opened.file.rewind())
        .map_err(|error| failed(&opened.path, &error))?;
    Ok(head)
}

fn read_text(
    opened: OpenFile,
    head: &[u8],
    wish: Wish,
    cancel: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let encoding = Encoding::for_bom(head).map_or(UTF_8, |(encoding, _)| encoding);
    let mut window = Window::new(wish);
    let is_counted = opened.len <= COUNTED_BYTES;
    let mut text = Decoding::new(encoding);
    let is_whole = text
        .stream(&opened.file, &mut window, is_counted, cancel)
        .map_err(|error| match error {
            Interrupted::Stopped => ToolError::new(
                "timeout",
                format!(
                    "stopped before line {} of {} was reached; to look into a file this large, use `content_search`",
                    wish.first,
                    opened.path.display()
                ),
            ),
            Interrupted::Io(error) => failed(&opened.path, &error),
        })?;
    let mut output = rendered(window, is_whole, "the file")?;
    if encoding != UTF_8 {
        output = output.note(format!("decoded from {}", encoding.name()));
    }
    if text.had_errors {
        output = output.note("bytes that are not text are shown as U+FFFD; editing keeps them");
    }
    Ok(output)
}

fn rendered(window: Window, is_whole: bool, what: &str) -> Result<ToolOutput, ToolError> {
    let total = is_whole.then(|| window.lines_seen());
    let note = match (window.shown(), total) {
        (Some(_), Some(_)) if window.is_everything() => None,
        (Some((first, last)), Some(total)) => Some(format!("lines {first}-{last} of {total}")),
        (Some((first, last)), None) => Some(format!("lines {first}-{last}")),
        (None, Some(0) | None) if window.first() == 1 => Some(format!("{what} is empty")),
        (None, total) => {
            let total = total.unwrap_or_default();
            return Err(ToolError::new(
                "invalid_offset",
                format!(
                    "offset {} is past the end: {what} has {total} {}",
                    window.first(),
                    if total == 1 { "line" } else { "lines" }
                ),
            ));
        }
    };
    let mut output = ToolOutput::from(window.into_text(total));
    output.notes.extend(note);
    Ok(output)
}

/// Bytes becoming text, piece by piece.
struct Decoding {
    decoder: Decoder,
    had_errors: bool,
}

enum Interrupted {
    Stopped,
    Io(std::io::Error),
}

impl Decoding {
    fn new(encoding: &'static Encoding) -> Self {
        Self {
            // The byte order mark is not part of the text.
            decoder: encoding.new_decoder_with_bom_removal(),
            had_errors: false,
        }
    }

    /// Feeds the file to `window`: to its end when `to_end`, else until the window is full.
    /// Whether the end was reached.
    fn stream(
        &mut self,
        mut file: &File,
        window: &mut Window,
        to_end: bool,
        cancel: &CancellationToken,
    ) -> Result<bool, Interrupted> {
        let mut bytes = vec![0; CHUNK];
        let mut text = String::with_capacity(CHUNK * 3);
        loop {
            if cancel.is_cancelled() {
                return Err(Interrupted::Stopped);
            }
            let count = match file.read(&mut bytes) {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Interrupted::Io(error)),
            };
            let is_last = count == 0;
            let mut rest = &bytes[..count];
            loop {
                text.clear();
                let (result, used, had_errors) =
                    self.decoder.decode_to_string(rest, &mut text, is_last);
                self.had_errors |= had_errors;
                rest = &rest[used..];
                window.feed(&text);
                if result == encoding_rs::CoderResult::InputEmpty {
                    break;
                }
            }
            if is_last {
                return Ok(true);
            }
            if !to_end && window.is_full() {
                return Ok(false);
            }
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> ToolError {
    ToolError::new(
        "io_failed",
        format!("Failed to read {}: {error}", path.display()),
    )
}
