//! Reads a shell script so strictly that what is read is what every shell would run.
//!
//! The reader of the accident guard passes what it does not understand; this one refuses it, because
//! here a misreading would run a command that nobody was asked about. Where `dash` and `bash` differ,
//! where a word is only known when the script runs, where braces or functions begin: no reading.

mod word;

use std::collections::HashSet;

use word::{UNKNOWN, is_name, is_name_letter};

pub(super) use word::{Word, is_harmless_variable, is_local};

/// How deep substitutions and groups may nest.
const MAX_DEPTH: usize = 8;

/// Words of the grammar that may stand before a command.
const OPENERS: &[&str] = &[
    "if", "then", "elif", "else", "while", "until", "do", "!", "{",
];
/// Words of the grammar that end a group.
const CLOSERS: &[&str] = &["fi", "done", "}"];
/// Constructs whose reading differs between shells, or hides commands from a reader.
const UNREAD: &[&str] = &[
    "case", "esac", "select", "function", "coproc", "[[", "]]", "in",
];

/// A command without its operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    /// `NAME=VALUE` before the command, or alone.
    pub(super) assignments: Vec<(String, Word)>,
    /// Files that are written.
    pub(super) outputs: Vec<Word>,
    /// Files that are read.
    pub(super) inputs: Vec<Word>,
    /// The command whose output it reads: its place in the list.
    pub(super) reads_from: Option<usize>,
}

/// Why there is no reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unread(pub(super) &'static str);

/// Every simple command of `script`, those of substitutions included.
pub(super) fn read(script: &str, home: &str) -> Result<Vec<Simple>, Unread> {
    let mut reader = Reader {
        chars: script.chars().collect(),
        at: 0,
        home,
        depth: 0,
        commands: Vec::new(),
        local_names: HashSet::new(),
        documents: Vec::new(),
    };
    reader.list(None)?;
    Ok(reader.commands)
}

struct Reader<'a> {
    chars: Vec<char>,
    at: usize,
    home: &'a str,
    depth: usize,
    commands: Vec<Simple>,
    /// Variables of loops over files below the working folder.
    local_names: HashSet<String>,
    /// Here-documents whose text starts at the next line.
    documents: Vec<Document>,
}

struct Document {
    delimiter: String,
    is_literal: bool,
    strips_tabs: bool,
}

/// The command that is being read.
#[derive(Default)]
struct Current {
    simple: Simple,
    /// Behind `)`, `fi`, `done` or `}`, where no word may stand.
    is_closed: bool,
}

impl Reader<'_> {
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

    /// Reads commands up to the end, or to the parenthesis that closes.
    fn list(&mut self, closing: Option<char>) -> Result<(), Unread> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Unread("it nests too deep"));
        }
        let mut current = Current::default();
        loop {
            let Some(letter) = self.peek(0) else {
                if closing.is_some() {
                    return Err(Unread("a parenthesis does not close"));
                }
                if !self.documents.is_empty() {
                    return Err(Unread("a here-document does not end"));
                }
                self.end(&mut current, false)?;
                break;
            };
            match letter {
                ' ' | '\t' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') && self.is_behind_blank() => self.at += 2,
                '\n' => {
                    self.at += 1;
                    self.end(&mut current, false)?;
                    self.read_documents()?;
                }
                '#' => {
                    while self.peek(0).is_some_and(|letter| letter != '\n') {
                        self.at += 1;
                    }
                }
                ')' => {
                    if closing != Some(')') {
                        return Err(Unread("a parenthesis closes that did not open"));
                    }
                    if !self.documents.is_empty() {
                        return Err(Unread("a here-document does not end"));
                    }
                    self.at += 1;
                    self.end(&mut current, false)?;
                    break;
                }
                '(' => {
                    let is_fresh = current.simple == Simple::default() && !current.is_closed;
                    if !is_fresh || self.peek(1) == Some('(') {
                        return Err(Unread("it defines a function or computes"));
                    }
                    self.at += 1;
                    self.list(Some(')'))?;
                    current.is_closed = true;
                }
                // `a &> f b` is one command to some shells and two to others.
                '&' if self.peek(1) == Some('>') => {
                    return Err(Unread("it redirects in a way of one shell only"));
                }
                '<' | '>' => self.redirect(&mut current)?,
                ';' if self.peek(1) == Some(';') => {
                    return Err(Unread("it branches over patterns"));
                }
                '|' | '&' | ';' => {
                    let is_list = self.eat("&&") || self.eat("||");
                    let is_pipe = !is_list && (self.eat("|&") || self.eat("|"));
                    self.at += usize::from(!is_list && !is_pipe);
                    self.end(&mut current, is_pipe)?;
                }
                _ => self.take_word(&mut current)?,
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn take_word(&mut self, current: &mut Current) -> Result<(), Unread> {
        let digits = self.chars[self.at..]
            .iter()
            .take_while(|letter| letter.is_ascii_digit())
            .count();
        if digits > 0 && matches!(self.peek(digits), Some('<' | '>')) {
            self.at += digits;
            return Ok(());
        }
        let word = self.word()?;
        let simple = &mut current.simple;
        let is_first = simple.words.is_empty() && simple.assignments.is_empty();
        if is_first && !word.is_quoted {
            let text = word.text.as_str();
            if UNREAD.contains(&text) {
                return Err(Unread("it branches, or is written for one shell only"));
            }
            if CLOSERS.contains(&text) {
                current.is_closed = true;
                return Ok(());
            }
            if OPENERS.contains(&text) && !current.is_closed {
                return Ok(());
            }
        }
        if current.is_closed {
            return Err(Unread("a word stands where none can"));
        }
        if simple.words.is_empty()
            && let Some((name, value)) = word.assigned()
        {
            let value = Word {
                text: value.to_owned(),
                ..word.clone()
            };
            simple.assignments.push((name.to_owned(), value));
        } else {
            simple.words.push(word);
        }
        Ok(())
    }

    /// Ends a command at an operator, at the end of a line or of the list.
    fn end(&mut self, current: &mut Current, is_pipe: bool) -> Result<(), Unread> {
        let simple = std::mem::take(current).simple;
        let is_loop = simple
            .words
            .first()
            .is_some_and(|word| !word.is_quoted && word.text == "for");
        let mut reader = None;
        if is_loop {
            self.loop_over(&simple)?;
        } else if simple != Simple::default() {
            self.commands.push(simple);
            reader = Some(self.commands.len() - 1);
        }
        if is_pipe {
            current.simple.reads_from = reader;
        }
        Ok(())
    }

    /// `for NAME in WORD…`: the words are data.
    fn loop_over(&mut self, header: &Simple) -> Result<(), Unread> {
        let strange = Unread("a loop is written in a way that is not understood");
        let [_, name, rest @ ..] = header.words.as_slice() else {
            return Err(strange);
        };
        let is_plain = header.assignments.is_empty()
            && header.outputs.is_empty()
            && header.inputs.is_empty()
            && is_name(&name.text)
            && !name.is_quoted;
        let is_in = rest
            .first()
            .is_some_and(|word| word.text == "in" && !word.is_quoted);
        if !is_plain || !is_in || !is_harmless_variable(&name.text) {
            return Err(strange);
        }
        let are_local = rest[1..].iter().all(is_local);
        if are_local {
            self.local_names.insert(name.text.clone());
        } else {
            self.local_names.remove(&name.text);
        }
        Ok(())
    }

    fn redirect(&mut self, current: &mut Current) -> Result<(), Unread> {
        if self.peek(1) == Some('(') {
            return Err(Unread("it substitutes a process for a file"));
        }
        if self.eat("<<<") {
            self.blanks();
            let _ = self.word()?;
            return Ok(());
        }
        if self.eat("<<") {
            return self.document();
        }
        if self.eat("<>") {
            return Err(Unread("it opens a file for reading and writing"));
        }
        if self.eat("<&") || self.eat(">&") {
            let is_output = self.chars[self.at - 2] == '>';
            self.blanks();
            let word = self.word()?;
            let is_descriptor = word.text == "-"
                || !word.text.is_empty() && word.text.chars().all(|each| each.is_ascii_digit());
            if is_descriptor && !word.is_quoted {
                return Ok(());
            }
            if !is_output {
                return Err(Unread("it duplicates a file it does not name"));
            }
            current.simple.outputs.push(word);
            return Ok(());
        }
        if self.eat("<") {
            self.blanks();
            let word = self.word()?;
            current.simple.inputs.push(word);
            return Ok(());
        }
        let _ = self.eat(">>") || self.eat(">|") || self.eat(">");
        self.blanks();
        let word = self.word()?;
        current.simple.outputs.push(word);
        Ok(())
    }

    fn is_behind_blank(&self) -> bool {
        self.at > 0 && matches!(self.chars[self.at - 1], ' ' | '\t' | '\n')
    }

    fn blanks(&mut self) {
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    fn document(&mut self) -> Result<(), Unread> {
        let strips_tabs = self.eat("-");
        self.blanks();
        let quote = self.peek(0).filter(|letter| matches!(letter, '\'' | '"'));
        self.at += usize::from(quote.is_some());
        let start = self.at;
        while self
            .peek(0)
            .is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        {
            self.at += 1;
        }
        let delimiter: String = self.chars[start..self.at].iter().collect();
        let closes = match quote {
            Some(quote) => self.eat(&quote.to_string()),
            None => true,
        };
        let ends = matches!(
            self.peek(0),
            None | Some(' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' | ')')
        );
        if delimiter.is_empty() || !closes || !ends {
            return Err(Unread("a here-document has an end that is not plain"));
        }
        self.documents.push(Document {
            delimiter,
            is_literal: quote.is_some(),
            strips_tabs,
        });
        Ok(())
    }

    fn read_documents(&mut self) -> Result<(), Unread> {
        for document in std::mem::take(&mut self.documents) {
            loop {
                if self.at >= self.chars.len() {
                    return Err(Unread("a here-document does not end"));
                }
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
                if line == document.delimiter {
                    break;
                }
                if !document.is_literal && line.contains(['$', '`', '\\']) {
                    return Err(Unread("a here-document is expanded"));
                }
            }
        }
        Ok(())
    }

    /// Reads one word.
    fn word(&mut self) -> Result<Word, Unread> {
        let mut word = Word::default();
        let mut has_brace = false;
        let start = self.at;
        while let Some(letter) = self.peek(0) {
            match letter {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    self.at += 1;
                    word.quote();
                    loop {
                        let inside = self.peek(0).ok_or(Unread("a quote does not close"))?;
                        self.at += 1;
                        if inside == '\'' {
                            break;
                        }
                        word.push(inside)?;
                    }
                }
                '"' => {
                    self.at += 1;
                    word.quote();
                    self.double_quoted(&mut word)?;
                }
                '\\' => {
                    let escaped = self.peek(1).ok_or(Unread("it ends in a backslash"))?;
                    // What stands on both sides of such a line break is one token to a shell.
                    if escaped == '\n' {
                        return Err(Unread("a line break splits a word"));
                    }
                    self.at += 2;
                    word.quote();
                    word.push(escaped)?;
                }
                '$' => self.expansion(&mut word, false)?,
                '`' => return Err(Unread("it substitutes a command with back quotes")),
                '*' | '?' | '[' => {
                    self.at += 1;
                    word.is_glob |= letter != '[' || self.closes_bracket();
                    word.may_be_option |= word.text.is_empty() && word.is_glob;
                    word.push(letter)?;
                }
                '{' | '}' => {
                    self.at += 1;
                    has_brace = true;
                    word.push(letter)?;
                }
                '~' if self.at == start => {
                    if !matches!(
                        self.peek(1),
                        None | Some('/' | ' ' | '\t' | '\n' | ';' | '&' | '|' | ')')
                    ) {
                        return Err(Unread("it names another user's home"));
                    }
                    self.at += 1;
                    word.text.push_str(self.home);
                }
                other => {
                    self.at += 1;
                    word.push(other)?;
                }
            }
        }
        if has_brace && !matches!(word.text.as_str(), "{" | "}" | "{}") {
            return Err(Unread("it has braces that a shell may expand"));
        }
        if self.at == start {
            return Err(Unread("a word is missing"));
        }
        word.may_be_option |= word.text.starts_with('-');
        Ok(word)
    }

    /// Whether a bracket that was just read closes in the same word.
    fn closes_bracket(&self) -> bool {
        self.chars[self.at..]
            .iter()
            .take_while(|letter| !letter.is_whitespace())
            .any(|letter| *letter == ']')
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), Unread> {
        loop {
            match self.peek(0).ok_or(Unread("a quote does not close"))? {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    let escaped = self.peek(1).ok_or(Unread("a quote does not close"))?;
                    self.at += 2;
                    match escaped {
                        '"' | '\\' | '$' | '`' => word.push(escaped)?,
                        '\n' => return Err(Unread("a line break splits a word")),
                        other => {
                            word.push('\\')?;
                            word.push(other)?;
                        }
                    }
                }
                '$' => self.expansion(word, true)?,
                '`' => return Err(Unread("it substitutes a command with back quotes")),
                other => {
                    self.at += 1;
                    word.push(other)?;
                }
            }
        }
    }

    /// `$…`.
    fn expansion(&mut self, word: &mut Word, is_quoted: bool) -> Result<(), Unread> {
        if self.eat("$((") {
            let start = self.at;
            while self.peek(0).is_some_and(|letter| {
                letter.is_ascii_digit() || matches!(letter, ' ' | '+' | '-' | '*' | '/' | '%')
            }) {
                self.at += 1;
            }
            if self.at == start || !self.eat("))") {
                return Err(Unread("it computes with names"));
            }
            word.unknown(is_quoted);
            return Ok(());
        }
        if self.eat("$(") {
            self.list(Some(')'))?;
            word.unknown(is_quoted);
            return Ok(());
        }
        if self.eat("${") {
            let start = self.at;
            let _ = self.eat("#");
            while self.peek(0).is_some_and(is_name_letter) {
                self.at += 1;
            }
            let name: String = self.chars[start..self.at].iter().collect();
            if name.is_empty() || !self.eat("}") {
                return Err(Unread("it changes a variable while expanding it"));
            }
            return self.variable(&name, word, is_quoted);
        }
        self.at += 1;
        match self.peek(0) {
            Some(letter) if is_name_letter(letter) => {
                let start = self.at;
                while self.peek(0).is_some_and(is_name_letter) {
                    self.at += 1;
                }
                let name: String = self.chars[start..self.at].iter().collect();
                self.variable(&name, word, is_quoted)
            }
            Some('?' | '#' | '@' | '*' | '!' | '$' | '-') => {
                self.at += 1;
                word.unknown(is_quoted);
                Ok(())
            }
            Some('\'' | '"') if !is_quoted => Err(Unread("it quotes in a way of one shell only")),
            Some('\\') => Err(Unread("a backslash follows a dollar sign")),
            _ => word.push('$'),
        }
    }

    fn variable(&mut self, name: &str, word: &mut Word, is_quoted: bool) -> Result<(), Unread> {
        match name {
            // The home of Fermix's commands is the user's, and the script cannot set it unseen:
            // only lower-case variables may be set.
            "HOME" if is_quoted || !self.home.contains([' ', '\t', '*', '?', '[']) => {
                word.text.push_str(self.home);
            }
            _ => {
                let is_local = self.local_names.contains(name) && is_quoted;
                let was_known = !word.is_unknown();
                word.unknown(is_quoted);
                word.is_local_name = is_local && was_known && word.text.starts_with(UNKNOWN);
            }
        }
        Ok(())
    }
}
