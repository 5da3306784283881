//! The parts of a form, taken from a clause one after the other.

use crate::offline::values::{familiar, path_of};
use crate::offline::words::{Quote, Word};

/// Words that may stand between the parts of a form without changing what it says.
const FILLERS: [&str; 18] = [
    "the",
    "a",
    "an",
    "new",
    "file",
    "text",
    "following",
    "called",
    "named",
    "string",
    "this",
    "line",
    "content",
    "contents",
    "word",
    "phrase",
    "my",
    "datei",
];
/// Reads the parts of a form one after the other.
pub(super) struct Parts<'a>(pub(super) &'a [Word]);

impl<'a> Parts<'a> {
    /// Without the words that add nothing.
    pub(super) fn fillers(mut self) -> Self {
        while let [first, rest @ ..] = self.0
            && first.is_one_of(&FILLERS)
        {
            self.0 = rest;
        }
        self
    }

    /// The rest behind one of `wanted`.
    pub(super) fn word(self, wanted: &[&str]) -> Option<Self> {
        let (first, rest) = self.0.split_first()?;
        first.is_one_of(wanted).then_some(Self(rest))
    }

    /// The rest, behind one of `wanted` where there is one.
    pub(super) fn optional(self, wanted: &[&str]) -> Self {
        match self.0 {
            [first, rest @ ..] if first.is_one_of(wanted) => Self(rest),
            _ => self,
        }
    }

    /// A quoted text.
    pub(super) fn quoted(self) -> Option<(&'a str, Self)> {
        let (first, rest) = self.fillers().0.split_first()?;
        first
            .is_quoted()
            .then_some((first.text.as_str(), Self(rest)))
    }

    /// The name of a file.
    pub(super) fn path(self) -> Option<(&'a str, Self)> {
        let (first, rest) = self.fillers().0.split_first()?;
        if first.quote == Some(Quote::Block) {
            return None;
        }
        let path = path_of(first).or_else(|| familiar(first).map(|_| first.text.as_str()))?;
        Some((path, Self(rest)))
    }

    /// `value`, when nothing but "please" follows.
    pub(super) fn end<T>(self, value: T) -> Option<T> {
        self.0
            .iter()
            .all(|word| word.is_one_of(&["please", "file", "folder", "bitte", "datei"]))
            .then_some(value)
    }

    /// A folder's name may be any word.
    pub(super) fn folder(self) -> Option<(&'a str, Self)> {
        let (first, rest) = self.0.split_first()?;
        let named = path_of(first).is_some()
            || (!first.is_quoted()
                && first
                    .text
                    .chars()
                    .all(|each| each.is_alphanumeric() || matches!(each, '_' | '-')));
        let here = first.is_one_of(&["parallel", "background", "order", "total", "general"]);
        let rest = Parts(rest).optional(&["folder", "directory"]);
        (named && !here).then_some((first.text.as_str(), rest))
    }
}
