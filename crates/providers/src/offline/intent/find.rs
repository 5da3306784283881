//! Requests to find files by name, and to count files or lines.

use super::clause::{after_fillers, position, starts_with};
use super::{Intent, Target, place};
use crate::offline::values::{
    familiar, glob_literal, is_extension, is_glob, is_identifier, is_path, kind_glob, path_of,
};
use crate::offline::words::{Word, spoken};

/// Files to find by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::offline) struct Find {
    /// A glob for the whole path below the folder.
    pub(in crate::offline) pattern: String,
    /// What was asked for, in the person's words.
    pub(in crate::offline) wanted: String,
    /// Where; nothing means where one is.
    pub(in crate::offline) folder: Option<String>,
    /// Only how many.
    pub(in crate::offline) counts: bool,
    /// What to look for inside files when no file has such a name.
    pub(in crate::offline) else_search: Option<String>,
}

const FIND: [&[&str]; 26] = [
    &["find"],
    &["locate"],
    &["finde"],
    &["trouve"],
    &["where", "is"],
    &["where", "are"],
    &["wo", "ist"],
    &["where", "can", "i", "find"],
    &["search", "for"],
    &["search"],
    &["look", "for"],
    &["suche"],
    &["cherche"],
    &["list"],
    &["show", "me"],
    &["show"],
    &["is", "there"],
    &["are", "there"],
    &["do", "we", "have"],
    &["do", "i", "have"],
    &["which", "files", "are"],
    &["what", "files", "are"],
    &["which"],
    &["what"],
    &["get"],
    &["give", "me"],
];
const COUNT: [&[&str]; 6] = [
    &["how", "many"],
    &["count"],
    &["what", "is", "the", "number", "of"],
    &["number", "of"],
    &["wie", "viele"],
    &["combien", "de"],
];
const FILE: [&str; 6] = ["file", "files", "datei", "dateien", "fichier", "fichiers"];

/// Words of a sentence that cannot be part of a name that is looked for.
const NO_NAMES: [&str; 32] = [
    "no",
    "any",
    "and",
    "or",
    "then",
    "but",
    "not",
    "without",
    "than",
    "by",
    "from",
    "since",
    "before",
    "after",
    "today",
    "yesterday",
    "changed",
    "modified",
    "created",
    "delete",
    "remove",
    "replace",
    "count",
    "read",
    "show",
    "write",
    "run",
    "have",
    "has",
    "contain",
    "contains",
    "containing",
];
/// The most words that together are the middle of a name.
const MAX_NAME_WORDS: usize = 3;

/// The request to find or count files; `None` when the clause is none.
pub(super) fn read(words: &[Word]) -> Option<Intent> {
    if let Some(opening) = COUNT.iter().find(|opening| starts_with(words, opening)) {
        return counted(&words[opening.len()..]);
    }
    if let Some(find) = existence(words) {
        return Some(Intent::Find(find));
    }
    let opening = FIND.iter().find(|opening| starts_with(words, opening))?;
    if opening[0] == "find"
        && let Some(list) = everything(&words[1..])
    {
        return Some(list);
    }
    let object = &words[opening.len()..];
    if let Some(find) = with_part_of_name(object) {
        return Some(Intent::Find(find));
    }
    let place = place::at_end(object);
    let named = &object[..place.from];
    let says_file = position(named, &FILE).is_some() || opening.contains(&"files");
    // Asking to show one named file is asking for what it holds.
    let opens = matches!(opening[0], "show" | "get" | "give")
        && named.iter().any(|word| path_of(word).is_some());
    if opens && !is_pattern(named) {
        return None;
    }
    let only_files = matches!(opening[0], "find" | "locate" | "finde" | "trouve");
    let pattern = match object_pattern(named) {
        Some(pattern)
            if only_files
                || says_file
                || !shows(opening)
                || is_pattern(named)
                || names_one(opening, named) =>
        {
            pattern
        }
        Some(_) => return None,
        None => {
            // "in all toml files" named the kind behind the preposition.
            let glob = place.glob.clone().filter(|_| says_file)?;
            format!("**/{glob}")
        }
    };
    // A word alone may be the name of a file, or something written in one.
    let plain = after_fillers(named, &["the", "a", "my", "all", "any"]);
    let is_bare = matches!(plain, [only] if !only.is_quoted() && path_of(only).is_none() && familiar(only).is_none()
        && !is_glob(&only.text) && kind_glob(only).is_none());
    let place_question = matches!(
        opening[0],
        "where" | "wo" | "which" | "what" | "is" | "are" | "do"
    );
    let is_open_question = matches!(opening[0], "which" | "what");
    let asks_for_file = (says_file && !is_open_question)
        || is_pattern(named)
        || plain
            .iter()
            .any(|word| familiar(word).is_some() || is_path(&word.text) || word.is_quoted());
    if place_question && !asks_for_file {
        return None;
    }
    if !only_files && !asks_for_file && !is_bare {
        return None;
    }
    Some(Intent::Find(Find {
        pattern,
        wanted: spoken(plain),
        folder: place.folder,
        counts: false,
        else_search: is_bare
            .then(|| plain[0].text.clone())
            .filter(|_| only_files && !says_file),
    }))
}

/// "Find all files": a list of them.
fn everything(object: &[Word]) -> Option<Intent> {
    let place = place::at_end(object);
    let named = &object[..place.from];
    let all = named
        .iter()
        .all(|word| word.is_one_of(&["all", "every", "the", "my", "file", "files", "everything"]));
    let says_all = position(named, &["all", "every", "everything", "files"]).is_some();
    (all && says_all && place.glob.is_none()).then_some(Intent::List {
        folder: place.folder,
        deep: true,
    })
}

/// "Does notes.txt exist?", "is notes.txt there?"
fn existence(words: &[Word]) -> Option<Find> {
    let asks = words[0].is_one_of(&["does", "do", "is", "are"])
        || starts_with(words, &["check", "if"])
        || starts_with(words, &["check", "whether"]);
    let said = words
        .iter()
        .position(|word| word.is_one_of(&["exist", "exists", "there", "here", "present"]))?;
    let object = after_fillers(
        &words[1..],
        &[
            "if", "whether", "there", "a", "the", "file", "folder", "is", "called", "named",
        ],
    );
    let (name, after) = object.split_first()?;
    let path = path_of(name).or_else(|| familiar(name).map(|_| name.text.as_str()))?;
    let place = place::at_end(after);
    let rest = &after[..place.from];
    let ends = rest
        .iter()
        .all(|word| word.is_one_of(&["exist", "exists", "there", "here", "present", "file"]));
    (asks && ends && said > 0).then(|| {
        let (folder, pattern) = located(path, familiar(name).map(|(_, glob)| glob));
        Find {
            pattern,
            wanted: name.text.clone(),
            folder: folder.or(place.folder),
            counts: false,
            else_search: None,
        }
    })
}

/// The folder and the glob for one file. What is named from the root or the home is there or
/// nowhere.
fn located(path: &str, glob: Option<&str>) -> (Option<String>, String) {
    if let Some(glob) = glob {
        return (None, glob.to_owned());
    }
    let is_absolute = path.starts_with('/') || path.starts_with("~/") || path.starts_with("../");
    match path.rsplit_once('/') {
        Some((folder, name)) if is_absolute && !name.is_empty() => {
            let folder = if folder.is_empty() { "/" } else { folder };
            (Some(folder.to_owned()), glob_literal(name))
        }
        _ => (
            None,
            anywhere(&glob_literal(
                path.trim_start_matches("./").trim_matches('/'),
            )),
        ),
    }
}

/// "Files with recipe in the name", "files whose name contains recipe".
fn with_part_of_name(object: &[Word]) -> Option<Find> {
    position(object, &FILE)?;
    let place = place::at_end(object);
    let named = &object[..place.from];
    let is_name =
        |word: &Word| word.is_one_of(&["name", "names", "filename", "filenames", "title"]);
    let at = named.iter().position(is_name)?;
    let part = if let Some(with) =
        position(named, &["with", "having", "containing", "contain", "have"])
        && with < at
        && named[with + 1..at]
            .iter()
            .any(|word| word.is_one_of(&["in", "inside"]))
    {
        // "with X in the name"
        let inside = &named[with + 1..at];
        let end = position(inside, &["in", "inside"])?;
        &inside[..end]
    } else {
        // "whose name contains X"
        let after = &named[at + 1..];
        let verb = position(
            after,
            &[
                "contains",
                "contain",
                "containing",
                "includes",
                "has",
                "with",
            ],
        )?;
        &after[verb + 1..]
    };
    let part = after_fillers(part, &["the", "word", "text", "a"]);
    let [word] = part else { return None };
    let literal = glob_literal(&word.text);
    (!literal.is_empty() && !literal.contains('/')).then(|| Find {
        pattern: format!("**/*{literal}*"),
        wanted: spoken(part),
        folder: place.folder,
        counts: false,
        else_search: None,
    })
}

/// Whether the existence of one named file is asked for.
fn names_one(opening: &[&str], named: &[Word]) -> bool {
    matches!(opening[0], "is" | "are" | "do")
        && named
            .iter()
            .any(|word| familiar(word).is_some() || is_path(&word.text))
}

/// Openings that show things in general, not only files.
fn shows(opening: &[&str]) -> bool {
    matches!(
        opening[0],
        "list" | "show" | "get" | "give" | "which" | "what" | "is" | "are" | "do"
    )
}

fn is_pattern(words: &[Word]) -> bool {
    words
        .iter()
        .any(|word| !word.is_quoted() && (is_glob(&word.text) || is_extension(&word.text)))
        || words
            .windows(2)
            .any(|pair| kind_glob(&pair[0]).is_some() && pair[1].is_one_of(&FILE))
}

fn counted(object: &[Word]) -> Option<Intent> {
    let lines = position(object, &["line", "lines", "zeilen", "lignes"]);
    let path = object.iter().rev().find_map(|word| {
        path_of(word)
            .map(str::to_owned)
            .or_else(|| familiar(word).map(|(name, _)| name.to_owned()))
    });
    if lines.is_some() {
        let points_back = object.iter().all(|word| {
            word.is_one_of(&[
                "the", "line", "lines", "in", "of", "it", "them", "each", "file", "files", "their",
                "all", "those", "these", "every", "one",
            ])
        });
        return match path {
            Some(path) => Some(Intent::CountLines(Target::Path(path))),
            None => points_back.then_some(Intent::CountLines(Target::Previous)),
        };
    }
    let place = place::at_end(object);
    let named = &object[..place.from];
    let named = match position(
        named,
        &["are", "is", "exist", "gibt", "do", "does", "there"],
    ) {
        Some(end) => &named[..end],
        None => named,
    };
    let says_file = position(named, &FILE).is_some();
    let pattern = object_pattern(named).or_else(|| says_file.then(|| "**/*".to_owned()))?;
    if !says_file && !is_pattern(named) && !named.iter().any(|word| kind_glob(word).is_some()) {
        return None;
    }
    let pattern = match place.glob {
        Some(glob) if pattern == "**/*" => format!("**/{glob}"),
        _ => pattern,
    };
    Some(Intent::Find(Find {
        pattern,
        wanted: spoken(after_fillers(named, &["the", "of", "all"])),
        folder: place.folder,
        counts: true,
        else_search: None,
    }))
}

/// The glob for what a few words call a file; `None` when they name none.
pub(super) fn object_pattern(words: &[Word]) -> Option<String> {
    const FILLERS: [&str; 42] = [
        "the",
        "all",
        "any",
        "every",
        "a",
        "an",
        "my",
        "me",
        "some",
        "named",
        "called",
        "matching",
        "with",
        "name",
        "names",
        "that",
        "which",
        "are",
        "is",
        "ending",
        "end",
        "in",
        "extension",
        "pattern",
        "whose",
        "of",
        "type",
        "located",
        "for",
        "file",
        "files",
        "alle",
        "die",
        "datei",
        "here",
        "there",
        "this",
        "exist",
        "available",
        "everything",
        "current",
        "please",
    ];
    let kept: Vec<&Word> = words
        .iter()
        .filter(|word| word.is_quoted() || !word.is_one_of(&FILLERS))
        .collect();
    let kept: Vec<&Word> = kept
        .into_iter()
        .filter(|word| !word.is_one_of(&["dateien", "fichier", "fichiers"]))
        .collect();
    let by_extension = position(words, &["extension", "ending", "end", "type"]).is_some();
    let says_file = position(words, &FILE).is_some();
    let by_name = position(words, &["named", "called", "name", "whose"]).is_some();
    let [first, rest @ ..] = kept.as_slice() else {
        return None;
    };
    if !rest.is_empty()
        && let Some(pattern) = one_of(&kept)
    {
        return Some(pattern);
    }
    // What is said besides a name would be dropped.
    let names_more = rest
        .iter()
        .any(|word| word.is_one_of(&["and", "or"]) || path_of(word).is_some());
    if names_more {
        return None;
    }
    if is_glob(&first.text) {
        return Some(anywhere(&first.text));
    }
    if is_extension(&first.text) && (says_file || by_extension || familiar(first).is_none()) {
        let known = kind_glob(first).map_or_else(|| format!("*{}", first.text), str::to_owned);
        return Some(anywhere(&known));
    }
    if let Some((_, glob)) = familiar(first) {
        return Some(glob.to_owned());
    }
    let kind_stands_alone = rest.is_empty() || says_file;
    if let Some(glob) = kind_glob(first).filter(|_| {
        (says_file || by_extension || plural_kind(first)) && kind_stands_alone && !by_name
    }) {
        // "rust test files": the kind, with the word in the name.
        return Some(match rest {
            [] => anywhere(glob),
            [_, _, ..] => return None,
            [word] if word.is_one_of(&NO_NAMES) => return None,
            [word] => format!(
                "**/*{}*{}",
                glob_literal(&word.text),
                glob.trim_start_matches('*')
            ),
        });
    }
    if let Some(path) = path_of(first) {
        let literal = glob_literal(path.trim_start_matches("./").trim_matches('/'));
        let has_extension = literal.contains('.') || literal.contains('/');
        return (!literal.is_empty()).then(|| {
            if has_extension || by_name {
                anywhere(&literal)
            } else {
                format!("**/*{literal}*")
            }
        });
    }
    let [only] = kept.as_slice() else {
        let is_name = kept.len() <= MAX_NAME_WORDS
            && kept
                .iter()
                .all(|word| !word.is_quoted() && !word.is_one_of(&NO_NAMES));
        return (says_file && is_name).then(|| {
            let joined: Vec<String> = kept.iter().map(|word| glob_literal(&word.text)).collect();
            format!("**/*{}*", joined.join("*"))
        });
    };
    let name = glob_literal(&only.text);
    if !only.is_quoted() && only.is_one_of(&NO_NAMES) {
        return None;
    }
    if by_extension && only.text.chars().all(char::is_alphanumeric) {
        return Some(format!("**/*.{name}"));
    }
    let fits = !name.is_empty() && !name.contains('/') && !is_identifier_call(&only.text);
    fits.then(|| format!("**/*{name}*"))
}

/// The glob for any of several names or kinds: "notes.txt or new.txt", "md and txt".
fn one_of(words: &[&Word]) -> Option<String> {
    let names: Vec<&&Word> = words
        .iter()
        .filter(|word| !word.is_one_of(&["and", "or", "und", "oder"]))
        .collect();
    let globs: Vec<String> = names
        .iter()
        .filter_map(|word| {
            if is_glob(&word.text) && !word.is_quoted() {
                return Some(word.text.clone());
            }
            if is_extension(&word.text) {
                return Some(format!("*{}", word.text));
            }
            kind_glob(word)
                .map(str::to_owned)
                .or_else(|| path_of(word).map(glob_literal))
        })
        .filter(|glob| !glob.contains(['/', '{', ',']))
        .collect();
    let are_joined = words.len() > names.len();
    (are_joined && globs.len() == names.len() && globs.len() >= 2)
        .then(|| format!("**/{{{}}}", globs.join(",")))
}

fn plural_kind(word: &Word) -> bool {
    word.is_one_of(&["pdfs", "images", "pictures", "photos", "logs"])
}

fn is_identifier_call(text: &str) -> bool {
    is_identifier(text) && (text.contains("::") || text.contains("()"))
}

/// `pattern` in any folder.
fn anywhere(pattern: &str) -> String {
    let pattern = pattern.trim_start_matches("./").trim_start_matches('/');
    if pattern.starts_with("**") {
        pattern.to_owned()
    } else {
        format!("**/{pattern}")
    }
}
