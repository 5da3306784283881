//! Values that stand beside the name of a secret: `password=…`, `"token": "…"`,
//! `Authorization: Basic …`. They may be short and look like anything.
//!
//! Nearly every text that is redacted is one JSON object on a line. It must stay one, so a text
//! that is JSON is read string by string: a name that is a key takes the string it belongs to, and
//! a name inside a string takes nothing beyond the end of that string. Numbers, booleans, nulls,
//! lists and objects are no secrets. In other text the quotes say where a value ends.

mod value;

use std::ops::Range;

use serde::de::IgnoredAny;

use super::Found;
use value::Region;

/// What the name of a secret has in it, in either case.
pub(super) const NAMES: [&str; 8] = [
    "password",
    "passwd",
    "secret",
    "token",
    "authorization",
    "apikey",
    "api_key",
    "api-key",
];

/// How a word that makes a name secret ends: `PGPASSWORD` and `authtoken` are written as one.
const SECRET_WORDS: [&str; 6] = [
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "authorization",
];

/// Words behind the secret one that make the name one of a fact about the secret.
const HARMLESS_WORDS: [&str; 42] = [
    "age",
    "at",
    "attempts",
    "budget",
    "count",
    "counts",
    "endpoint",
    "env",
    "error",
    "expiration",
    "expires",
    "expiry",
    "field",
    "file",
    "hint",
    "in",
    "index",
    "kind",
    "label",
    "length",
    "lifetime",
    "limit",
    "limits",
    "mode",
    "name",
    "names",
    "path",
    "policy",
    "rate",
    "ref",
    "required",
    "server",
    "size",
    "source",
    "state",
    "status",
    "store",
    "ttl",
    "type",
    "uri",
    "url",
    "usage",
];

/// The longest name, to either side of the word that was found in it, in bytes.
const MAX_NAME: usize = 64;

/// The values beside secret names in `text`. `ends` says where one of [`NAMES`] ends, in
/// ascending order.
pub(super) fn find(text: &str, ends: &[usize]) -> Vec<Found> {
    let mut found = Vec::new();
    // Looked for when the first name wants it: most texts with such a word have no name.
    let mut strings: Option<Option<Vec<Range<usize>>>> = None;
    let mut done = 0;
    for &end in ends {
        if end <= done {
            continue;
        }
        let Some(place) = name_around(text, end) else {
            continue;
        };
        done = place.end;
        let Some(name) = Name::read(text, &place) else {
            continue;
        };
        let strings = strings.get_or_insert_with(|| strings_of_json(text));
        let value = match strings {
            Some(strings) => value_in_json(text, place, name, strings),
            None => value::after(text, place.end, name, &Region::whole(text)),
        };
        let Some(place) = value else { continue };
        // What is inside a value goes with it, and looking at it again and again takes long.
        done = done.max(place.end);
        found.push(Found {
            place,
            label: "parameter",
        });
    }
    found
}

/// What kind of secret a name is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    /// The HTTP header: a scheme, then what proves who asks.
    Authorization,
    Other,
}

impl Name {
    fn read(text: &str, place: &Range<usize>) -> Option<Self> {
        let name = &text[place.clone()];
        // In JSON the name's first letters may belong to the escape before it, such as `\n`.
        let after_escape = match text[..place.start].ends_with('\\') {
            true if name.starts_with('u') => name.get(5..),
            true => name.get(1..),
            false => None,
        };
        Self::of(name).or_else(|| after_escape.and_then(Self::of))
    }

    fn of(name: &str) -> Option<Self> {
        let words = words(name);
        words.iter().enumerate().find_map(|(index, word)| {
            let is_pair =
                word.ends_with("api") && words.get(index + 1).is_some_and(|next| next == "key");
            let is_secret = is_pair || SECRET_WORDS.iter().any(|secret| word.ends_with(secret));
            let is_harmless = words[index + 1..]
                .iter()
                .any(|word| HARMLESS_WORDS.contains(&word.as_str()));
            match (is_secret && !is_harmless, word.ends_with("authorization")) {
                (false, _) => None,
                (true, true) => Some(Self::Authorization),
                (true, false) => Some(Self::Other),
            }
        })
    }
}

/// `AWS_SECRET_KEY2` and `awsSecretKey` as `aws`, `secret`, `key`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        let is_between = matches!(letter, '_' | '-') || (was_lower && letter.is_ascii_uppercase());
        if is_between {
            words.push(String::new());
        }
        was_lower = letter.is_ascii_lowercase();
        if letter.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words
        .iter()
        .map(|word| word.trim_end_matches(|letter: char| letter.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn is_name_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The whole name around a word that ends at `end`; `None` for what is too long to be one.
fn name_around(text: &str, end: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let before = bytes[..end].iter().rev().take(MAX_NAME);
    let before = before.take_while(|byte| is_name_byte(byte)).count();
    let behind = bytes[end..].iter().take(MAX_NAME);
    let behind = behind.take_while(|byte| is_name_byte(byte)).count();
    (before < MAX_NAME && behind < MAX_NAME).then(|| end - before..end + behind)
}

/// What is between the quotes of each string, keys included, if `text` is a JSON object or list.
fn strings_of_json(text: &str) -> Option<Vec<Range<usize>>> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let mut strings = Vec::new();
    let mut start = None;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match (byte, start) {
            (b'"', None) => start = Some(at + 1),
            (b'"', Some(from)) => {
                strings.push(from..at);
                start = None;
            }
            // Whatever follows is a part of the escape.
            (b'\\', Some(_)) => {
                bytes.next();
            }
            _ => {}
        }
    }
    Some(strings)
}

fn value_in_json(
    text: &str,
    name_place: Range<usize>,
    name: Name,
    strings: &[Range<usize>],
) -> Option<Range<usize>> {
    let next = strings.partition_point(|string| string.start <= name_place.start);
    let string = &strings[next.checked_sub(1)?];
    if name_place.end < string.end {
        let region = Region {
            end: string.end,
            depth: 1,
        };
        return value::after(text, name_place.end, name, &region);
    }
    // The string ends with the name. It is a key if a colon follows.
    let rest = text[string.end + 1..].trim_start();
    let rest = rest.strip_prefix(':')?.trim_start();
    let value = strings.get(next)?;
    let is_string = rest.starts_with('"') && text.len() - rest.len() + 1 == value.start;
    is_string.then(|| value::in_quotes(text, value.clone(), name))?
}

#[cfg(test)]
mod tests;
