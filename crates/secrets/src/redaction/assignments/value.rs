//! Where the value beside a secret's name begins and ends.

use std::ops::Range;

use super::{Name, is_name_byte};

/// The part of a text that a value lies in.
pub(super) struct Region {
    /// Where it ends.
    pub(super) end: usize,
    /// 1 inside a string of JSON, where each quote and backslash of the string is escaped; else 0.
    pub(super) depth: u32,
}

impl Region {
    /// All of `text`.
    pub(super) fn whole(text: &str) -> Self {
        Self {
            end: text.len(),
            depth: 0,
        }
    }
}

/// Values that only say that there is none, or what kind of thing belongs there.
const PLACEHOLDERS: [&str; 18] = [
    "***",
    "empty",
    "expired",
    "false",
    "invalid",
    "missing",
    "nil",
    "no",
    "none",
    "null",
    "optional",
    "required",
    "set",
    "string",
    "true",
    "undefined",
    "unset",
    "yes",
];

/// Schemes of the Authorization header with one word behind them.
const WORD_SCHEMES: [&str; 7] = [
    "basic",
    "bearer",
    "token",
    "negotiate",
    "ntlm",
    "apikey",
    "api-key",
];

/// Schemes with a list behind them.
const LIST_SCHEMES: [&str; 5] = ["digest", "aws4-hmac-sha256", "hawk", "oauth", "signature"];

/// How far the end of a value in quotes is looked for, in bytes.
const MAX_QUOTED: usize = 64 * 1024;

/// How far the end of a value in single quotes or backquotes is looked for, in bytes: many an
/// apostrophe opens nothing.
const MAX_SINGLE_QUOTED: usize = 1024;

/// The longest number, in bytes.
const MAX_LITERAL: usize = 64;

/// How many times one text inside a string of another is followed.
const MAX_LEVEL: u32 = 6;

/// The value behind a name that ends at `at`, if a colon or an equals sign is between them.
pub(super) fn after(text: &str, at: usize, name: Name, region: &Region) -> Option<Range<usize>> {
    let bytes = &text.as_bytes()[..region.end];
    let (at, name_level) = match quote(bytes, at) {
        // `headers["token"] = …`
        Some(closing) if bytes.get(closing.end) == Some(&b']') => {
            (closing.end + 1, Some(closing.level))
        }
        Some(closing) => (closing.end, Some(closing.level)),
        None => (at, None),
    };
    let is_escaped = region.depth > 0 || name_level.is_some_and(|level| level > 0);
    let lines = name_level.is_some();
    let at = skip_blanks(bytes, at, is_escaped, lines);
    let sign_end = sign(bytes, at)?;
    let start = skip_blanks(bytes, sign_end, is_escaped, lines);
    if let Some(opening) = quote(bytes, start) {
        let end = match opening.mark {
            b'"' => Some(end_of_string(
                bytes,
                opening.end,
                opening.level,
                region.depth,
            )),
            mark => end_of_quote(bytes, opening.end, mark, region.depth),
        };
        return match end {
            Some(end) => in_quotes(text, opening.end..end, name),
            // An apostrophe.
            None => bare(text, opening.end, name, region),
        };
    }
    let rest = &text[start..region.end];
    let is_json = name_level.is_some();
    let is_literal = is_json && is_json_literal(rest);
    let is_tree = rest.starts_with(['{', '[']) && (is_json || is_tree(&rest.as_bytes()[1..]));
    if is_literal || is_tree || rest.starts_with("[REDACTED:") {
        return None;
    }
    bare(text, start, name, region)
}

/// The secret part of a value that fills `place`.
pub(super) fn in_quotes(text: &str, place: Range<usize>, name: Name) -> Option<Range<usize>> {
    let value = &text[place.clone()];
    let start = match name {
        Name::Authorization => scheme(value).map_or(0, |(length, _)| length),
        Name::Other => 0,
    };
    let secret = &value[start..];
    is_secret(secret).then(|| place.start + start..place.end)
}

fn is_secret(value: &str) -> bool {
    let value = value.trim();
    let is_placeholder = PLACEHOLDERS
        .iter()
        .any(|placeholder| placeholder.eq_ignore_ascii_case(value));
    !value.is_empty() && !value.starts_with("[REDACTED:") && !is_placeholder
}

/// A quote with the backslashes that escape it.
struct Quote {
    mark: u8,
    end: usize,
    /// How many strings inside one another it is in.
    level: u32,
}

fn quote(bytes: &[u8], at: usize) -> Option<Quote> {
    let backslashes = backslashes(bytes, at);
    let mark = *bytes.get(at + backslashes)?;
    // Each string around doubles the backslashes and adds one: 0, 1, 3, 7.
    let is_escape = (backslashes + 1).is_power_of_two();
    let level = (backslashes + 1).ilog2();
    (is_escape && level <= MAX_LEVEL && matches!(mark, b'"' | b'\'' | b'`')).then_some(Quote {
        mark,
        end: at + backslashes + 1,
        level,
    })
}

fn backslashes(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().take_while(|byte| **byte == b'\\').count()
}

fn skip_blanks(bytes: &[u8], mut at: usize, is_escaped: bool, lines: bool) -> usize {
    loop {
        let run = backslashes(bytes, at);
        at += match (run, bytes.get(at + run)) {
            (0, Some(b' ' | b'\t')) => 1,
            (0, Some(b'\r' | b'\n')) if lines => 1,
            (1.., Some(b't')) if is_escaped => run + 1,
            (1.., Some(b'r' | b'n')) if is_escaped && lines => run + 1,
            _ => return at,
        };
    }
}

/// The end of the `:`, `=`, `:=` or `=>` at `at`. `::`, `== ` and `://` say something else.
fn sign(bytes: &[u8], at: usize) -> Option<usize> {
    let next = bytes.get(at + 1);
    match (bytes.get(at)?, next) {
        (b':', Some(b':')) => None,
        // A comparison, or a value that begins so.
        (b'=', Some(b'=' | b'~')) if bytes.get(at + 2).is_none_or(u8::is_ascii_whitespace) => None,
        (b':', Some(b'/')) if bytes.get(at + 2) == Some(&b'/') => None,
        (b':', Some(b'=')) | (b'=', Some(b'>')) => Some(at + 2),
        (b':' | b'=', _) => Some(at + 1),
        _ => None,
    }
}

fn is_json_literal(rest: &str) -> bool {
    let length = rest
        .bytes()
        .take(MAX_LITERAL)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+'))
        .count();
    let word = &rest[..length];
    matches!(word, "true" | "false" | "null" | "True" | "False" | "None")
        || word.parse::<f64>().is_ok()
}

/// Whether a list or an object begins, as code writes them, whose first bracket was before `rest`.
fn is_tree(rest: &[u8]) -> bool {
    let Some(first) = rest.first() else {
        return true;
    };
    let name_bytes = rest.iter().take_while(|byte| is_name_byte(byte)).count();
    first.is_ascii_whitespace()
        || b"\"'`\\{}[]".contains(first)
        || (name_bytes > 0 && rest.get(name_bytes) == Some(&b':'))
}

/// Where a string ends that began with a double quote of `level`: at the quote that closes it or
/// one of the strings around it.
fn end_of_string(bytes: &[u8], start: usize, level: u32, depth: u32) -> usize {
    let limit = bytes.len().min(start + MAX_QUOTED);
    let mut run = 0;
    for (at, byte) in bytes.iter().enumerate().take(limit).skip(start) {
        match byte {
            b'\\' => run += 1,
            b'"' => {
                // A backslash in a string of level `n` is written as `2^n` pairs, and its quote
                // has `2^n - 1` backslashes of its own.
                let own = |level: u32| (1_usize << level) - 1;
                let closes = |level: &u32| run % (2 << level) == own(*level);
                if let Some(closed) = (depth..=level).find(closes) {
                    return at - own(closed);
                }
                run = 0;
            }
            _ => run = 0,
        }
    }
    if depth > 0 && limit == bytes.len() {
        return limit;
    }
    // Cut off, or no string at all: the rest of the line.
    end_of_line(bytes, start, depth)
}

/// Where text in single quotes or backquotes ends; `None` when it does not on its line.
fn end_of_quote(bytes: &[u8], start: usize, mark: u8, depth: u32) -> Option<usize> {
    let near = bytes.len().min(start + MAX_SINGLE_QUOTED);
    let limit = end_of_line(&bytes[..near], start, depth);
    let mut run: usize = 0;
    for (at, &byte) in bytes.iter().enumerate().take(limit).skip(start) {
        match byte {
            b'\\' => run += 1,
            _ if byte == mark && (run >> depth).is_multiple_of(2) => return Some(at),
            _ => run = 0,
        }
    }
    None
}

/// The end of the line, which in a string of JSON is an escape.
fn end_of_line(bytes: &[u8], start: usize, depth: u32) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\r' | b'\n' => return at,
            b'\\' if depth > 0 => {
                let run = backslashes(bytes, at);
                let is_break = matches!(bytes.get(at + run), Some(b'r' | b'n'));
                if is_break && run % 2 == 1 {
                    return at + run - 1;
                }
                at += run + run % 2;
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The scheme at the start of an Authorization header's value, with the blanks behind it, and
/// whether a list follows.
fn scheme(value: &str) -> Option<(usize, bool)> {
    let word_bytes = value.bytes().take_while(is_name_byte).count();
    let word = value[..word_bytes].to_ascii_lowercase();
    let rest = &value[word_bytes..];
    // As an address has it, too: `Bearer+…`.
    let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '+']).len();
    let is_list = LIST_SCHEMES.contains(&word.as_str());
    let is_scheme = is_list || WORD_SCHEMES.contains(&word.as_str());
    (is_scheme && blanks > 0).then_some((word_bytes + blanks, is_list))
}

/// The value without quotes that begins at `start`.
fn bare(text: &str, start: usize, name: Name, region: &Region) -> Option<Range<usize>> {
    let bytes = &text.as_bytes()[..region.end];
    let scheme = match name {
        Name::Authorization => scheme(&text[start..region.end]),
        Name::Other => None,
    };
    let (start, end) = match scheme {
        None => (start, end_of_bare(bytes, start, region.depth)),
        Some((length, false)) => {
            let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._~+/=%-".contains(byte);
            let start = start + length;
            (
                start,
                start + bytes[start..].iter().take_while(is_part).count(),
            )
        }
        Some((length, true)) => {
            let start = start + length;
            (start, end_of_line(bytes, start, region.depth))
        }
    };
    is_secret(&text[start..end]).then_some(start..end)
}

fn end_of_bare(bytes: &[u8], start: usize, depth: u32) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' | b'`' | b'<' | b'>' | b'&' => break,
            _ if byte.is_ascii_whitespace() || byte.is_ascii_control() => break,
            b',' | b';' if ends_value(bytes, at + 1) => break,
            b'\\' => match end_of_escape(bytes, at, depth) {
                Some(end) => at = end,
                None => break,
            },
            _ => at += 1,
        }
    }
    // A sentence or a bracket around the value may end with it.
    while at > start
        && matches!(
            bytes[at - 1],
            b')' | b']' | b'}' | b'.' | b',' | b';' | b':'
        )
    {
        at -= 1;
    }
    at
}

/// Whether what follows a comma or semicolon is no part of the value before it.
fn ends_value(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or_default();
    let name_bytes = rest.iter().take_while(|byte| is_name_byte(byte)).count();
    let is_next_name = name_bytes > 0 && matches!(rest.get(name_bytes), Some(b'=' | b':'));
    let is_end = rest
        .first()
        .is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'\\'));
    is_end || is_next_name
}

/// The end of the backslashes at `at` and of what they escape; `None` when a value ends there.
fn end_of_escape(bytes: &[u8], at: usize, depth: u32) -> Option<usize> {
    let run = backslashes(bytes, at);
    let behind = at + run;
    match bytes.get(behind) {
        Some(b'"' | b'\'' | b'`') => None,
        // Whole pairs are backslashes of the value; a single one begins an escape.
        Some(letter) if depth > 0 && run % 2 == 1 => match letter {
            b'u' => {
                let digits = std::str::from_utf8(bytes.get(behind + 1..behind + 5)?).ok()?;
                let is_sign = matches!(
                    u32::from_str_radix(digits, 16).ok()?,
                    0..=0x20 | 0x22 | 0x26 | 0x27 | 0x3c | 0x3e
                );
                (!is_sign).then_some(behind + 5)
            }
            b'/' => Some(behind + 1),
            _ => None,
        },
        _ => Some(behind),
    }
}
