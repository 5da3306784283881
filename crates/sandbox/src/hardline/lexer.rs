//! A POSIX shell's view of a command: words, operators, and the commands hidden in substitutions.
//!
//! It understands as much as is needed to tell a command from quoted text. What a variable holds is
//! known for the home, the user, the working folder, and what the script itself says.

mod braces;
mod variables;

use std::path::Path;

pub(super) use self::variables::Variables;

/// An unquoted `*` or `?`. These marks are private-use characters, which no command needs.
pub(super) const GLOB: char = '\u{E000}';
/// Something only the shell knows.
pub(super) const UNKNOWN: char = '\u{E001}';
/// The user's name.
pub(super) const USER: char = '\u{E002}';
/// The folder the command runs in.
pub(super) const HERE: char = '\u{E003}';
/// Unquoted braces and the commas between alternatives.
const OPEN: char = '\u{E004}';
const COMMA: char = '\u{E005}';
const CLOSE: char = '\u{E006}';
/// White space that came out of an unquoted variable.
const SPLIT: char = '\u{E007}';
/// Begins a word that names a file whose content follows: `<(echo …)`.
pub(super) const PRINTED: char = '\u{E008}';

/// One word after expansion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// Whether any part of it was quoted; a quoted word is never a keyword.
    pub(super) is_quoted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(Word),
    /// `|` or `|&`.
    Pipe,
    /// `&`.
    Background,
    /// `;`, `&&`, `||`, `;;` or the end of a line.
    Next,
    Open,
    Close,
    /// Where output goes.
    Output(Word),
    /// A here-document or here-string.
    Input(String),
}

/// A command taken apart.
#[derive(Debug, Default)]
pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    /// The text of every command substitution.
    pub(super) nested: Vec<String>,
    /// What the variables hold at the end.
    pub(super) variables: Variables,
}

/// Takes `command` apart; nothing when it is not a complete command. `variables` are those of the
/// script around it.
pub(super) fn lex(command: &str, home: &Path, variables: &Variables) -> Option<Lexed> {
    let mut lexer = Lexer {
        chars: command.chars().collect(),
        at: 0,
        home: home.to_str().unwrap_or("\u{E001}"),
        lexed: Lexed {
            variables: variables.clone(),
            ..Lexed::default()
        },
        documents: Vec::new(),
    };
    lexer.run()?;
    Some(lexer.lexed)
}

struct Lexer<'a> {
    chars: Vec<char>,
    at: usize,
    home: &'a str,
    lexed: Lexed,
    /// Here-documents whose text starts at the next line.
    documents: Vec<Document>,
}

struct Document {
    token: usize,
    delimiter: Word,
    strips_tabs: bool,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = text
            .chars()
            .enumerate()
            .all(|(ahead, letter)| self.peek(ahead) == Some(letter));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn push(&mut self, token: Token) {
        match &token {
            Token::Pipe | Token::Background | Token::Next | Token::Open | Token::Close => {
                self.lexed.variables.end_command();
            }
            Token::Word(_) | Token::Output(_) | Token::Input(_) => {}
        }
        self.lexed.tokens.push(token);
    }

    fn run(&mut self) -> Option<()> {
        while let Some(letter) = self.peek(0) {
            match letter {
                ' ' | '\t' | '\r' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '\n' => {
                    self.at += 1;
                    self.push(Token::Next);
                    self.read_documents();
                }
                '#' => {
                    while self.peek(0).is_some_and(|letter| letter != '\n') {
                        self.at += 1;
                    }
                }
                '<' | '>' => self.redirect()?,
                '&' if matches!(self.peek(1), Some('>')) => {
                    self.at += 1;
                    self.redirect()?;
                }
                '&' | '|' | ';' | '(' | ')' => self.operator(),
                _ => {
                    let is_number = self.is_descriptor();
                    let words = self.words()?;
                    // `2>` redirects a descriptor; the number is not an argument.
                    if !is_number {
                        self.lexed.variables.see(&words);
                        self.lexed.tokens.extend(words.into_iter().map(Token::Word));
                    }
                }
            }
        }
        Some(())
    }

    fn is_descriptor(&self) -> bool {
        let digits = self.chars[self.at..]
            .iter()
            .take_while(|letter| letter.is_ascii_digit())
            .count();
        digits > 0 && matches!(self.peek(digits), Some('<' | '>'))
    }

    fn operator(&mut self) {
        let token = if self.eat("&&") || self.eat("||") || self.eat(";;") || self.eat(";") {
            Token::Next
        } else if self.eat("|&") || self.eat("|") {
            Token::Pipe
        } else if self.eat("&") {
            Token::Background
        } else if self.eat("(") {
            Token::Open
        } else {
            self.at += 1;
            Token::Close
        };
        self.push(token);
    }

    fn redirect(&mut self) -> Option<()> {
        if self.peek(1) == Some('(') {
            // Process substitution is a word of its own.
            self.at += 2;
            let text = self.until_closed()?;
            let printed = super::printed_by(&text, Path::new(self.home), &self.lexed.variables);
            self.lexed.nested.push(text);
            self.push(Token::Word(Word {
                text: printed.map_or_else(
                    || UNKNOWN.to_string(),
                    |printed| format!("{PRINTED}{printed}"),
                ),
                is_quoted: true,
            }));
            return Some(());
        }
        if self.eat("<<<") {
            let word = self.target()?;
            self.push(Token::Input(word.text));
        } else if self.eat("<<") {
            let strips_tabs = self.eat("-");
            let delimiter = self.target()?;
            let token = self.lexed.tokens.len();
            self.push(Token::Input(String::new()));
            self.documents.push(Document {
                token,
                delimiter,
                strips_tabs,
            });
        } else if self.eat("<&") || self.eat("<>") || self.eat("<") {
            self.target()?;
        } else {
            let _ = self.eat(">>") || self.eat(">|") || self.eat(">&") || self.eat(">");
            let target = self.target()?;
            self.push(Token::Output(target));
        }
        Some(())
    }

    fn target(&mut self) -> Option<Word> {
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        // Where there are several, the shell refuses to redirect.
        self.words()?.into_iter().next()
    }

    fn read_documents(&mut self) {
        for document in std::mem::take(&mut self.documents) {
            let mut body = String::new();
            while self.at < self.chars.len() {
                let rest = &self.chars[self.at..];
                let len = rest
                    .iter()
                    .position(|letter| *letter == '\n')
                    .unwrap_or(rest.len());
                let line: String = rest[..len].iter().collect();
                self.at += (len + 1).min(rest.len());
                let line = if document.strips_tabs {
                    line.trim_start_matches('\t')
                } else {
                    &line
                };
                if line == document.delimiter.text {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            if !document.delimiter.is_quoted {
                self.substitutions_of(&body);
            }
            self.lexed.tokens[document.token] = Token::Input(body);
        }
    }

    /// An unquoted here-document is expanded like text in double quotes.
    fn substitutions_of(&mut self, body: &str) {
        let escaped: String = body.replace('"', "\\\"");
        let mut inner = Lexer {
            chars: format!("{escaped}\"").chars().collect(),
            at: 0,
            home: self.home,
            lexed: Lexed {
                variables: self.lexed.variables.clone(),
                ..Lexed::default()
            },
            documents: Vec::new(),
        };
        if inner.double_quoted(&mut String::new()).is_some() {
            self.lexed.nested.append(&mut inner.lexed.nested);
        }
    }

    /// Reads one word, which braces and variables may make into several.
    fn words(&mut self) -> Option<Vec<Word>> {
        let word = self.word()?;
        let is_quoted = word.is_quoted;
        let mut texts: Vec<String> = Vec::new();
        for text in braces::alternatives(&word.text) {
            if text.contains(SPLIT) {
                texts.extend(
                    text.split(SPLIT)
                        .filter(|part| !part.is_empty())
                        .map(str::to_owned),
                );
            } else {
                texts.push(text);
            }
        }
        Some(
            texts
                .into_iter()
                .map(|text| Word { text, is_quoted })
                .collect(),
        )
    }

    /// `~`, `~+` and `~name` at the start of a word or of an assigned value.
    fn tilde(&mut self, text: &mut String) {
        self.at += 1;
        let rest = &self.chars[self.at..];
        let len = rest
            .iter()
            .position(|letter| "/ \t\r\n;&|()<>:'\"$`\\".contains(*letter))
            .unwrap_or(rest.len());
        let name: String = rest[..len].iter().collect();
        let is_own = self.home.rsplit('/').next() == Some(name.as_str());
        match name.as_str() {
            "" => text.push_str(self.home),
            "+" => text.push(HERE),
            "root" => text.push_str("/root"),
            _ if is_own => text.push_str(self.home),
            _ => {
                text.push('~');
                text.push_str(&name);
            }
        }
        self.at += len;
    }

    /// Reads one word, expanding what is known.
    fn word(&mut self) -> Option<Word> {
        let mut word = Word::default();
        while let Some(letter) = self.peek(0) {
            match letter {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    self.at += 1;
                    word.is_quoted = true;
                    loop {
                        let inside = self.peek(0)?;
                        self.at += 1;
                        if inside == '\'' {
                            break;
                        }
                        word.text.push(inside);
                    }
                }
                '"' => {
                    self.at += 1;
                    word.is_quoted = true;
                    self.double_quoted(&mut word.text)?;
                }
                '\\' => {
                    let escaped = self.peek(1)?;
                    self.at += 2;
                    if escaped != '\n' {
                        word.is_quoted = true;
                        word.text.push(escaped);
                    }
                }
                '$' | '`' => self.expansion(&mut word.text, false)?,
                '*' | '?' => {
                    self.at += 1;
                    word.text.push(GLOB);
                }
                '{' | ',' | '}' => {
                    self.at += 1;
                    word.text.push(match letter {
                        '{' => OPEN,
                        ',' => COMMA,
                        _ => CLOSE,
                    });
                }
                '~' if word.text.is_empty() && !word.is_quoted || word.text.ends_with('=') => {
                    self.tilde(&mut word.text);
                }
                other => {
                    self.at += 1;
                    word.text.push(other);
                }
            }
        }
        Some(word)
    }

    fn double_quoted(&mut self, text: &mut String) -> Option<()> {
        loop {
            match self.peek(0)? {
                '"' => {
                    self.at += 1;
                    return Some(());
                }
                '\\' => {
                    let escaped = self.peek(1)?;
                    self.at += 2;
                    match escaped {
                        '"' | '\\' | '$' | '`' => text.push(escaped),
                        '\n' => {}
                        other => text.extend(['\\', other]),
                    }
                }
                '$' | '`' => self.expansion(text, true)?,
                other => {
                    self.at += 1;
                    text.push(other);
                }
            }
        }
    }

    /// `$…` or a pair of backticks.
    fn expansion(&mut self, text: &mut String, is_quoted: bool) -> Option<()> {
        if self.eat("`") {
            let mut nested = String::new();
            loop {
                let letter = self.peek(0)?;
                self.at += 1;
                match letter {
                    '`' => break,
                    '\\' if matches!(self.peek(0), Some('`' | '\\' | '$')) => {
                        nested.push(self.peek(0)?);
                        self.at += 1;
                    }
                    other => nested.push(other),
                }
            }
            text.push(printed_mark(&nested));
            self.lexed.nested.push(nested);
        } else if self.eat("$((") {
            let inside = self.until_closed()?;
            self.lexed.nested.push(inside);
            self.eat(")");
            text.push(UNKNOWN);
        } else if self.eat("$(") {
            let nested = self.until_closed()?;
            text.push(printed_mark(&nested));
            self.lexed.nested.push(nested);
        } else if self.eat("${") {
            let start = self.at;
            let mut depth = 1;
            while depth > 0 {
                match self.peek(0)? {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                self.at += 1;
            }
            let inside: String = self.chars[start..self.at - 1].iter().collect();
            let name_len = inside
                .find(|letter: char| !is_name(letter))
                .unwrap_or(inside.len());
            let (name, operation) = inside.split_at(name_len);
            // A default does not matter to a variable that is set.
            let is_plain = operation.is_empty() || operation.starts_with([':', '-', '?', '=']);
            if matches!(operation, "%/" | "%%/") {
                let mut value = String::new();
                self.variable(name, &mut value, is_quoted);
                text.push_str(value.strip_suffix('/').unwrap_or(&value));
            } else {
                self.variable(if is_plain { name } else { "" }, text, is_quoted);
            }
        } else {
            self.at += 1;
            let start = self.at;
            while self.peek(0).is_some_and(is_name) {
                self.at += 1;
            }
            if self.at == start {
                match self.peek(0) {
                    Some('@' | '*' | '#' | '?' | '!' | '$' | '-') => {
                        self.at += 1;
                        text.push(UNKNOWN);
                    }
                    // `$'…'` and `$"…"` are quoted text, and a lone `$` is itself.
                    Some('\'' | '"') => {}
                    _ => text.push('$'),
                }
                return Some(());
            }
            let name: String = self.chars[start..self.at].iter().collect();
            self.variable(&name, text, is_quoted);
        }
        Some(())
    }

    fn variable(&self, name: &str, text: &mut String, is_quoted: bool) {
        if let Some(value) = self.lexed.variables.value(name) {
            text.extend(value.chars().map(|letter| match letter {
                '*' | '?' if !is_quoted => GLOB,
                ' ' | '\t' | '\n' if !is_quoted => SPLIT,
                other => other,
            }));
            return;
        }
        match name {
            "HOME" => text.push_str(self.home),
            "PWD" => text.push(HERE),
            "USER" | "LOGNAME" => text.push(USER),
            _ => text.push(UNKNOWN),
        }
    }

    /// The text up to the parenthesis that closes a substitution. Quotes inside may hold others.
    fn until_closed(&mut self) -> Option<String> {
        let start = self.at;
        let mut depth = 1;
        while depth > 0 {
            match self.peek(0)? {
                '(' => depth += 1,
                ')' => depth -= 1,
                '\\' => self.at += 1,
                quote @ ('\'' | '"') => {
                    self.at += 1;
                    while self.peek(0)? != quote {
                        if quote == '"' && self.peek(0) == Some('\\') {
                            self.at += 1;
                        }
                        self.at += 1;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        Some(self.chars.get(start..self.at - 1)?.iter().collect())
    }
}

/// What a substitution gives, where that is known.
fn printed_mark(command: &str) -> char {
    match command.trim() {
        "pwd" | "pwd -P" | "pwd -L" => HERE,
        "whoami" | "id -un" | "logname" => USER,
        _ => UNKNOWN,
    }
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
