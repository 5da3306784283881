//! "Did you mean": the one name a mistyped name was probably meant to be.

use crate::tokens::{folded, tokens};

/// Names longer than this are compared by their words only.
const MAX_COMPARED_CHARS: usize = 128;

/// How many edits still count as a slip.
const MAX_EDITS: usize = 2;

/// The number of edits (insert, delete, replace, swap of neighbours) between `a` and `b`,
/// when that is at most `bound` and both are at most 128 characters long.
#[must_use]
pub fn edit_distance_within(a: &str, b: &str, bound: usize) -> Option<usize> {
    let (a_chars, b_chars) = (a.chars().count(), b.chars().count());
    if a_chars.max(b_chars) > MAX_COMPARED_CHARS || a_chars.abs_diff(b_chars) > bound {
        return None;
    }
    let distance = strsim::osa_distance(a, b);
    (distance <= bound).then_some(distance)
}

/// The candidate closest to `name`: at most two edits away or made of the same words in any
/// order (`read_file` for `file_read`), letter case aside.
///
/// The fewest edits win, then the same words, then the alphabet, so the order of
/// `candidates` does not matter. In a very short name two edits are no longer a slip, so the
/// edits must stay below half of its length. `name` itself is never suggested.
#[must_use]
pub fn near_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = folded(name);
    let wanted_words = sorted_words(name);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name)
        .filter_map(|candidate| {
            let edits = slip(&wanted, &folded(candidate));
            let same_words = || !wanted_words.is_empty() && sorted_words(candidate) == wanted_words;
            match edits {
                Some(edits) => Some((edits, candidate)),
                None => same_words().then_some((MAX_EDITS + 1, candidate)),
            }
        })
        .min()
        .map(|(_, candidate)| candidate)
}

fn slip(wanted: &str, candidate: &str) -> Option<usize> {
    let edits = edit_distance_within(wanted, candidate, MAX_EDITS)?;
    let shorter = wanted.chars().count().min(candidate.chars().count());
    (edits * 2 < shorter).then_some(edits)
}

fn sorted_words(name: &str) -> Vec<String> {
    let mut words = tokens(name);
    words.sort_unstable();
    words
}
