//! What one tool contributes to an index, worked out once.

use std::collections::BTreeMap;

use crate::terms::{Side, terms};

/// How much of one field is read, in bytes. A schema longer than this is generated, and its
/// tail would only drown the words that tell tools apart.
const MAX_FIELD_BYTES: usize = 32 * 1024;

pub(crate) const FIELDS: usize = 4;
pub(crate) const NAME: usize = 0;
pub(crate) const PROVIDER: usize = 1;
pub(crate) const DESCRIPTION: usize = 2;
pub(crate) const PARAMETERS: usize = 3;

/// The searchable text of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Document<'a> {
    /// The exact name the tool is called by.
    pub name: &'a str,
    /// The plugin or server it comes from, when it comes from one.
    pub provider: Option<&'a str>,
    /// What it does, in prose.
    pub description: &'a str,
    /// Names and descriptions of its parameters, as one text.
    pub parameters: &'a str,
}

/// A [`Document`] read and counted: everything about it that no other document changes.
#[derive(Clone, Debug)]
pub struct Entry {
    name: Box<str>,
    provider: Option<Box<str>>,
    /// All terms, then all surface forms that differ from their stem, without separators;
    /// one allocation for what would be a hundred.
    text: Box<str>,
    terms: Box<[TermRow]>,
    surfaces: Box<[SurfaceRow]>,
    lengths: [u32; FIELDS],
}

#[derive(Clone, Debug)]
struct TermRow {
    end: u32,
    counts: [u16; FIELDS],
}

#[derive(Clone, Debug)]
struct SurfaceRow {
    end: u32,
    term: u32,
}

impl Entry {
    /// Reads `document`. Each field is read up to 32 KiB.
    #[must_use]
    pub fn new(document: &Document<'_>) -> Entry {
        let fields = [
            document.name,
            document.provider.unwrap_or_default(),
            document.description,
            document.parameters,
        ];
        let mut counts: BTreeMap<String, [u16; FIELDS]> = BTreeMap::new();
        let mut surfaces: BTreeMap<String, String> = BTreeMap::new();
        let mut lengths = [0; FIELDS];
        for (field, text) in fields.into_iter().enumerate() {
            let text = &text[..text.floor_char_boundary(MAX_FIELD_BYTES)];
            for term in terms(text, Side::Document) {
                lengths[field] += u32::from(term.adds_length);
                if term.surface != term.stem {
                    surfaces.insert(term.surface, term.stem.clone());
                }
                let count = &mut counts.entry(term.stem).or_default()[field];
                *count = count.saturating_add(1);
            }
        }
        Entry::pack(document, &counts, &surfaces, lengths)
    }

    fn pack(
        document: &Document<'_>,
        counts: &BTreeMap<String, [u16; FIELDS]>,
        surfaces: &BTreeMap<String, String>,
        lengths: [u32; FIELDS],
    ) -> Entry {
        let mut text = String::new();
        let mut places = BTreeMap::new();
        let mut term_rows = Vec::with_capacity(counts.len());
        for (place, (stem, counts)) in (0u32..).zip(counts) {
            places.insert(stem.as_str(), place);
            text.push_str(stem);
            term_rows.push(TermRow {
                end: offset(&text),
                counts: *counts,
            });
        }
        let mut surface_rows = Vec::with_capacity(surfaces.len());
        for (surface, stem) in surfaces {
            text.push_str(surface);
            surface_rows.push(SurfaceRow {
                end: offset(&text),
                term: places[stem.as_str()],
            });
        }
        Entry {
            name: document.name.into(),
            provider: document.provider.map(Into::into),
            text: text.into(),
            terms: term_rows.into(),
            surfaces: surface_rows.into(),
            lengths,
        }
    }

    /// The name of the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn provider(&self) -> Option<&str> {
        self.provider.as_deref()
    }

    pub(crate) fn lengths(&self) -> [u32; FIELDS] {
        self.lengths
    }

    /// Each distinct term with how often each field holds it.
    pub(crate) fn terms(&self) -> impl Iterator<Item = (&str, [u16; FIELDS])> {
        let mut start = 0;
        self.terms.iter().map(move |row| {
            let text = &self.text[start..row.end as usize];
            start = row.end as usize;
            (text, row.counts)
        })
    }

    /// Each word that differs from its stem, with the place of that stem in [`Entry::terms`].
    pub(crate) fn surfaces(&self) -> impl Iterator<Item = (&str, usize)> {
        let mut start = self.terms.last().map_or(0, |row| row.end as usize);
        self.surfaces.iter().map(move |row| {
            let text = &self.text[start..row.end as usize];
            start = row.end as usize;
            (text, row.term as usize)
        })
    }
}

fn offset(text: &str) -> u32 {
    u32::try_from(text.len()).expect("four bounded fields are far below 4 GiB")
}
