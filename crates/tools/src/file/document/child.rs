//! The child process that reads one document: bytes on standard input, on standard output one
//! line of JSON and then the text.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::extraction::{Extraction, Stop};
use super::{DEADLINE, Document, DocumentKind, MARGIN, MAX_DOCUMENT, docx, pdf, xlsx};

/// The most memory the child may have for data, in bytes.
const MAX_DATA: u64 = 512 * 1024 * 1024;
/// The most address space, in bytes; generous, because threads reserve much that they never touch.
const MAX_ADDRESSES: u64 = 4 * 1024 * 1024 * 1024;
/// The exit code of a child that says why there is no text.
const REFUSED: u8 = 3;

/// The whole life of the child: reads standard input, prints, and gives the exit code. The binary
/// calls this first thing when its first argument is [`super::ARGUMENT`], with the arguments that
/// follow: the name of a [`DocumentKind`].
pub fn child_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let kind = arguments.into_iter().next().unwrap_or_default();
    match serve(&kind.to_string_lossy()) {
        Ok(document) => print(&document, 0),
        Err(why) => print(
            &Document {
                summary: why,
                notes: Vec::new(),
                text: String::new(),
            },
            REFUSED,
        ),
    }
}

fn serve(kind: &str) -> Result<Document, String> {
    let until = Instant::now() + (DEADLINE - MARGIN);
    let kind = DocumentKind::by_name(kind)
        .ok_or_else(|| format!("`{kind}` is not a kind of document; accepted: pdf, docx, xlsx"))?;
    confine().map_err(|error| format!("its reader could not be bounded: {error}"))?;
    // The libraries' panics are answers here; their words are for nobody.
    std::panic::set_hook(Box::new(|_| {}));
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_DOCUMENT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("its bytes did not arrive: {error}"))?;
    extract(kind, &bytes, until)
}

/// The text of `bytes`. Blocks; a panic of a library is a document that cannot be read.
pub(super) fn extract(
    kind: DocumentKind,
    bytes: &[u8],
    until: Instant,
) -> Result<Document, String> {
    if bytes.len() as u64 > MAX_DOCUMENT {
        return Err(format!("it has more than {MAX_DOCUMENT} bytes"));
    }
    let mut found = Extraction::new(until);
    let reading = catch_unwind(AssertUnwindSafe(|| match kind {
        DocumentKind::Pdf => pdf::extract(bytes, &mut found),
        DocumentKind::Docx => docx::extract(bytes, &mut found),
        DocumentKind::Xlsx => xlsx::extract(bytes, &mut found),
    }));
    found.finish(reading.unwrap_or_else(|_| Err(Stop::refused("it is damaged"))))
}

/// Less memory, no core files, and a last limit on processor time. Each is a lowering, so each is
/// allowed; a child that could not be bounded does not start reading.
fn confine() -> Result<(), rustix::io::Errno> {
    for (resource, wanted) in [
        (Resource::Core, 0),
        (Resource::Data, MAX_DATA),
        (Resource::As, MAX_ADDRESSES),
        (Resource::Cpu, 2 * DEADLINE.as_secs()),
    ] {
        let wanted = getrlimit(resource)
            .maximum
            .map_or(wanted, |most| most.min(wanted));
        let limit = Rlimit {
            current: Some(wanted),
            maximum: Some(wanted),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}

fn print(document: &Document, code: u8) -> ExitCode {
    let Ok(header) = serde_json::to_string(document) else {
        return ExitCode::FAILURE;
    };
    let mut output = std::io::stdout().lock();
    let printed = output
        .write_all(header.as_bytes())
        .and_then(|()| output.write_all(b"\n"))
        .and_then(|()| output.write_all(document.text.as_bytes()))
        .and_then(|()| output.flush());
    match printed {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}

/// What a child's output and exit code say. The error is the reason why there is no text.
pub(super) fn answer(output: &[u8], exit: i32) -> Result<Document, String> {
    let lost = || "its reader ended without an answer".to_owned();
    let end = memchr::memchr(b'\n', output).ok_or_else(lost)?;
    let mut document: Document = serde_json::from_slice(&output[..end]).map_err(|_| lost())?;
    if exit == i32::from(REFUSED) {
        return Err(document.summary);
    }
    if exit != 0 {
        return Err(lost());
    }
    document.text = fermix_types::text::to_valid_utf8(output[end + 1..].to_vec());
    Ok(document)
}
