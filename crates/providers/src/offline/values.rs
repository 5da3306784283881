//! What a word can be: a path, a glob, a kind of file, an address, a date, a number.

use jiff::civil::{Date, Time};

use super::words::Word;

/// Words for kinds of files, and the glob that finds them.
const KINDS: [(&[&str], &str); 30] = [
    (&["rust", "rs"], "*.rs"),
    (&["python", "py"], "*.py"),
    (&["toml"], "*.toml"),
    (&["json"], "*.json"),
    (&["yaml", "yml"], "*.{yaml,yml}"),
    (&["markdown", "md"], "*.md"),
    (&["text", "txt"], "*.txt"),
    (&["javascript", "js"], "*.js"),
    (&["typescript", "ts"], "*.ts"),
    (&["html"], "*.html"),
    (&["css"], "*.css"),
    (&["shell", "bash", "sh"], "*.sh"),
    (&["c"], "*.c"),
    (&["c++", "cpp"], "*.{cpp,cc,cxx,hpp}"),
    (&["header", "h"], "*.{h,hpp}"),
    (&["java"], "*.java"),
    (&["go", "golang"], "*.go"),
    (&["ruby", "rb"], "*.rb"),
    (&["php"], "*.php"),
    (&["pdf", "pdfs"], "*.pdf"),
    (&["csv"], "*.csv"),
    (&["xml"], "*.xml"),
    (&["sql"], "*.sql"),
    (&["log", "logs"], "*.log"),
    (&["lock"], "*.lock"),
    (&["word", "docx"], "*.docx"),
    (&["excel", "xlsx"], "*.xlsx"),
    (&["png"], "*.png"),
    (&["svg"], "*.svg"),
    (
        &["image", "images", "picture", "pictures", "photo", "photos"],
        "*.{png,jpg,jpeg,gif,webp}",
    ),
];

/// Files people call by a word, the name they usually have, and the glob that finds them.
const FAMILIAR: [(&[&str], &str, &str); 8] = [
    (&["readme"], "README.md", "**/{README,Readme,readme}*"),
    (
        &["license", "licence"],
        "LICENSE",
        "**/{LICENSE,LICENCE,License,COPYING}*",
    ),
    (
        &["changelog"],
        "CHANGELOG.md",
        "**/{CHANGELOG,Changelog,changelog}*",
    ),
    (&["contributing"], "CONTRIBUTING.md", "**/CONTRIBUTING*"),
    (
        &["makefile"],
        "Makefile",
        "**/{Makefile,makefile,GNUmakefile}",
    ),
    (&["dockerfile"], "Dockerfile", "**/Dockerfile*"),
    (&["gitignore", ".gitignore"], ".gitignore", "**/.gitignore"),
    (&["architecture"], "ARCHITECTURE.md", "**/ARCHITECTURE*"),
];

/// Two words with a slash between that are no path.
const ALTERNATIVES: [&str; 6] = ["and/or", "he/she", "his/her", "read/write", "yes/no", "i/o"];

/// The glob for a kind of file named by a word, with or without a leading dot or `*.`.
pub(super) fn kind_glob(word: &Word) -> Option<&'static str> {
    if word.is_quoted() {
        return None;
    }
    let name = word.lower.trim_start_matches("*.").trim_start_matches('.');
    KINDS
        .iter()
        .find(|(names, _)| names.contains(&name))
        .map(|(_, glob)| *glob)
}

/// A file people call by a word: its usual name and the glob that finds it.
pub(super) fn familiar(word: &Word) -> Option<(&'static str, &'static str)> {
    FAMILIAR
        .iter()
        .find(|(names, ..)| names.contains(&word.lower.as_str()))
        .map(|(_, name, glob)| (*name, *glob))
}

/// Whether the text is a pattern for file names.
pub(super) fn is_glob(text: &str) -> bool {
    let brackets = text.contains('[') && text.contains(']');
    let braces = text.contains('{') && text.contains('}');
    !text.contains(char::is_whitespace)
        && !is_url(text)
        && (text.contains('*')
            || (text.contains('?') && text.contains('.'))
            || ((brackets || braces) && text.contains('.')))
}

/// An extension written with its dot: `.toml`.
pub(super) fn is_extension(text: &str) -> bool {
    text.strip_prefix('.').is_some_and(|name| {
        (1..=8).contains(&name.len()) && name.chars().all(|each| each.is_ascii_alphanumeric())
    })
}

/// Whether an unquoted word reads like a path or a file name.
pub(super) fn is_path(text: &str) -> bool {
    if is_url(text) || is_email(text) || is_glob(text) || text.contains(char::is_control) {
        return false;
    }
    if ALTERNATIVES.contains(&text.to_lowercase().as_str()) {
        return false;
    }
    if text.contains('/') {
        return text.chars().any(|each| each != '/') || text == "/";
    }
    if text == "." || text == ".." || text == "~" {
        return true;
    }
    let Some((stem, extension)) = text.rsplit_once('.') else {
        return false;
    };
    let named = (1..=10).contains(&extension.len())
        && extension
            .chars()
            .all(|each| each.is_ascii_alphanumeric() || each == '_')
        && extension.chars().any(|each| each.is_ascii_alphabetic());
    // `.env` and `.gitignore` are names; `e.g` and `i.e` are not.
    named && (stem.is_empty() || stem.chars().count() > 1 || extension.len() > 1)
}

/// Whether the word can stand for a path: it reads like one, or it was quoted and could be one.
pub(super) fn path_of(word: &Word) -> Option<&str> {
    let fits = match word.quote {
        None => is_path(&word.text),
        Some(_) => {
            !word.text.trim().is_empty()
                && word.text.len() <= 4096
                && !word.text.contains(['\n', '\0'])
                && !is_url(&word.text)
                && !is_glob(&word.text)
        }
    };
    fits.then_some(word.text.as_str())
}

/// Whether a word looks like a name from source code.
pub(super) fn is_identifier(text: &str) -> bool {
    let characters_fit = text
        .chars()
        .all(|each| each.is_alphanumeric() || matches!(each, '_' | ':' | '.' | '(' | ')' | '!'));
    let starts_well = text.starts_with(|each: char| each.is_alphabetic() || each == '_');
    let hump = text
        .chars()
        .zip(text.chars().skip(1))
        .any(|(before, here)| before.is_lowercase() && here.is_uppercase());
    let shouted = text.len() > 2 && text.chars().all(|each| each.is_ascii_uppercase());
    characters_fit
        && starts_well
        && (text.contains('_') || text.contains("::") || text.contains("()") || hump || shouted)
}

/// Whether the text is an http address.
pub(super) fn is_url(text: &str) -> bool {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty())
}

/// Whether the text is a mail address.
pub(super) fn is_email(text: &str) -> bool {
    let Some((user, host)) = text.split_once('@') else {
        return false;
    };
    !user.is_empty()
        && !user.contains(['/', ':'])
        && host.contains('.')
        && !host.starts_with('.')
        && host
            .chars()
            .all(|each| each.is_alphanumeric() || matches!(each, '.' | '-'))
}

/// A date in the form `2027-01-31`.
pub(super) fn date(text: &str) -> Option<Date> {
    (text.len() == 10 && text.as_bytes()[4] == b'-').then(|| text.parse().ok())?
}

/// A time of day in the form `9:30`, `09:30` or `09:30:00`.
pub(super) fn time(text: &str) -> Option<Time> {
    let (hour, rest) = text.split_once(':')?;
    if hour.is_empty() || hour.len() > 2 || rest.len() < 2 {
        return None;
    }
    format!("{hour:0>2}:{rest}").parse().ok()
}

/// A date with a time in one word, as written.
pub(super) fn is_moment(text: &str) -> bool {
    text.len() >= 16
        && text.get(..10).and_then(date).is_some()
        && text[10..].starts_with('T')
        && text.get(11..16).and_then(time).is_some()
}

/// Whether the text is a value rather than a word: an address, a moment, a number, a setting.
pub(super) fn is_value(text: &str) -> bool {
    is_email(text)
        || is_url(text)
        || is_moment(text)
        || date(text).is_some()
        || time(text).is_some()
        || text.contains('=')
        || (text.starts_with(|each: char| each.is_ascii_digit()) && text.parse::<f64>().is_ok())
}

/// A whole number above zero, in digits or a small one in words.
pub(super) fn count(word: &Word) -> Option<u64> {
    const WORDS: [&str; 10] = [
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    ];
    if word.is_quoted() {
        return None;
    }
    let number = word.lower.parse().ok().or_else(|| {
        (1u64..)
            .zip(WORDS)
            .find(|(_, name)| *name == word.lower)
            .map(|(number, _)| number)
    });
    number.filter(|number| (1..=10_000_000).contains(number))
}

/// The last part of a path.
pub(super) fn base_name(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

/// `text` as a glob that matches nothing but itself.
pub(super) fn glob_literal(text: &str) -> String {
    let mut glob = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            glob.push('[');
            glob.push(character);
            glob.push(']');
        } else {
            glob.push(character);
        }
    }
    glob
}
