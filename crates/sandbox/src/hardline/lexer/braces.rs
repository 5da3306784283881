//! `{a,b}`: one word that stands for several.

use super::{CLOSE, COMMA, OPEN};

/// The most braces in one word that are looked at, and the most words that come out.
const MAX_BRACES: usize = 16;
const MAX_WORDS: usize = 64;

/// The words that `text` stands for. Braces that stand for nothing stay as they are.
pub(super) fn alternatives(text: &str) -> Vec<String> {
    let braces = text.matches(OPEN).count();
    if braces == 0 || braces > MAX_BRACES {
        return vec![plain(text)];
    }
    let Some((before, inside, after)) = first_group(text) else {
        return vec![plain(text)];
    };
    let parts = parts(inside);
    let tails = alternatives(after);
    let before = plain(before);
    let mut words = Vec::new();
    let is_choice = parts.len() > 1;
    for middle in parts.iter().flat_map(|part| alternatives(part)) {
        for tail in &tails {
            if words.len() < MAX_WORDS {
                words.push(if is_choice {
                    format!("{before}{middle}{tail}")
                } else {
                    format!("{before}{{{middle}}}{tail}")
                });
            }
        }
    }
    words
}

/// What stands before the first closed pair of braces, in it and after it.
fn first_group(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find(OPEN)?;
    let mut depth = 0;
    for (at, letter) in text[start..].char_indices() {
        match letter {
            OPEN => depth += 1,
            CLOSE => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let inside = start + OPEN.len_utf8();
            let end = start + at;
            return Some((
                &text[..start],
                &text[inside..end],
                &text[end + CLOSE.len_utf8()..],
            ));
        }
    }
    None
}

/// The parts between the commas that are not inside further braces.
fn parts(inside: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, letter) in inside.char_indices() {
        match letter {
            OPEN => depth += 1,
            CLOSE => depth = depth.saturating_sub(1),
            COMMA if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + COMMA.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    parts
}

fn plain(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            OPEN => '{',
            COMMA => ',',
            CLOSE => '}',
            other => other,
        })
        .collect()
}
