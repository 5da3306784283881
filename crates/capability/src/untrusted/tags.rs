//! Breaks everything in a text that a reader could take for a tag that only Fermix may write.
//!
//! The text is read the way a lenient reader would: letter case, width and look-alikes folded,
//! entities and escapes decoded, white space and invisible characters skipped. Where that reading
//! shows `<`, an optional `/` and the tag's name, the stretch is replaced by one that reads as a
//! different tag, with a space after the `<`.

use unicode_normalization::UnicodeNormalization;

/// A tag that only Fermix may write, and what stands where a text imitates it.
#[derive(Clone, Copy, Debug)]
pub struct ReservedTag {
    /// The tag's name as the lenient reading sees it: lower-case letters alone, since separators
    /// are skipped like white space.
    pub letters: &'static str,
    /// In the place of an imitated opening tag.
    pub opening: &'static str,
    /// In the place of an imitated closing tag.
    pub closing: &'static str,
}

/// How often an entity inside an entity (`&amp;lt;`) is decoded.
const MAX_NESTED: usize = 4;
/// The longest entity or escape that is decoded, in bytes, zeros before a number not counted.
const MAX_ESCAPE_BYTES: usize = 16;

/// `text` with every imitation of `tag` broken; `None` when it holds none.
pub(super) fn broken(text: &str, tag: &ReservedTag) -> Option<String> {
    let mut output = String::new();
    let mut copied = 0;
    let mut place = 0;
    let mut reader = Reader {
        letters: tag.letters.as_bytes(),
        open: None,
        matched: 0,
    };
    while place < text.len() {
        if reader.open.is_none() {
            // Nothing else can begin a tag.
            let plain = |byte: &u8| byte.is_ascii() && !b"<&\\%".contains(byte);
            place += text.as_bytes()[place..]
                .iter()
                .take_while(|byte| plain(byte))
                .count();
            if place == text.len() {
                break;
            }
        }
        let start = place;
        let (character, length) = next_unit(&text[place..]);
        place += length;
        let found = if character.is_ascii() {
            reader.see(character, start)
        } else {
            // Ligatures stand for more than one letter.
            character
                .nfkd()
                .fold(None, |found, part| reader.see(part, start).or(found))
        };
        if let Some(imitation) = found {
            output.push_str(&text[copied..imitation.start]);
            output.push_str(if imitation.closes {
                tag.closing
            } else {
                tag.opening
            });
            copied = place;
        }
    }
    if copied == 0 {
        return None;
    }
    output.push_str(&text[copied..]);
    Some(output)
}

struct Imitation {
    start: usize,
    closes: bool,
}

/// What was read since the latest `<`. That character is not part of the name, so after a
/// mismatch there is never an earlier beginning to come back to.
struct Reader {
    letters: &'static [u8],
    open: Option<Imitation>,
    matched: usize,
}

impl Reader {
    /// Takes one more character, which begins at `start`; the tag, once its name is complete.
    fn see(&mut self, character: char, start: usize) -> Option<Imitation> {
        let seen = folded(character)?;
        if seen == '<' {
            self.matched = 0;
            self.open = Some(Imitation {
                start,
                closes: false,
            });
            return None;
        }
        let tag = self.open.as_mut()?;
        if seen == '/' && self.matched == 0 {
            tag.closes = true;
        } else if seen == char::from(self.letters[self.matched]) {
            self.matched += 1;
            if self.matched == self.letters.len() {
                self.matched = 0;
                return self.open.take();
            }
        } else {
            self.open = None;
        }
        None
    }
}

/// The first character of `text` as a decoder would show it, and how many bytes it takes.
fn next_unit(text: &str) -> (char, usize) {
    let mut characters = text.chars();
    let Some(first) = characters.next() else {
        return (' ', 1);
    };
    let decoded = match first {
        '&' => entity(text, 0),
        '\\' => escape(text),
        '%' => percent(text),
        _ => None,
    };
    decoded.unwrap_or((first, first.len_utf8()))
}

/// `&lt;`, `&#60;`, `&#x3C;`, with or without the semicolon, also with the `&` written as an
/// entity itself. Zeros before a number mean nothing and may be any number of them.
fn entity(text: &str, nested: usize) -> Option<(char, usize)> {
    let (character, length) = entity_body(text.strip_prefix('&')?, nested)?;
    Some((character, 1 + length))
}

/// What follows the `&`, and how many bytes of it.
fn entity_body(body: &str, nested: usize) -> Option<(char, usize)> {
    if let Some(number) = body.strip_prefix('#') {
        let (digits, radix, before) = match number.strip_prefix(['x', 'X']) {
            Some(digits) => (digits, 16, 2),
            None => (number, 10, 1),
        };
        let zeros = leading_zeros(digits);
        let digits = &digits[zeros..];
        let shown = fermix_types::text::prefix(digits, MAX_ESCAPE_BYTES);
        let length = shown
            .find(|character: char| !character.is_digit(radix))
            .unwrap_or(shown.len());
        let code = match &shown[..length] {
            "" if zeros > 0 => 0,
            digits => u32::from_str_radix(digits, radix).ok()?,
        };
        let character = char::from_u32(code)?;
        let semicolon = usize::from(digits[length..].starts_with(';'));
        let length = before + zeros + length + semicolon;
        return Some(chained(body, character, length, nested));
    }
    let name = fermix_types::text::prefix(body, MAX_ESCAPE_BYTES);
    let length = name
        .find(|character: char| !character.is_ascii_alphanumeric())
        .unwrap_or(name.len());
    let name = name[..length].to_ascii_lowercase();
    let (known, character) = [
        ("newline", '\n'),
        ("zerowidthspace", ' '),
        ("lowbar", '_'),
        ("underbar", '_'),
        ("hyphen", '-'),
        ("nbsp", ' '),
        ("ensp", ' '),
        ("emsp", ' '),
        ("zwnj", ' '),
        ("zwj", ' '),
        ("shy", ' '),
        ("tab", '\t'),
        ("sol", '/'),
        ("amp", '&'),
        ("lt", '<'),
        ("gt", '>'),
    ]
    .into_iter()
    .find(|(known, _)| name.starts_with(known))?;
    let semicolon = usize::from(body[known.len()..].starts_with(';'));
    Some(chained(body, character, known.len() + semicolon, nested))
}

/// Goes on when what was decoded is the `&` of a further entity.
fn chained(body: &str, character: char, length: usize, nested: usize) -> (char, usize) {
    if character != '&' || nested >= MAX_NESTED {
        return (character, length);
    }
    match entity_body(&body[length..], nested + 1) {
        Some((inner, inner_length)) => (inner, length + inner_length),
        None => (character, length),
    }
}

fn leading_zeros(digits: &str) -> usize {
    digits.bytes().take_while(|digit| *digit == b'0').count()
}

/// `\u003c`, `\u{3c}` (with any number of zeros) and `\x3c`.
fn escape(text: &str) -> Option<(char, usize)> {
    let body = text.strip_prefix('\\')?;
    if let Some(braced) = body.strip_prefix("u{") {
        let zeros = leading_zeros(braced);
        let digits = &braced[zeros..];
        let end = fermix_types::text::prefix(digits, 8).find('}')?;
        let code = match &digits[..end] {
            "" if zeros > 0 => 0,
            digits => u32::from_str_radix(digits, 16).ok()?,
        };
        return Some((char::from_u32(code)?, 3 + zeros + end + 1));
    }
    let digits = match body.chars().next()? {
        'u' => 4,
        'x' => 2,
        'n' | 'r' | 't' => return Some((' ', 2)),
        _ => return None,
    };
    let code = u32::from_str_radix(body.get(1..1 + digits)?, 16).ok()?;
    Some((char::from_u32(code)?, 2 + digits))
}

fn percent(text: &str) -> Option<(char, usize)> {
    let code = u8::from_str_radix(text.get(1..3)?, 16).ok()?;
    code.is_ascii().then(|| (char::from(code), 3))
}

/// A character in compatibility form as the lenient reading sees it; `None` for what it does not see at all.
fn folded(character: char) -> Option<char> {
    if character.is_ascii() {
        return match character {
            '_' | '-' | '\\' => None,
            other if other.is_ascii_whitespace() || other.is_ascii_control() => None,
            other => Some(other.to_ascii_lowercase()),
        };
    }
    match character.to_lowercase().next().unwrap_or(character) {
        '\u{2039}' | '\u{2329}' | '\u{27E8}' | '\u{3008}' | '\u{276E}' | '\u{2770}'
        | '\u{02C2}' | '\u{1438}' | '\u{276C}' | '\u{29FC}' | '\u{16B2}' => Some('<'),
        '\u{2044}' | '\u{2215}' | '\u{2571}' | '\u{29F8}' | '\u{1735}' | '\u{27CB}' => Some('/'),
        // Letters of other alphabets that look like those of the tags' names.
        'ѡ' | 'ԝ' | 'ω' | 'ш' => Some('w'),
        'к' | 'κ' => Some('k'),
        'а' | 'α' => Some('a'),
        'е' | 'ε' | '\u{04BD}' => Some('e'),
        'о' | 'ο' | '\u{0585}' | '\u{0131}' => Some('o'),
        'ѕ' | '\u{A731}' => Some('s'),
        'т' | 'τ' => Some('t'),
        'г' | '\u{0280}' => Some('r'),
        'ԁ' => Some('d'),
        'п' | 'ո' | 'η' => Some('n'),
        'υ' | 'ս' | 'ц' => Some('u'),
        'ӏ' | 'ⅼ' | 'ι' => Some('l'),
        other if other.is_whitespace() || is_invisible(other) => None,
        other => Some(other),
    }
}

/// Characters that leave no mark of their own: joiners, marks, fillers, selectors.
fn is_invisible(character: char) -> bool {
    unicode_normalization::char::is_combining_mark(character)
        || matches!(
            character,
            '\u{00AD}'
                | '\u{061C}'
                | '\u{115F}'
                | '\u{1160}'
                | '\u{17B4}'
                | '\u{17B5}'
                | '\u{180B}'..='\u{180F}'
                | '\u{200B}'..='\u{200F}'
                | '\u{2010}'..='\u{2015}'
                | '\u{202A}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{3164}'
                | '\u{FE00}'..='\u{FE0F}'
                | '\u{FEFF}'
                | '\u{FFA0}'
                | '\u{FFF9}'..='\u{FFFB}'
                | '\u{1D173}'..='\u{1D17A}'
                | '\u{E0000}'..='\u{E01EF}'
                | '\u{2800}'
        )
}
