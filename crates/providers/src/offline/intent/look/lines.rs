//! Which lines of a file a clause asks for.

use super::super::Lines;
use super::super::clause::position;
use crate::offline::values::count;
use crate::offline::words::Word;

/// How many lines "the top" and "the end" of a file are.
const GLIMPSE: u64 = 20;

/// The lines a clause asks for, and the words that say so.
pub(super) fn wanted_lines(words: &[Word]) -> (Lines, Vec<String>) {
    let numbers: Vec<(usize, u64, u64, String)> = words
        .iter()
        .enumerate()
        .filter_map(|(at, word)| {
            let (from, to) = span(word)?;
            Some((at, from, to, word.text.clone()))
        })
        .collect();
    let said = |count: usize| {
        numbers
            .iter()
            .take(count)
            .map(|(.., text)| text.clone())
            .collect::<Vec<_>>()
    };
    let has = |wanted: &[&str]| position(words, wanted).is_some();
    let counts_lines = has(&["line", "lines", "zeilen", "zeile", "lignes", "ligne"]);
    let Some((at, from, to, _)) = numbers.first() else {
        let one = |which: &[&str]| {
            words
                .windows(2)
                .any(|pair| pair[0].is_one_of(which) && pair[1].is_one_of(&["line", "zeile"]))
        };
        if one(&["first", "top", "erste"]) {
            return (Lines::From(1, Some(1)), Vec::new());
        }
        if one(&["last", "final", "bottom", "letzte"]) {
            return (Lines::Last(1), Vec::new());
        }
        let top = has(&["head", "top", "beginning", "start"]);
        let bottom = has(&["tail", "bottom", "end"]);
        return match (top, bottom) {
            (true, false) => (Lines::From(1, Some(GLIMPSE)), Vec::new()),
            (false, true) => (Lines::Last(GLIMPSE), Vec::new()),
            _ => (Lines::All, Vec::new()),
        };
    };
    let before = at.checked_sub(1).map(|before| &words[before]);
    let says = |wanted: &[&str]| before.is_some_and(|word| word.is_one_of(wanted));
    let option = says(&["-n"]);
    if says(&["first", "top", "ersten", "premières", "head"]) || (option && words[0].is("head")) {
        return (Lines::From(1, Some(*from)), said(1));
    }
    if says(&["last", "bottom", "letzten", "dernières", "tail"]) || (option && words[0].is("tail"))
    {
        return (Lines::Last(*from), said(1));
    }
    if !counts_lines {
        // "Read a.txt from 50"
        let is_last = at + 1 == words.len();
        return if is_last && says(&["from", "after"]) {
            (Lines::From(*from, None), said(1))
        } else {
            (Lines::All, Vec::new())
        };
    }
    if let Some((second_at, second, ..)) = numbers.get(1)
        && *second_at == at + 2
        && words[at + 1].is_one_of(&["to", "through", "until", "and", "bis", "à", "-", "–"])
        && second >= from
    {
        return (Lines::From(*from, Some(second - from + 1)), said(2));
    }
    if from != to {
        return (Lines::From(*from, Some(to - from + 1)), said(1));
    }
    let open_end = says(&["from", "after"])
        || words
            .get(at + 1)
            .is_some_and(|word| word.is_one_of(&["on", "onwards"]));
    let starts = before.is_some_and(|word| word.is_one_of(&["line"]))
        && at
            .checked_sub(2)
            .is_some_and(|place| words[place].is_one_of(&["from", "at", "after"]));
    let single = says(&["line", "zeile", "ligne"]);
    if open_end || starts {
        (Lines::From(*from, None), said(1))
    } else if single || says(&["lines"]) {
        (Lines::From(*from, Some(1)), said(1))
    } else {
        // "20 lines of notes.txt"
        (Lines::From(1, Some(*from)), said(1))
    }
}

/// "10-20" or "10".
fn span(word: &Word) -> Option<(u64, u64)> {
    if let Some(number) = count(word) {
        return Some((number, number));
    }
    if word.is_quoted() {
        return None;
    }
    let (from, to) = word.lower.split_once(['-', '–', '…'])?;
    let (from, to): (u64, u64) = (from.parse().ok()?, to.trim_start_matches('.').parse().ok()?);
    (from >= 1 && to >= from && to <= 10_000_000).then_some((from, to))
}
