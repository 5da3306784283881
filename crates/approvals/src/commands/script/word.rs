//! One word of a script, as far as it is known before the script runs.

use super::Unread;

/// Stands in a word's text for what is only known when the script runs.
pub(super) const UNKNOWN: char = '\u{FFFD}';

/// One word, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct Word {
    /// What is known of it, with [`UNKNOWN`] for the rest.
    pub(in crate::commands) text: String,
    /// Whether file names may take its place.
    pub(in crate::commands) is_glob: bool,
    /// Whether it may turn out to be, or to contain, an option.
    pub(in crate::commands) may_be_option: bool,
    /// Whether what is unknown about it is the name of a file below the working folder.
    pub(in crate::commands) is_local_name: bool,
    pub(super) is_quoted: bool,
    /// Where the first quote stood.
    pub(super) quoted_from: Option<usize>,
}

impl Word {
    /// A word that is what it says, as a program gets it without a shell.
    pub(in crate::commands) fn exactly(text: &str) -> Self {
        Self {
            may_be_option: text.starts_with('-'),
            text: text.to_owned(),
            is_quoted: true,
            quoted_from: Some(0),
            ..Self::default()
        }
    }

    /// Anything at all.
    pub(in crate::commands) fn anything(is_local_name: bool) -> Self {
        Self {
            text: UNKNOWN.to_string(),
            may_be_option: true,
            is_local_name,
            ..Self::default()
        }
    }

    /// The text, when the word is exactly that.
    pub(in crate::commands) fn literal(&self) -> Option<&str> {
        (!self.is_glob && !self.text.contains(UNKNOWN)).then_some(self.text.as_str())
    }

    /// Whether some of it is only known when the script runs.
    pub(in crate::commands) fn is_unknown(&self) -> bool {
        self.text.contains(UNKNOWN)
    }

    pub(super) fn assigned(&self) -> Option<(&str, &str)> {
        let (name, value) = self.text.split_once('=')?;
        let is_bare = self.quoted_from.is_none_or(|quote| quote > name.len());
        (is_bare && is_name(name)).then_some((name, value))
    }
}

impl Word {
    pub(super) fn push(&mut self, letter: char) -> Result<(), Unread> {
        let is_strange = letter.is_control() && !matches!(letter, '\n' | '\t');
        if is_strange || letter == UNKNOWN {
            return Err(Unread("it has characters that cannot be seen"));
        }
        self.text.push(letter);
        Ok(())
    }

    pub(super) fn quote(&mut self) {
        self.is_quoted = true;
        if self.quoted_from.is_none() {
            self.quoted_from = Some(self.text.len());
        }
    }

    pub(super) fn unknown(&mut self, is_quoted: bool) {
        // Without quotes, one expansion may give several words.
        self.may_be_option |= self.text.is_empty() || !is_quoted;
        self.is_glob |= !is_quoted;
        self.is_local_name = false;
        self.text.push(UNKNOWN);
    }
}

/// Whether everything a word may stand for lies below the working folder.
pub(in crate::commands) fn is_local(word: &Word) -> bool {
    if word.is_unknown() {
        // `"$f"/..` leads out again, and so does `"$f"./` for a file called `.`.
        let behind = word.text.trim_start_matches(UNKNOWN);
        let goes_on =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '_' | '-');
        let is_extension = behind
            .strip_prefix('.')
            .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_alphanumeric()));
        let is_plain = behind.is_empty() || behind.starts_with(goes_on) || is_extension;
        return word.is_local_name && is_plain && !behind.split('/').any(|part| part == "..");
    }
    let has_parent = word.text.split('/').any(|part| {
        part == ".." || word.is_glob && part.starts_with('.') && part.contains(['*', '?', '['])
    });
    !word.text.starts_with('/') && !has_parent
}

/// Whether setting a variable changes nothing but the script's own words: names in capitals may mean
/// something to the shell or to the programs it starts.
pub(in crate::commands) fn is_harmless_variable(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_lowercase())
        && name
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
        && !name.ends_with("_proxy")
}

pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|letter: char| letter.is_ascii_digit())
        && text.chars().all(is_name_letter)
}

pub(super) fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
