//! From words to the terms that are counted: stop words out, English endings off.
//!
//! Queries and documents go through the same rules, otherwise they would not meet.

use rust_stemmers::{Algorithm, Stemmer};

use crate::tokens::{Token, scan};

/// A counted term and the word it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// The stem, or the word itself when it is not an English-looking one.
    pub(crate) stem: String,
    /// The lower-cased word as written; what a prefix is compared with.
    pub(crate) surface: String,
    /// Whether the term adds to the length of its field. A second reading of characters that
    /// are counted already does not.
    pub(crate) adds_length: bool,
}

/// Which side of the comparison a text is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Every reading of the text is indexed, so that any way of asking finds it.
    Document,
    /// Only the most specific reading asks.
    Query,
}

/// The terms of `text` in reading order, repeats kept.
///
/// Stop words are dropped, unless that would leave nothing: a tool named `what_now` has to be
/// findable too.
pub(crate) fn terms(text: &str, side: Side) -> Vec<Term> {
    let stemmer = Stemmer::create(Algorithm::English);
    let mut kept = Vec::new();
    let mut stopped = Vec::new();
    scan(text, |token| match token {
        Token::Word(word) if is_stop_word(&word) => stopped.push(term(&stemmer, word, true)),
        Token::Word(word) => kept.push(term(&stemmer, word, true)),
        Token::Joined(word) => kept.push(term(&stemmer, word, false)),
        Token::Pair(text) => kept.push(unstemmed(text, true)),
        Token::Single { text, alone: true } => kept.push(unstemmed(text, true)),
        Token::Single { text, alone: false } => {
            if side == Side::Document {
                kept.push(unstemmed(text, false));
            }
        }
    });
    if kept.is_empty() { stopped } else { kept }
}

fn term(stemmer: &Stemmer, word: String, adds_length: bool) -> Term {
    // The stemmer's rules are English; on words with other letters they only do harm.
    let stem = if word.is_ascii() {
        stemmer.stem(&word).into_owned()
    } else {
        word.clone()
    };
    Term {
        stem,
        surface: word,
        adds_length,
    }
}

fn unstemmed(text: String, adds_length: bool) -> Term {
    Term {
        stem: text.clone(),
        surface: text,
        adds_length,
    }
}

/// Words that requests are made of and that no tool is about, with the pieces that
/// contractions leave behind.
#[rustfmt::skip]
fn is_stop_word(word: &str) -> bool {
    matches!(
        word,
        "a" | "an" | "and" | "are" | "as" | "at" | "be" | "been" | "being" | "by" | "can"
            | "could" | "do" | "does" | "did" | "for" | "from" | "had" | "has" | "have" | "how"
            | "i" | "if" | "in" | "into" | "is" | "it" | "its" | "let" | "me" | "my" | "of"
            | "on" | "or" | "our" | "ours" | "please" | "so" | "some" | "than" | "that" | "the"
            | "their" | "them" | "then" | "there" | "these" | "they" | "this" | "those" | "to"
            | "too" | "up" | "us" | "use" | "using" | "was" | "we" | "were" | "what" | "when"
            | "where" | "which" | "who" | "will" | "with" | "would" | "you" | "your" | "need"
            | "want" | "any" | "all" | "also" | "about" | "am" | "but" | "hi" | "hello" | "hey"
            | "just" | "like" | "may" | "might" | "must" | "no" | "not" | "now" | "only"
            | "should" | "such" | "very" | "via" | "s" | "t" | "d" | "m" | "ll" | "re" | "ve" | "don"
    )
}
