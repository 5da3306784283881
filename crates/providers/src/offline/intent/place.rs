//! "in src", "under the crates folder", "in all rust files": where to look.

use super::clause::after_fillers;
use crate::offline::values::{is_extension, is_glob, kind_glob, path_of};
use crate::offline::words::Word;

const PREPOSITIONS: [&str; 14] = [
    "in", "under", "within", "inside", "below", "from", "of", "across", "at", "im", "unter",
    "dans", "sous", "into",
];
const ARTICLES: [&str; 16] = [
    "the", "my", "this", "our", "all", "any", "every", "a", "these", "of", "whole", "entire",
    "der", "dem", "le", "current",
];
/// Words for the place one is in anyway.
const HERE: [&str; 20] = [
    "project",
    "repo",
    "repository",
    "folder",
    "directory",
    "dir",
    "workspace",
    "here",
    "tree",
    "codebase",
    "code",
    "files",
    "file",
    "source",
    "sources",
    "total",
    "there",
    "everything",
    "projekt",
    "ordner",
];
/// Words that say "folder" next to its name.
const FOLDER: [&str; 9] = [
    "folder",
    "directory",
    "dir",
    "subfolder",
    "tree",
    "module",
    "ordner",
    "verzeichnis",
    "dossier",
];
const TRAILING: [&str; 9] = [
    "recursively",
    "please",
    "and",
    "its",
    "subfolders",
    "subdirectories",
    "there",
    "too",
    "deep",
];

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// A folder or a file; nothing means where one is.
    pub(super) folder: Option<String>,
    /// Which files there.
    pub(super) glob: Option<String>,
    /// Whether folders below are meant too.
    pub(super) deep: bool,
    /// Where in the words the description of the place begins; their number when there is none.
    pub(super) from: usize,
}

/// The place that the end of `words` describes.
pub(super) fn at_end(words: &[Word]) -> Place {
    (0..words.len())
        .filter(|start| words[*start].is_one_of(&PREPOSITIONS))
        // "Ending in .rs" is no place.
        .filter(|start| *start == 0 || !words[start - 1].is_one_of(&["ending", "ends", "end"]))
        .find_map(|start| {
            let mut place = Place {
                from: start,
                ..Place::default()
            };
            consume(&words[start..], &mut place).then_some(place)
        })
        .unwrap_or(Place {
            from: words.len(),
            ..Place::default()
        })
}

/// The place `words` describe as a whole, the preposition being optional.
pub(super) fn described(words: &[Word]) -> Option<Place> {
    let mut place = Place::default();
    let opened = words
        .first()
        .is_some_and(|word| word.is_one_of(&PREPOSITIONS));
    let fits = if opened {
        consume(words, &mut place)
    } else {
        object(words, &mut place).is_some_and(|rest| consume(rest, &mut place))
    };
    fits.then_some(place)
}

/// Takes one place after another until nothing is left; false when something else is there.
fn consume(words: &[Word], place: &mut Place) -> bool {
    let mut rest = words;
    loop {
        while let Some(word) = rest.first().filter(|word| word.is_one_of(&TRAILING)) {
            place.deep |= !word.is_one_of(&["please", "and", "there", "too"]);
            rest = &rest[1..];
        }
        let Some(first) = rest.first() else {
            return true;
        };
        if !first.is_one_of(&PREPOSITIONS) {
            return false;
        }
        let Some(after) = object(&rest[1..], place) else {
            return false;
        };
        rest = after;
    }
}

/// One place behind a preposition, and the words after it.
fn object<'a>(words: &'a [Word], place: &mut Place) -> Option<&'a [Word]> {
    let after_articles = after_fillers(words, &ARTICLES);
    let first = after_articles.first()?;
    let second = after_articles.get(1);
    let names_files =
        |word: &Word| word.is_one_of(&["file", "files", "dateien", "fichiers", "code", "sources"]);
    if (is_extension(&first.text) || kind_glob(first).is_some()) && second.is_some_and(names_files)
    {
        place.glob = kind_glob(first)
            .map(str::to_owned)
            .or_else(|| Some(format!("*{}", first.text)));
        return Some(&after_articles[2..]);
    }
    if !first.is_quoted() && is_glob(&first.text) {
        place.glob = Some(first.text.clone());
        let skip = 1 + usize::from(second.is_some_and(names_files));
        return Some(&after_articles[skip..]);
    }
    // "the folder src" and "the src folder".
    if first.is_one_of(&FOLDER)
        && let Some(named) = second.filter(|word| path_of(word).is_some() || is_plain_name(word))
        && !named.is_one_of(&TRAILING)
        && !named.is_one_of(&PREPOSITIONS)
    {
        place.folder = Some(named.text.clone());
        return Some(&after_articles[2..]);
    }
    if first.is_one_of(&HERE) {
        return Some(&after_articles[1..]);
    }
    if path_of(first).is_some() || is_plain_name(first) {
        place.folder.get_or_insert_with(|| first.text.clone());
        let skip =
            1 + usize::from(second.is_some_and(|word| word.is_one_of(&FOLDER) || word.is("file")));
        return Some(&after_articles[skip..]);
    }
    None
}

fn is_plain_name(word: &Word) -> bool {
    !word.is_quoted()
        && !word.text.is_empty()
        && word
            .text
            .chars()
            .all(|each| each.is_alphanumeric() || matches!(each, '_' | '-'))
        && !word.is_one_of(&[
            "it",
            "them",
            "that",
            "which",
            "english",
            "german",
            "french",
            "case",
            "detail",
            "name",
            "names",
            "title",
            "recursively",
            "bytes",
            "characters",
        ])
}
