//! Where a clause begins and ends, and what of it is only manners.

use crate::offline::values::{familiar, is_glob, is_identifier, is_path, kind_glob};
use crate::offline::words::Word;

/// Words a request begins with. After a connecting word they begin another request.
const VERBS: [&str; 72] = [
    "read",
    "open",
    "show",
    "display",
    "view",
    "cat",
    "print",
    "list",
    "find",
    "locate",
    "search",
    "grep",
    "look",
    "count",
    "write",
    "save",
    "put",
    "store",
    "create",
    "make",
    "append",
    "add",
    "insert",
    "prepend",
    "replace",
    "change",
    "edit",
    "substitute",
    "remove",
    "delete",
    "erase",
    "run",
    "execute",
    "launch",
    "rename",
    "move",
    "copy",
    "summarise",
    "summarize",
    "explain",
    "describe",
    "translate",
    "compare",
    "tell",
    "send",
    "email",
    "mail",
    "download",
    "upload",
    "install",
    "fix",
    "refactor",
    "test",
    "build",
    "compile",
    "commit",
    "push",
    "check",
    "sort",
    "convert",
    "compress",
    "zip",
    "backup",
    "close",
    "overwrite",
    "clean",
    "format",
    "merge",
    "split",
    "give",
    "lies",
    "zeige",
];
/// What a request is made about, besides names.
const OBJECTS: [&str; 26] = [
    "file",
    "files",
    "line",
    "lines",
    "it",
    "them",
    "folder",
    "folders",
    "directory",
    "command",
    "everything",
    "content",
    "contents",
    "result",
    "results",
    "matches",
    "words",
    "those",
    "these",
    "ones",
    "one",
    "each",
    "tests",
    "changes",
    "me",
    "all",
];
/// Openings that ask somebody to do something, in the form of a question.
const ASKING: [&[&str]; 10] = [
    &["can", "you"],
    &["could", "you"],
    &["would", "you"],
    &["will", "you"],
    &["please"],
    &["kannst", "du"],
    &["könntest", "du"],
    &["können", "sie"],
    &["peux-tu"],
    &["pouvez-vous"],
];

/// Openings that are manners, not meaning; longest first.
const POLITE: [&[&str]; 44] = [
    &["i", "would", "like", "you", "to"],
    &["i", "want", "you", "to"],
    &["i", "need", "you", "to"],
    &["i", "would", "like", "to"],
    &["could", "you", "please"],
    &["can", "you", "please"],
    &["would", "you", "mind"],
    &["s'il", "te", "plaît"],
    &["s'il", "vous", "plaît"],
    &["go", "ahead", "and"],
    &["i", "want", "to"],
    &["i", "need", "to"],
    &["help", "me", "to"],
    &["kannst", "du"],
    &["könntest", "du"],
    &["können", "sie"],
    &["peux-tu"],
    &["pouvez-vous"],
    &["good", "morning"],
    &["good", "evening"],
    &["help", "me"],
    &["can", "you"],
    &["could", "you"],
    &["would", "you"],
    &["will", "you"],
    &["let", "us"],
    &["let", "me"],
    &["please"],
    &["kindly"],
    &["bitte"],
    &["just"],
    &["now"],
    &["then"],
    &["also"],
    &["thank", "you"],
    &["thanks"],
    &["hey"],
    &["hi"],
    &["hello"],
    &["okay"],
    &["ok"],
    &["so"],
    &["well"],
    &["fermix"],
];

/// Endings of the same sort.
const TRAILING: [&[&str]; 12] = [
    &["ok"],
    &["okay"],
    &["thx"],
    &["thank", "you", "very", "much"],
    &["for", "me"],
    &["please"],
    &["bitte"],
    &["thanks"],
    &["now"],
    &["thank", "you"],
    &["right", "now"],
    &["again"],
];

/// `words` without the manners around them.
pub(super) fn without_politeness(words: &[Word]) -> &[Word] {
    let mut rest = words;
    while let Some(opening) = POLITE.iter().find(|opening| starts_with(rest, opening)) {
        // "Let me see" means "show".
        if starts_with(rest, &["let", "me", "see"]) || starts_with(rest, &["let", "me", "know"]) {
            break;
        }
        rest = &rest[opening.len()..];
    }
    while let Some(ending) = TRAILING.iter().find(|ending| ends_with(rest, ending)) {
        rest = &rest[..rest.len() - ending.len()];
    }
    rest
}

/// Whether the unquoted words at the start are `opening`.
pub(super) fn starts_with(words: &[Word], opening: &[&str]) -> bool {
    words.len() >= opening.len()
        && words
            .iter()
            .zip(opening)
            .all(|(word, wanted)| word.is(wanted))
}

fn ends_with(words: &[Word], ending: &[&str]) -> bool {
    words.len() > ending.len() && starts_with(&words[words.len() - ending.len()..], ending)
}

/// Whether the clause asks for something not to be done.
pub(super) fn is_negated(words: &[Word]) -> bool {
    words[0].is_one_of(&["never", "not", "avoid", "nicht", "nie", "stop"])
        || starts_with(words, &["do", "not"])
        || starts_with(words, &["ne"])
        || starts_with(words, &["no", "need"])
}

/// Where the words after a connection at `at` begin, when there is one.
pub(super) fn connector_end(words: &[Word], at: usize) -> Option<usize> {
    let is_joint = |place: usize| {
        words.get(place).is_some_and(|word| {
            word.is_one_of(&["and", "then", "und", "dann", "et", "puis", "afterwards"])
        })
    };
    let mut end = at;
    while is_joint(end) {
        end += 1;
    }
    let after_mark = matches!(words[at - 1].tail, Some('.' | ',' | ';' | '!' | '?' | ':'));
    (end > at || after_mark).then_some(end)
}

/// Whether `words` begin another request, understood or not: a verb, and something it is about.
pub(super) fn is_step(words: &[Word]) -> bool {
    let words = without_politeness(words);
    let [verb, object @ ..] = words else {
        return false;
    };
    let begins = object
        .first()
        .is_some_and(|word| !word.is_one_of(&["in", "under", "at", "of", "and", "or"]));
    let about = object.iter().any(|word| {
        word.is_quoted()
            || is_path(&word.text)
            || is_glob(&word.text)
            || is_identifier(&word.text)
            || familiar(word).is_some()
            || kind_glob(word).is_some()
            || word.is_one_of(&OBJECTS)
    });
    verb.is_one_of(&VERBS) && begins && about
}

/// Whether a question is one only for the sake of manners: "could you …?"
pub(super) fn asks_politely(words: &[Word]) -> bool {
    ASKING
        .iter()
        .any(|opening| (0..words.len().min(3)).any(|start| starts_with(&words[start..], opening)))
}

/// The place of the first unquoted word among `wanted`.
pub(super) fn position(words: &[Word], wanted: &[&str]) -> Option<usize> {
    words.iter().position(|word| word.is_one_of(wanted))
}

/// `words` without leading ones among `fillers`.
pub(super) fn after_fillers<'a>(words: &'a [Word], fillers: &[&str]) -> &'a [Word] {
    let count = words
        .iter()
        .take_while(|word| word.is_one_of(fillers))
        .count();
    &words[count..]
}
