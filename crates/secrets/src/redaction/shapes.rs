//! What secrets of well-known services look like.
//!
//! A shape begins at a word boundary, so that `risk-based` is not an `sk-` key. A key
//! also begins where only a regular expression sees the middle of a word: after a JSON escape
//! (`\n`), a percent escape (`%20`), a terminal's colour code, and a letter of another script,
//! since not every language puts a space there.

use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;

use super::{Found, assignments};

/// What may stand before a key; not part of it.
const WORD_BEGINS: &str =
    r"(?:\b|\\[nrtbf]|\\u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?:\x1b|\\u001[bB])\[[0-9;]*m)";

/// Names of HTTP parameters whose values never reach a log.
const PARAMETERS: &[&str] = &[
    "password",
    "secret",
    "token",
    "access_token",
    "refresh_token",
    "bot_token",
    "verify_token",
    "_csrf_token",
    "t",
    "key",
    "api_key",
    "apikey",
    "client_secret",
    "sig",
    "signature",
    "x-amz-signature",
    "x-amz-security-token",
    "x-goog-signature",
];

/// Whether the value of the HTTP parameter `name` never reaches a log.
pub fn is_secret_parameter(name: &str) -> bool {
    PARAMETERS
        .iter()
        .any(|parameter| parameter.eq_ignore_ascii_case(name))
}

struct Shape {
    label: &'static str,
    hint: Hint,
    before: Before,
    /// What is replaced.
    pattern: &'static str,
}

/// What must stand before the replaced part, and stays.
#[derive(Clone, Copy)]
enum Before {
    /// The pattern says it all.
    Anything,
    /// A word begins with this, which may be empty.
    Word(&'static str),
    /// This text.
    Text(&'static str),
    /// The name of a secret parameter in an address or a form.
    ParameterName,
}

/// What every text with this shape has, so that most texts are never searched for it.
#[derive(Clone, Copy)]
enum Hint {
    /// One of these, in either case.
    Literals(&'static [&'static str]),
    /// What this function sees.
    Seen(fn(&str) -> bool),
}

/// A shape that begins a word.
const fn key(
    label: &'static str,
    literals: &'static [&'static str],
    pattern: &'static str,
) -> Shape {
    Shape {
        label,
        hint: Hint::Literals(literals),
        before: Before::Word(""),
        pattern,
    }
}

const SHAPES: &[Shape] = &[
    // A block without its end is a secret up to the end of the text.
    Shape {
        label: "private-key",
        hint: Hint::Literals(&["private key"]),
        before: Before::Anything,
        pattern: r"(?s:-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}.*?(?:-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5}|\z))",
    },
    // The end of a block whose beginning was cut off: long lines of base64, the last one shorter.
    Shape {
        label: "private-key",
        hint: Hint::Literals(&["private key"]),
        before: Before::Anything,
        pattern: r"(?-u:[A-Za-z0-9+/=]*(?:(?:[ \t\r\n]|\\[rn])+[A-Za-z0-9+/=]{32,})*(?:[ \t\r\n]|\\[rn])*[A-Za-z0-9+/=]*(?:[ \t\r\n]|\\[rn])*-{4,5} ?END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{4,5})",
    },
    key("openai", &["sk-"], r"sk-[A-Za-z0-9_-]{16,}"),
    key(
        "github",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        r"gh[pousr]_[A-Za-z0-9_]{20,}",
    ),
    key("github", &["github_pat_"], r"github_pat_[A-Za-z0-9_]{20,}"),
    key(
        "slack",
        &["xox", "xapp-"],
        r"(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10,}",
    ),
    key("aws", &["akia", "asia"], r"(?:AKIA|ASIA)[A-Z0-9]{16,}"),
    key("xai", &["xai-"], r"xai-[A-Za-z0-9_-]{20,}"),
    key("google", &["aiza"], r"AIza[A-Za-z0-9_-]{30,}"),
    // The service's own addresses put `bot` right before the token.
    Shape {
        label: "telegram",
        hint: Hint::Seen(has_digits_before_colon),
        before: Before::Word("(?:bot)?"),
        pattern: r"[0-9]{6,}(?::|%3[Aa])[A-Za-z0-9_-]{30,}",
    },
    Shape {
        label: "bearer",
        hint: Hint::Literals(&["bearer"]),
        before: Before::Word(r"(?i:bearer)(?:[ \t]|%20|\+)+"),
        pattern: r"[A-Za-z0-9._~+/=%-]{20,}",
    },
    key(
        "jwt",
        &["eyj"],
        r"eyJ[A-Za-z0-9_-]{6,}\.eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}",
    ),
    key("gitlab", &["glpat-"], r"glpat-[A-Za-z0-9_.-]{16,}"),
    key("npm", &["npm_"], r"npm_[A-Za-z0-9]{20,}"),
    key("huggingface", &["hf_"], r"hf_[A-Za-z0-9]{20,}"),
    key(
        "stripe",
        &["k_live_", "k_test_"],
        r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}",
    ),
    // A user id of 17 to 20 digits in base64, a time, a signature.
    Shape {
        label: "discord",
        hint: Hint::Seen(has_six_between_dots),
        before: Before::Word(""),
        pattern: r"[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    },
    Shape {
        label: "credentials",
        hint: Hint::Seen(|text| text.contains('@') && text.contains("://")),
        before: Before::Text("://"),
        pattern: r#"[^\s/?#"'<>\\:@]*:[^\s/?#"'<>\\]+@"#,
    },
    Shape {
        label: "parameter",
        hint: Hint::Seen(has_secret_parameter),
        before: Before::ParameterName,
        pattern: r#"[^&\s"'<>#\\]+"#,
    },
];

/// Six digits before a colon, plain or percent-encoded.
fn has_digits_before_colon(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(index, byte)| {
        matches!(byte, b':' | b'%')
            && index >= 6
            && bytes[index - 6..index].iter().all(u8::is_ascii_digit)
    })
}

/// A dot, six characters of a token, and another dot.
fn has_six_between_dots(text: &str) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    text.as_bytes()
        .windows(8)
        .any(|window| window[0] == b'.' && window[7] == b'.' && window[1..7].iter().all(is_token))
}

/// The name of a secret parameter between what ends the one before it and its value.
fn has_secret_parameter(text: &str) -> bool {
    text.match_indices('=').any(|(end, _)| {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let name_bytes = text.as_bytes()[..end]
            .iter()
            .rev()
            .take_while(|byte| is_name(byte))
            .count();
        let (before, name) = text[..end].split_at(end - name_bytes);
        // Where JSON writes an ampersand as an escape, its digits look like a part of the name.
        let name = name.strip_prefix("u0026").unwrap_or(name);
        before.ends_with(['?', '&', ';', '\\']) && is_secret_parameter(name)
    })
}

/// The shapes, each compiled when a text first hints at it: compiling them all takes longer than
/// answering a question may.
pub(super) struct Shapes {
    hints: AhoCorasick,
    /// The shape that each pattern of `hints` belongs to; those behind them are names.
    hinted: Vec<usize>,
    compiled: Vec<OnceLock<Regex>>,
}

impl Shapes {
    pub(super) fn new() -> Self {
        let mut literals: Vec<&str> = Vec::new();
        let mut hinted = Vec::new();
        for (index, shape) in SHAPES.iter().enumerate() {
            if let Hint::Literals(of_shape) = shape.hint {
                literals.extend(of_shape);
                hinted.extend(of_shape.iter().map(|_| index));
            }
        }
        literals.extend(assignments::NAMES);
        let hints = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            // Quick to build, and quick enough to search.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(literals)
            .expect("a few short constants are within every limit");
        Self {
            hints,
            hinted,
            compiled: SHAPES.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// The secrets in `text`, in any order, maybe overlapping.
    pub(super) fn find(&self, text: &str) -> Vec<Found> {
        let mut wanted = [false; SHAPES.len()];
        let mut names = Vec::new();
        for hint in self.hints.find_overlapping_iter(text) {
            match self.hinted.get(hint.pattern().as_usize()) {
                Some(shape) => wanted[*shape] = true,
                None => names.push(hint.end()),
            }
        }
        let mut found = Vec::new();
        for ((shape, compiled), hinted) in SHAPES.iter().zip(&self.compiled).zip(wanted) {
            let seen = matches!(shape.hint, Hint::Seen(sees) if sees(text));
            if !hinted && !seen {
                continue;
            }
            let pattern = compiled.get_or_init(|| {
                Regex::new(&shape.source()).expect("the shapes are constants, and a test uses each")
            });
            found.extend(pattern.captures_iter(text).filter_map(|captures| {
                captures.get(1).map(|secret| Found {
                    place: within_its_string(text, secret.range()),
                    label: shape.label,
                })
            }));
        }
        // Last, so that of two labels for one place the one that says more is taken.
        found.extend(assignments::find(text, &names));
        found
    }
}

/// `place`, or the part of it before the quote that ends its string, when it reaches the end of a
/// record of JSON: a key whose end was cut off must not take the record's own closing with it.
fn within_its_string(text: &str, place: Range<usize>) -> Range<usize> {
    let is_record = || text.trim_start().starts_with(['{', '[']);
    if place.end < text.len() || !is_record() {
        return place;
    }
    let mut is_escaped = false;
    let quote = text[place.clone()].bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    match quote {
        Some(length) => place.start..place.start + length,
        None => place,
    }
}

impl Shape {
    /// The whole pattern; its first group is what is replaced.
    fn source(&self) -> String {
        let pattern = self.pattern;
        // Boundaries and classes are ASCII's: a letter of another script ends a word.
        match self.before {
            Before::Anything => format!("({pattern})"),
            Before::Word(start) => format!("(?-u:{WORD_BEGINS}{start}({pattern}))"),
            Before::Text(text) => format!("{text}({pattern})"),
            Before::ParameterName => {
                let names: Vec<String> =
                    PARAMETERS.iter().map(|name| regex::escape(name)).collect();
                format!(
                    r"(?i-u:(?:[?&;]|\\u0026)(?:{})=)({pattern})",
                    names.join("|")
                )
            }
        }
    }
}
