//! What a clause says about how to search, apart from what for and where.

use super::super::clause::starts_with;
use crate::offline::words::{Quote, Word};

/// Ways to say that case does not matter, that the text is an expression, and that ignored files
/// count. They say how to search, not for what.
const FLAGS: [(&[&str], Flag); 21] = [
    (&["case", "insensitively"], Flag::IgnoreCase),
    (&["case", "insensitive"], Flag::IgnoreCase),
    (&["case-insensitively"], Flag::IgnoreCase),
    (&["case-insensitive"], Flag::IgnoreCase),
    (&["ignoring", "the", "case"], Flag::IgnoreCase),
    (&["ignoring", "case"], Flag::IgnoreCase),
    (&["ignore", "case"], Flag::IgnoreCase),
    (&["regardless", "of", "case"], Flag::IgnoreCase),
    (&["in", "any", "case"], Flag::IgnoreCase),
    (&["with", "a", "regex"], Flag::Regex),
    (&["using", "a", "regex"], Flag::Regex),
    (&["as", "a", "regex"], Flag::Regex),
    (&["with", "regex"], Flag::Regex),
    (&["using", "regex"], Flag::Regex),
    (&["as", "regex"], Flag::Regex),
    (&["the", "regex"], Flag::Regex),
    (&["regular", "expression"], Flag::Regex),
    (&["regex"], Flag::Regex),
    (&["regexp"], Flag::Regex),
    (&["ignored", "ones", "too"], Flag::AllFiles),
    (&["including", "ignored", "files"], Flag::AllFiles),
];

/// How to search.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    IgnoreCase,
    Regex,
    AllFiles,
}

/// `words` without what says how to search, and what that was.
pub(super) fn without_flags(words: &[Word]) -> (Vec<Word>, Vec<Flag>) {
    let mut kept: Vec<Word> = Vec::with_capacity(words.len());
    let mut flags = Vec::new();
    let mut rest = words;
    while let [first, after @ ..] = rest {
        let said = FLAGS
            .iter()
            .find(|(phrase, _)| !kept.is_empty() && starts_with(rest, phrase));
        if let Some((phrase, flag)) = said {
            flags.push(*flag);
            rest = &rest[phrase.len()..];
        } else {
            kept.push(first.clone());
            rest = after;
        }
    }
    (kept, flags)
}

/// `/def \w+/`, which is an expression between slashes, as one quoted piece.
pub(super) fn with_expression(words: Vec<Word>) -> (Vec<Word>, bool) {
    let starts = |word: &Word| !word.is_quoted() && word.text.starts_with('/');
    let Some(start) = words.iter().position(starts) else {
        return (words, false);
    };
    let Some(length) = words[start..]
        .iter()
        .take(12)
        .position(|word| !word.is_quoted() && word.text.len() > 1 && word.text.ends_with('/'))
    else {
        return (words, false);
    };
    let whole: Vec<&str> = words[start..=start + length]
        .iter()
        .map(|word| word.text.as_str())
        .collect();
    let whole = whole.join(" ");
    let inside = whole[1..].strip_suffix('/').unwrap_or_default();
    // A path may stand between slashes too.
    let is_expression = inside.contains(['\\', '*', '+', '^', '$', '|', '(', '[', '?', ' ']);
    if inside.is_empty() || !is_expression {
        return (words, false);
    }
    let mut joined = words[..start].to_vec();
    joined.push(Word {
        text: inside.to_owned(),
        lower: String::new(),
        quote: Some(Quote::Inline),
        tail: words[start + length].tail,
    });
    joined.extend_from_slice(&words[start + length + 1..]);
    (joined, true)
}
