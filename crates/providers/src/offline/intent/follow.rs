//! What "it" stands for.
//!
//! Only names that the person wrote count, never what a tool or an answer said: a file that a
//! result mentions is not one that somebody asked for.

use crate::offline::values::is_path;
use crate::offline::words::Word;

/// What goes before "it" when it is a file.
const BEFORE: [&str; 8] = ["in", "to", "into", "from", "of", "inside", "within", "onto"];

/// The file that `messages`, the latest first, speak of: the one that the latest of them that
/// names any file names, when it names no other.
pub(in crate::offline) fn file_named<'a>(
    messages: impl IntoIterator<Item = &'a [Word]>,
) -> Option<String> {
    messages.into_iter().find_map(|words| {
        let mut named: Vec<&str> = words
            .iter()
            .filter(|word| is_name(word))
            .map(|word| word.text.as_str())
            .collect();
        named.sort_unstable();
        named.dedup();
        match named.as_slice() {
            [] => None,
            [only] => Some(Some((*only).to_owned())),
            _ => Some(None),
        }
    })?
}

/// `words` with the file's name in place of each "it" that stands for one.
pub(super) fn with_names(words: &[Word], earlier: Option<&str>) -> Vec<Word> {
    let mut last = earlier.map(str::to_owned);
    let mut resolved: Vec<Word> = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        if is_name(word) {
            last = Some(word.text.clone());
        }
        let stands_for_a_file = word.is("it")
            && at > 0
            && words[at - 1].is_one_of(&BEFORE)
            && !words.get(at + 1).is_some_and(Word::is_quoted);
        // "Find "a" and replace it with "b"": here it is the text.
        let stands_for_a_text = word.is("it")
            && at > 0
            && words[at - 1].is_one_of(&["replace", "change", "substitute", "swap", "remove"])
            && words
                .get(at + 1)
                .is_some_and(|next| next.is_one_of(&["with", "by", "to", "from", "in"]));
        let text = words[..at].iter().rev().find(|word| word.is_quoted());
        if let Some(text) = text.filter(|_| stands_for_a_text) {
            resolved.push(text.clone());
            continue;
        }
        match &last {
            Some(name) if stands_for_a_file => resolved.push(Word {
                text: name.clone(),
                lower: name.to_lowercase(),
                ..word.clone()
            }),
            _ => resolved.push(word.clone()),
        }
    }
    resolved
}

/// Whether a clause speaks of a file that nobody named.
pub(super) fn points_nowhere(words: &[Word]) -> bool {
    words.windows(2).any(|pair| {
        pair[0].is_one_of(&BEFORE) && pair[1].is_one_of(&["it", "them", "that", "there"])
    })
}

fn is_name(word: &Word) -> bool {
    is_path(&word.text) && !word.text.contains(char::is_whitespace) && word.text.len() <= 4096
}
