//! Takes secrets out of text: those that are known, and those that look like one.
//!
//! Every sink (log file, standard error, panic report, trace row) passes its final text, rendered
//! and whole, through [`Redactor::redact`]. What a tool answered passes through
//! [`Redactor::redact_values`], which takes out known secrets only: a model may have to read a
//! text that merely looks like a key.

mod assignments;
mod known;
mod records;
mod shapes;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use secrecy::SecretString;

use known::KnownValues;
pub use known::TooManySecrets;
pub use records::RecordRedactor;
use shapes::Shapes;
pub use shapes::is_secret_parameter;

/// Replaces each secret by `[REDACTED:<label>]`. Shared behind an `Arc`; values may be added while
/// others redact. Making one is cheap: each shape is compiled when a text first hints
/// at it.
#[derive(Default)]
pub struct Redactor {
    shapes: OnceLock<Shapes>,
    known: ArcSwap<KnownValues>,
    /// One addition at a time; readers never wait for it.
    adding: Mutex<()>,
}

impl Redactor {
    /// A redactor that knows the shapes of secrets and no value yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A redactor that also knows these values.
    ///
    /// # Errors
    /// See [`add_values`](Self::add_values).
    pub fn with_values<'a>(
        values: impl IntoIterator<Item = &'a SecretString>,
    ) -> Result<Self, TooManySecrets> {
        let redactor = Self::default();
        redactor.add_values(values)?;
        Ok(redactor)
    }

    /// Adds secrets that this process has resolved. Each is found verbatim, and as JSON, base64 or
    /// percent-encoding write it. Values of fewer than 8 bytes, white space around them not
    /// counted, are passed over: they would match ordinary text.
    ///
    /// # Errors
    /// Nothing is added when the values would exceed the bounds of [`TooManySecrets`]. The caller
    /// must not use the values then, because they would not be redacted.
    pub fn add_values<'a>(
        &self,
        values: impl IntoIterator<Item = &'a SecretString>,
    ) -> Result<(), TooManySecrets> {
        let _turn = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = self.known.load().with(values)? {
            self.known.store(next.into());
        }
        Ok(())
    }

    /// `text` without known secrets and without anything that has the shape of one.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut found = self.shapes.get_or_init(Shapes::new).find(text);
        found.extend(self.known.load().find(text));
        replace(text, found)
    }

    /// `text` without known secrets.
    pub fn redact_values<'t>(&self, text: &'t str) -> Cow<'t, str> {
        replace(text, self.known.load().find(text))
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// A secret's place in a text.
#[derive(Debug)]
struct Found {
    place: Range<usize>,
    label: &'static str,
}

/// Overlapping places become one, named after the first: a known value inside a longer key must
/// not leave the rest of the key behind.
fn replace(text: &str, mut found: Vec<Found>) -> Cow<'_, str> {
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|found| (found.place.start, std::cmp::Reverse(found.place.end)));
    let mut clean = String::with_capacity(text.len());
    let mut done = 0;
    for Found { place, label } in found {
        if place.start >= done {
            let start = escape_start(text, place.start).max(done);
            clean.push_str(&text[done..start]);
            clean.push_str("[REDACTED:");
            clean.push_str(label);
            clean.push(']');
        }
        done = done.max(place.end);
    }
    clean.push_str(&text[done..]);
    Cow::Owned(clean)
}

/// `start`, or the start of the JSON escape that it is inside of: half an escape would leave text
/// that is no JSON any more.
fn escape_start(text: &str, start: usize) -> usize {
    let before = &text.as_bytes()[..start];
    let digits = before
        .iter()
        .rev()
        .take(4)
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let letter = match before[..start - digits].split_last() {
        Some((b'u', _)) if digits < 4 => start - digits - 1,
        _ => start,
    };
    let backslashes = before[..letter]
        .iter()
        .rev()
        .take_while(|byte| **byte == b'\\')
        .count();
    match backslashes % 2 {
        1 => letter - 1,
        _ => start,
    }
}

#[cfg(test)]
mod tests;
