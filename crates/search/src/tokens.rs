//! From text to words.
//!
//! Text is brought into NFC, cut at everything that is neither letter nor digit and at
//! camelCase humps, and lower-cased. Scripts that put no spaces between words have no
//! boundaries to cut at; their runs become overlapping pairs of characters instead, which
//! finds a word wherever it stands in a run without needing a dictionary.

use std::borrow::Cow;

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Longer runs are keys, hashes and encoded data, which nobody searches for by typing them.
const MAX_WORD_CHARS: usize = 100;

/// One piece of text as the scanner saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A word, or one hump of a camelCase word.
    Word(String),
    /// A camelCase word as a whole, so that "github" finds "GitHub"; follows its humps.
    Joined(String),
    /// Two neighbouring characters of a script without spaces.
    Pair(String),
    /// One character of such a script. `alone` when its run holds no other.
    Single { text: String, alone: bool },
}

/// The words of `text` in reading order: NFC, lower case, camelCase split, repeats kept.
///
/// A run in a script without spaces yields its overlapping character pairs, or the character
/// itself when it stands alone. Words over 100 characters are left out.
#[must_use]
pub fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    scan(text, |token| match token {
        Token::Word(text) | Token::Pair(text) | Token::Single { text, alone: true } => {
            found.push(text);
        }
        Token::Joined(_) | Token::Single { alone: false, .. } => {}
    });
    found
}

/// NFC, borrowing when nothing needs to change.
pub(crate) fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfc().collect())
    }
}

/// NFC and lower case. Lower-casing can leave NFC, so it is composed once more.
pub(crate) fn folded(text: &str) -> String {
    let lower = composed(text).to_lowercase();
    match composed(&lower) {
        Cow::Borrowed(_) => lower,
        Cow::Owned(composed) => composed,
    }
}

/// Hands every token of `text` to `sink`, in reading order.
pub(crate) fn scan(text: &str, mut sink: impl FnMut(Token)) {
    let text = composed(text);
    let mut run = Run::default();
    for character in text.chars() {
        if is_combining_mark(character) {
            // A vowel sign, tone or accent belongs to the letter before it. Without this a
            // Devanagari word would break at each virama.
            run.extend(character);
            continue;
        }
        let kind = Kind::of(character);
        if kind != run.kind {
            run.flush(&mut sink);
        }
        if let Some(kind) = kind {
            run.start_unit(kind, character);
        }
    }
    run.flush(&mut sink);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Spaced,
    Spaceless,
}

impl Kind {
    fn of(character: char) -> Option<Kind> {
        if character.is_ascii() {
            return character.is_ascii_alphanumeric().then_some(Kind::Spaced);
        }
        if !character.is_alphanumeric() {
            return None;
        }
        Some(if is_spaceless(character) {
            Kind::Spaceless
        } else {
            Kind::Spaced
        })
    }
}

/// Scripts written without spaces between words, by Unicode block. Hangul is here because its
/// particles are glued to the noun, where pairs do what a stemmer would.
fn is_spaceless(character: char) -> bool {
    matches!(
        u32::from(character),
        0x0E00..=0x0EFF       // Thai, Lao
            | 0x0F00..=0x0FFF // Tibetan
            | 0x1000..=0x109F // Myanmar
            | 0x1780..=0x17FF // Khmer
            | 0x1100..=0x11FF // Hangul Jamo
            | 0x3005..=0x3007 // iteration mark, closing mark, ideographic zero
            | 0x3040..=0x312F // Hiragana, Katakana, Bopomofo
            | 0x31A0..=0x31BF // Bopomofo extended
            | 0x31F0..=0x31FF // Katakana extensions
            | 0x3400..=0x4DBF // Han extension A
            | 0x4E00..=0x9FFF // Han
            | 0xAC00..=0xD7A3 // Hangul syllables
            | 0xF900..=0xFAFF // Han compatibility
            | 0xFF66..=0xFF9F // half-width Katakana
            | 0x1B000..=0x1B16F // Kana supplement and extensions
            | 0x20000..=0x323AF // Han extensions B to H
    )
}

/// A stretch of characters of one kind; each unit is a character with its combining marks.
#[derive(Default)]
struct Run {
    kind: Option<Kind>,
    text: String,
    /// Where each unit starts in `text`, and the character it starts with.
    units: Vec<(usize, char)>,
}

impl Run {
    fn start_unit(&mut self, kind: Kind, character: char) {
        self.kind = Some(kind);
        self.units.push((self.text.len(), character));
        self.text.push(character);
    }

    fn extend(&mut self, mark: char) {
        // A mark after a space or a sign has no letter to belong to and says nothing.
        if self.kind.is_some() {
            self.text.push(mark);
        }
    }

    fn flush(&mut self, sink: &mut impl FnMut(Token)) {
        match self.kind.take() {
            Some(Kind::Spaced) if self.units.len() <= MAX_WORD_CHARS => self.emit_words(sink),
            Some(Kind::Spaceless) => self.emit_pairs(sink),
            Some(Kind::Spaced) | None => {}
        }
        self.text.clear();
        self.units.clear();
    }

    fn emit_words(&self, sink: &mut impl FnMut(Token)) {
        let mut start = 0;
        for index in 1..self.units.len() {
            if self.is_hump(index) {
                let end = self.units[index].0;
                sink(Token::Word(folded(&self.text[start..end])));
                start = end;
            }
        }
        sink(Token::Word(folded(&self.text[start..])));
        if start > 0 {
            sink(Token::Joined(folded(&self.text)));
        }
    }

    /// Whether a new word starts at unit `index` (at least 1): `mailBox`, `s3Bucket`,
    /// `HTTPServer`, but not the plural of an abbreviation, `PDFs`.
    fn is_hump(&self, index: usize) -> bool {
        let (_, before) = self.units[index - 1];
        let (_, here) = self.units[index];
        if !here.is_uppercase() {
            return false;
        }
        if !before.is_uppercase() {
            return before.is_lowercase() || before.is_numeric();
        }
        match self.units.get(index + 1) {
            Some((_, 's')) if index + 2 == self.units.len() => false,
            Some((_, after)) => after.is_lowercase(),
            None => false,
        }
    }

    fn emit_pairs(&self, sink: &mut impl FnMut(Token)) {
        let start = |unit: usize| self.units.get(unit).map_or(self.text.len(), |unit| unit.0);
        let alone = self.units.len() == 1;
        for unit in 0..self.units.len() {
            let single = &self.text[start(unit)..start(unit + 1)];
            sink(Token::Single {
                text: folded(single),
                alone,
            });
            if unit + 1 < self.units.len() {
                sink(Token::Pair(folded(
                    &self.text[start(unit)..start(unit + 2)],
                )));
            }
        }
    }
}
