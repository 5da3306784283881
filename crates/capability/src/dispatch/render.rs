//! A finished tool's answer as the model reads it (spec/01 §1.6, §12).

use fermix_types::text::{prefix, shortened};
use fermix_types::{Image, ToolResult};

use super::{Answer, outcome};
use crate::call::TurnScope;
use crate::capability::Capability;
use crate::untrusted::{cleaned, frame};

/// The most text of one result the model is shown, in bytes (spec/01 §13).
pub const MAX_OUTPUT_BYTES: usize = 256 * 1024;
/// The most of what was cut off one result that is handed on, in bytes.
const MAX_REST_BYTES: usize = 1 << 20;
/// The tag of an error that is a fault of the tool, not an answer of it.
pub const INTERNAL_ERROR_TAG: &str = "internal_error";

/// How many remarks are shown, and how long each may get, in bytes.
const MAX_NOTES: usize = 16;
const MAX_NOTE_BYTES: usize = 1024;
/// How many images of one result are handed on, and how large they may be together, in bytes.
const MAX_IMAGES: usize = 16;
const MAX_IMAGE_BYTES: usize = 20 * 1024 * 1024;

pub(super) fn finished(
    capability: &Capability,
    result: ToolResult,
    turn: &TurnScope,
    external: bool,
) -> Answer {
    let framed = |text: String| {
        if external {
            frame(capability.name().as_str(), &text, &turn.frame)
        } else {
            text
        }
    };
    let kept = |notes: Vec<String>| bounded_notes(notes, external);
    match result {
        Ok(output) => {
            let (text, rest, cut) = bounded(output.text);
            let (images, dropped) = bounded_images(output.images);
            let notes = kept(output.notes);
            let markers: Vec<String> = [cut, dropped].into_iter().flatten().collect();
            let mut answer = with_notes("", text, notes, markers, framed);
            answer.images = images;
            answer.rest = rest;
            Answer {
                external,
                outcome: outcome::OK,
                ..answer
            }
        }
        Err(error) => {
            let is_fault = error.tag == INTERNAL_ERROR_TAG;
            let (message, _, cut) = bounded(error.message);
            let trace_words = prefix(&message, 1024).to_owned();
            let (lead, outcome) = if is_fault {
                ("Error executing tool: ", outcome::INTERNAL_ERROR)
            } else {
                ("Error: ", outcome::ERROR)
            };
            let markers = cut.into_iter().collect();
            Answer {
                error: Some(trace_words),
                failure: Some(error.tag),
                enforcement: error.enforcement,
                external,
                outcome,
                ..with_notes(lead, message, kept(error.notes), markers, framed)
            }
        }
    }
}

/// The answer with its remarks after the text, so that structured text stays parseable up to them,
/// and the same text without them. Markers are our own words and stand outside the frame.
fn with_notes(
    lead: &str,
    text: String,
    notes: Vec<String>,
    markers: Vec<String>,
    framed: impl Fn(String) -> String,
) -> Answer {
    if notes.is_empty() && markers.is_empty() {
        return Answer::failed(format!("{lead}{}", framed(text)), outcome::OK);
    }
    let mut noted = text.clone();
    for note in &notes {
        append(&mut noted, &format!("[note: {note}]"));
    }
    let mut shown = format!("{lead}{}", framed(noted));
    for marker in &markers {
        append(&mut shown, &format!("[{marker}]"));
    }
    Answer {
        output: Some(format!("{lead}{}", framed(text))),
        notes: notes.into_iter().chain(markers).collect(),
        ..Answer::failed(shown, outcome::OK)
    }
}

/// `text` cut to [`MAX_OUTPUT_BYTES`], what was cut off as far as [`MAX_REST_BYTES`], and the words
/// that say so.
fn bounded(mut text: String) -> (String, Option<String>, Option<String>) {
    let whole = text.len();
    if whole <= MAX_OUTPUT_BYTES {
        return (text, None, None);
    }
    let kept = prefix(&text, MAX_OUTPUT_BYTES).len();
    let rest = prefix(&text[kept..], MAX_REST_BYTES).to_owned();
    text.truncate(kept);
    text.shrink_to_fit();
    let marker = format!(
        "cut: the first {kept} of {whole} bytes are shown; narrow the call (a range, a filter, a smaller limit) to read \
         the rest"
    );
    (text, Some(rest), Some(marker))
}

fn bounded_images(images: Vec<Image>) -> (Vec<Image>, Option<String>) {
    let given = images.len();
    let mut bytes = 0;
    let kept: Vec<Image> = images
        .into_iter()
        .take(MAX_IMAGES)
        .take_while(|image| {
            bytes += image.data.len();
            bytes <= MAX_IMAGE_BYTES
        })
        .collect();
    let marker = (kept.len() < given).then(|| {
        format!(
            "cut: the first {} of {given} images are shown; ask for fewer or smaller ones",
            kept.len()
        )
    });
    (kept, marker)
}

/// At most [`MAX_NOTES`] remarks of at most [`MAX_NOTE_BYTES`] each.
fn bounded_notes(notes: Vec<String>, external: bool) -> Vec<String> {
    let left_out = notes.len().saturating_sub(MAX_NOTES);
    let mut kept: Vec<String> = notes
        .iter()
        .take(MAX_NOTES)
        .map(|note| {
            let note = shortened(note, MAX_NOTE_BYTES);
            if external {
                cleaned(&note).into_owned()
            } else {
                note
            }
        })
        .collect();
    if left_out > 0 {
        kept.push(format!("and {left_out} more notes"));
    }
    kept
}

fn append(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}
