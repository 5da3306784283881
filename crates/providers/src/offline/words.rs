//! From a message to words: what was quoted, what was not, and where the request ends.
//!
//! Quoted text is taken as it stands and is never looked at for instructions. The request is the
//! first paragraph; what follows it is usually text that was piped in or pasted, so it is set
//! aside. Text that another component framed as coming from outside is removed before anything
//! reads it.

/// The most of a message that is read, in bytes.
const MAX_READ: usize = 64 * 1024;
/// The most words of a request; longer ones are prose, not requests this provider understands.
const MAX_WORDS: usize = 400;

/// How a piece of the message was marked as literal text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quote {
    /// Any pair of quotation marks, or backticks.
    Inline,
    /// A block between lines of three backticks.
    Block,
}

/// One word, or one quoted piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// As written, without the marks around it and the punctuation after it.
    pub(super) text: String,
    /// Lower case; empty for quoted text, which is never a keyword.
    pub(super) lower: String,
    /// Whether it was quoted.
    pub(super) quote: Option<Quote>,
    /// The punctuation right after it.
    pub(super) tail: Option<char>,
}

impl Word {
    fn plain(text: &str, tail: Option<char>) -> Self {
        Self {
            text: text.to_owned(),
            lower: text.to_lowercase(),
            quote: None,
            tail,
        }
    }

    /// Whether this is the unquoted word `word`, given in lower case.
    pub(super) fn is(&self, word: &str) -> bool {
        self.quote.is_none() && self.lower == word
    }

    /// Whether this is one of the unquoted `words`, given in lower case.
    pub(super) fn is_one_of(&self, words: &[&str]) -> bool {
        self.quote.is_none() && words.contains(&self.lower.as_str())
    }

    /// Whether the text was marked as literal.
    pub(super) fn is_quoted(&self) -> bool {
        self.quote.is_some()
    }
}

/// A message taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// The words of the request.
    pub(super) words: Vec<Word>,
    /// Whether more text followed that was not read as a request.
    pub(super) has_more: bool,
}

impl Request {
    /// Reads `message`.
    pub(super) fn read(message: &str) -> Self {
        let message = without_frames(message);
        let mut lexer = Lexer {
            rest: message[..message.floor_char_boundary(MAX_READ)].trim(),
            words: Vec::new(),
        };
        lexer.run();
        Self {
            has_more: !lexer.rest.trim().is_empty(),
            words: lexer.words,
        }
    }
}

/// The words joined as they would be said, quoted ones in their marks.
pub(super) fn spoken(words: &[Word]) -> String {
    let said: Vec<String> = words
        .iter()
        .map(|word| match word.quote {
            None => word.text.clone(),
            Some(_) => format!("\"{}\"", word.text),
        })
        .collect();
    said.join(" ")
}

/// `message` without the blocks that were framed as outside text.
fn without_frames(message: &str) -> String {
    const OPENING: &str = "<untrusted_tool_result";
    const CLOSING: &str = "</untrusted_tool_result>";
    let mut kept = String::new();
    let mut rest = message;
    while let Some(start) = rest.find(OPENING) {
        kept.push_str(&rest[..start]);
        // A frame that is not closed frames everything after it.
        let after = rest[start..]
            .find(CLOSING)
            .map(|end| start + end + CLOSING.len());
        rest = after.map_or("", |after| &rest[after..]);
    }
    kept.push_str(rest);
    kept
}

struct Lexer<'a> {
    rest: &'a str,
    words: Vec<Word>,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while self.words.len() < MAX_WORDS {
            let trimmed = self.rest.trim_start();
            let gap = &self.rest[..self.rest.len() - trimmed.len()];
            let ends = gap.matches('\n').count() > 1 && !self.words.is_empty();
            if trimmed.is_empty() || (ends && !trimmed.starts_with("```")) {
                return;
            }
            self.rest = trimmed;
            if self.block() {
                // What follows a block is not the request any more.
                return;
            }
            if !self.quoted() {
                self.word();
            }
        }
    }

    fn block(&mut self) -> bool {
        let Some(inside) = self.rest.strip_prefix("```") else {
            return false;
        };
        let Some((_language, body)) = inside.split_once('\n') else {
            return false;
        };
        let end = if body.starts_with("```") {
            Some(0)
        } else {
            body.find("\n```").map(|end| end + 1)
        };
        let Some(end) = end else {
            return false;
        };
        self.words.push(Word {
            text: body[..end].to_owned(),
            lower: String::new(),
            quote: Some(Quote::Block),
            tail: None,
        });
        self.rest = &body[end + 3..];
        true
    }

    /// Takes a quoted piece, when one starts here and is closed.
    fn quoted(&mut self) -> bool {
        let Some((open, text, rest)) = quoted_piece(self.rest) else {
            return false;
        };
        let tail = rest.chars().next().filter(|next| is_tail(*next));
        self.words.push(Word {
            text: text.replace(&format!("\\{open}"), &open.to_string()),
            lower: String::new(),
            quote: Some(Quote::Inline),
            tail,
        });
        self.rest = &rest[tail.map_or(0, char::len_utf8)..];
        true
    }

    fn word(&mut self) {
        let mut before = ' ';
        let mut end = self.rest.len();
        for (at, character) in self.rest.char_indices() {
            let opens =
                matches!(before, '=' | ':' | '(' | ',') && quoted_piece(&self.rest[at..]).is_some();
            if character.is_whitespace() || opens {
                end = at;
                break;
            }
            before = character;
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let (text, tail) = without_punctuation(word);
        let lower = text.to_lowercase().replace('’', "'");
        for (contracted, full) in CONTRACTIONS {
            if lower == contracted {
                let (last, first) = full.split_last().expect("no contraction is empty");
                self.words
                    .extend(first.iter().map(|word| Word::plain(word, None)));
                self.words.push(Word::plain(last, tail));
                return;
            }
        }
        let text = text
            .strip_suffix("'s")
            .or_else(|| text.strip_suffix("’s"))
            .unwrap_or(text);
        if !text.is_empty() {
            self.words.push(Word::plain(text, tail));
        } else if let (Some(tail), Some(last)) = (tail, self.words.last_mut()) {
            last.tail = Some(tail);
        }
    }
}

const CONTRACTIONS: [(&str, &[&str]); 12] = [
    ("what's", &["what", "is"]),
    ("where's", &["where", "is"]),
    ("who's", &["who", "is"]),
    ("how's", &["how", "is"]),
    ("let's", &["let", "us"]),
    ("don't", &["do", "not"]),
    ("dont", &["do", "not"]),
    ("doesn't", &["does", "not"]),
    ("can't", &["can", "not"]),
    ("cannot", &["can", "not"]),
    ("i'd", &["i", "would"]),
    ("won't", &["will", "not"]),
];

fn is_tail(character: char) -> bool {
    matches!(character, '.' | ',' | ';' | ':' | '!' | '?' | '…' | '=')
}

/// The opening mark, the text inside and what follows the closing mark.
fn quoted_piece(text: &str) -> Option<(char, &str, &str)> {
    let open = text.chars().next()?;
    let close = match open {
        '"' | '`' | '\'' => open,
        '“' => '”',
        '„' => '“',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    };
    let inside = &text[open.len_utf8()..];
    let mut escaped = false;
    for (at, character) in inside.char_indices() {
        // German typography closes with the mark English opens with, and sloppy typing mixes them.
        let closes = character == close || (open == '„' && character == '”');
        let after = &inside[at + character.len_utf8()..];
        // An apostrophe inside a word closes nothing.
        let apostrophe = matches!(character, '\'' | '’')
            && after.chars().next().is_some_and(char::is_alphanumeric);
        if closes && !apostrophe && !(escaped && open == close) {
            return Some((open, &inside[..at], after));
        }
        escaped = character == '\\' && !escaped;
    }
    None
}

/// A word without the punctuation around it, and the first character of what stood behind it.
fn without_punctuation(word: &str) -> (&str, Option<char>) {
    let mut text = word;
    let mut tail = None;
    for (open, close) in [('(', ')'), ('[', ']'), ('<', '>')] {
        if text.starts_with(open) && text.ends_with(close) && open != '[' {
            text = &text[1..text.len() - 1];
        } else if text.starts_with(open) && !text.contains(close) {
            text = &text[1..];
        }
    }
    while let Some(last) = text.chars().next_back() {
        let shorter = &text[..text.len() - last.len_utf8()];
        let unmatched =
            (last == ')' && !shorter.contains('(')) || (last == ']' && !shorter.contains('['));
        // `..` and `src/.` are paths, not ends of sentences.
        let is_path_dot = last == '.' && (shorter.is_empty() || shorter.ends_with(['.', '/']));
        if !(is_tail(last) || unmatched) || is_path_dot {
            break;
        }
        tail = Some(last);
        text = shorter;
    }
    (text, tail)
}
