//! The nearest thing somebody may have meant: a verb with a slip of the finger, a name spelled
//! almost right. Nothing is done on such a guess; it is only offered.

use super::intent::is_clear;
use super::toolbox::Toolbox;
use super::words::{Word, spoken};

/// Verbs, the tool they need, and a sentence that is understood.
const FORMS: [(&[&str], &str, &str); 10] = [
    (
        &["read", "open", "show", "view", "display", "print"],
        "file_read",
        "read notes.txt",
    ),
    (&["list"], "glob_search", "list files in src"),
    (&["find", "locate"], "glob_search", "find all toml files"),
    (
        &["search", "grep"],
        "content_search",
        "search for \"text\" in src",
    ),
    (
        &["count", "how"],
        "file_read",
        "count the lines of notes.txt",
    ),
    (
        &["write", "save", "create"],
        "file_write",
        "write \"the text\" to notes.txt",
    ),
    (
        &["append", "add", "insert"],
        "file_edit",
        "append \"the text\" to notes.txt",
    ),
    (
        &["replace", "change", "edit"],
        "file_edit",
        "replace \"old text\" with \"new text\" in notes.txt",
    ),
    (
        &["remove"],
        "file_edit",
        "remove \"old text\" from notes.txt",
    ),
    (&["run", "execute"], "shell", "run `ls -la`"),
];

/// How many slips make one word another, or nothing when the two are no neighbours.
pub(super) fn slips(written: &str, meant: &str) -> Option<usize> {
    const LONGEST: usize = 128;
    if written.len() > LONGEST || meant.len() > LONGEST {
        return None;
    }
    // An extension is the same for many files and says nothing about which one is meant.
    let core = match meant.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => meant,
    };
    let allowed = match core.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    let slips = strsim::osa_distance(&written.to_lowercase(), &meant.to_lowercase());
    (slips <= allowed).then_some(slips)
}

/// The sentence that `words` come closest to: the same one with its verb spelled right, else an
/// example for the verb.
pub(super) fn sentence(words: &[Word], toolbox: &Toolbox<'_>) -> Option<String> {
    let first = words.first().filter(|first| !first.is_quoted())?;
    let (verb, form) = FORMS
        .iter()
        .filter(|(_, tool, _)| toolbox.has(tool))
        .flat_map(|(verbs, _, form)| verbs.iter().map(move |verb| (*verb, *form)))
        .filter_map(|(verb, form)| Some((slips(&first.lower, verb)?, verb, form)))
        .min_by_key(|(slips, ..)| *slips)
        .map(|(_, verb, form)| (verb, form))?;
    if first.is(verb) {
        return Some(form.to_owned());
    }
    let mut corrected = words.to_vec();
    corrected[0].text = verb.to_owned();
    corrected[0].lower = verb.to_owned();
    Some(if is_clear(&corrected, toolbox) {
        spoken(&corrected)
    } else {
        form.to_owned()
    })
}

/// Those of `names` that `written` may have been meant to be, the nearest first.
pub(super) fn names<'a>(
    written: &str,
    names: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| Some((slips(written, name)?, name)))
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(most).map(|(_, name)| name).collect()
}
