//! The text of a PDF, page by page.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document, PlainTextOutput, output_doc_page};

use super::extraction::{Extraction, Stop, counted};

/// The most pages that are read.
const MAX_PAGES: usize = 5_000;

pub(super) fn extract(bytes: &[u8], found: &mut Extraction) -> Result<(), Stop> {
    let mut document = Document::load_mem(bytes)
        .map_err(|error| Stop::refused(format!("it is damaged ({error})")))?;
    // Many encrypted documents open with the empty password.
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Err(Stop::refused(
            "it is encrypted. Have the owner save a copy without a password",
        ));
    }
    let pages = document.get_pages();
    let count = pages.len();
    found.describe(format!("text of a PDF with {}", counted(count, "page")));
    let mut unread = BTreeSet::new();
    let read = pages.into_keys().take(MAX_PAGES).try_for_each(|page| {
        found.check()?;
        let text = text_of(&document, page).unwrap_or_else(|| {
            unread.insert(page);
            String::new()
        });
        if count > 1 {
            found.line(&format!("--- page {page} ---"))?;
        }
        let text = text.trim_matches('\n');
        if text.is_empty() {
            Ok(())
        } else {
            found.line(text)
        }
    });
    if count > MAX_PAGES {
        found.note(format!("only the first {MAX_PAGES} pages were read"));
    }
    if !unread.is_empty() {
        let named: Vec<String> = unread.iter().take(20).map(u32::to_string).collect();
        found.note(format!(
            "{} could not be read: {}",
            counted(unread.len(), "page"),
            named.join(", ")
        ));
    }
    read
}

/// One page's text; nothing when the library fails or panics on it.
fn text_of(document: &Document, page: u32) -> Option<String> {
    let reading = catch_unwind(AssertUnwindSafe(|| {
        let mut text = String::new();
        let mut output = PlainTextOutput::new(&mut text);
        output_doc_page(document, &mut output, page)
            .is_ok()
            .then_some(text)
    }));
    reading.ok().flatten()
}
