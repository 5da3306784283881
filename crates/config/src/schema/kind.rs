//! The types a key can have: what they accept, and how they say no.

use fermix_types::text::shortened;

use super::nearest;
use super::value::{SettingValue, Value};
use crate::api_key::{InvalidApiKey, KeySetting};
use crate::home::Home;

/// The longest list a key takes.
const MAX_LIST: usize = 1000;
/// How much of a refused value is repeated, in bytes.
const SHOWN: usize = 80;

/// The type of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Flag,
    /// A whole number within bounds, both included.
    Count {
        min: u64,
        max: u64,
    },
    /// A number within bounds, both included, in thousandths: `850` stands for 0.85. Whole
    /// thousandths keep the table free of rounding.
    Share {
        min: u16,
        max: u16,
    },
    /// One line of at most `max` characters.
    Line {
        max: usize,
    },
    /// Text of at most `max` characters, line breaks allowed.
    Text {
        max: usize,
    },
    /// One of a closed list. `retired` pairs a name that was once accepted, here or elsewhere, with what to do.
    Choice {
        accepted: &'static [&'static str],
        retired: &'static [(&'static str, &'static str)],
    },
    /// A list of members of a closed list.
    Choices(&'static [&'static str]),
    /// A platform's id: text, or a whole number that is taken as text.
    Id,
    Ids,
    /// The name of an environment variable.
    Variable,
    Variables,
    Arguments,
    Path,
    Paths,
    /// An `http` or `https` address requests are joined to.
    BaseUrl,
    /// An IANA time zone.
    Zone,
    /// The namespace of this home's secrets: part of a file's name and of a keyring's attributes.
    Profile,
    /// A secret; `item` is its name in a store.
    Secret {
        item: &'static str,
    },
}

/// A refusal: why, and the nearest accepted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) reason: String,
    pub(crate) suggestion: Option<String>,
}

impl Rejected {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            suggestion: None,
        }
    }
}

impl Kind {
    pub(super) fn type_text(&self) -> String {
        match self {
            Self::Flag => "boolean".to_owned(),
            Self::Count { min, max } if *max == i64::MAX as u64 => {
                format!("whole number, at least {min}")
            }
            Self::Count { min, max } => format!("whole number, {min} to {max}"),
            Self::Share { min, max } => format!("number, {} to {}", share(*min), share(*max)),
            Self::Line { max } => format!("string, one line, at most {max} characters"),
            Self::Text { max } => format!("string, at most {max} characters"),
            Self::Choice { .. } => "one of a list".to_owned(),
            Self::Choices(_) => "some of a list".to_owned(),
            Self::Id => "string or whole number".to_owned(),
            Self::Ids => "list of strings or whole numbers".to_owned(),
            Self::Variable => "name of an environment variable".to_owned(),
            Self::Variables => "list of names of environment variables".to_owned(),
            Self::Arguments => "list of strings".to_owned(),
            Self::Path => "path starting with `/` or `~/`".to_owned(),
            Self::Paths => "list of paths starting with `/` or `~/`".to_owned(),
            Self::BaseUrl => "http or https address".to_owned(),
            Self::Zone => "IANA time zone".to_owned(),
            Self::Profile => {
                format!("name of at most {MAX_PROFILE} lower-case letters, digits, `-` and `_`")
            }
            Self::Secret { .. } => "secret string, `@keyring` or `@file`".to_owned(),
        }
    }

    pub(super) fn accepted(&self) -> Vec<&'static str> {
        match self {
            Self::Flag => vec!["true", "false"],
            Self::Choice { accepted, .. } | Self::Choices(accepted) => accepted.to_vec(),
            _ => Vec::new(),
        }
    }

    pub(super) fn example(&self) -> &'static str {
        match self {
            Self::Flag => "true",
            Self::Count { .. } => "4096",
            Self::Share { .. } => "0.75",
            Self::Line { .. } => "\"a name\"",
            Self::Text { .. } => "\"some words\"",
            Self::Choice { accepted, .. } => accepted.last().copied().unwrap_or_default(),
            Self::Choices(_) => "[\"dev_tools\"]",
            Self::Id => "\"12345\"",
            Self::Ids => "[\"12345\", \"67890\"]",
            Self::Variable => "\"EDITOR\"",
            Self::Variables => "[\"EDITOR\", \"LESS\"]",
            Self::Arguments => "[\"read\", \"--plain\"]",
            Self::Path => "\"/srv/work\"",
            Self::Paths => "[\"/srv/work\", \"/srv/notes\"]",
            Self::BaseUrl => "\"http://localhost:8080/v1\"",
            Self::Zone => "\"Europe/Berlin\"",
            Self::Profile => "\"work\"",
            Self::Secret { .. } => "\"a-key\"",
        }
    }

    /// What the key expects, as the end of a sentence.
    fn expected(&self) -> String {
        match self {
            Self::Choice { accepted, .. } => format!("accepted: {}", accepted.join(", ")),
            Self::Choices(accepted) => format!("a list of: {}", accepted.join(", ")),
            Self::Flag => "accepted: true, false".to_owned(),
            _ => format!(
                "expected: {}, for example {}",
                self.type_text(),
                self.example()
            ),
        }
    }

    /// Turns the text of a command line or a variable into a value of this type's shape.
    pub(crate) fn read_text(&self, text: &str) -> Result<SettingValue, Rejected> {
        let text = text.trim();
        match self {
            Self::Flag => match text {
                "true" => Ok(SettingValue::Bool(true)),
                "false" => Ok(SettingValue::Bool(false)),
                _ => Err(self.reject_shown(text)),
            },
            Self::Count { .. } => text
                .replace('_', "")
                .parse()
                .map(SettingValue::Integer)
                .map_err(|_| self.reject_shown(text)),
            Self::Share { .. } => text
                .parse::<f64>()
                .map(SettingValue::Number)
                .map_err(|_| self.reject_shown(text)),
            Self::Ids | Self::Variables | Self::Arguments | Self::Paths | Self::Choices(_) => {
                self.read_list(text)
            }
            // A variable that said `@file` would turn an environment into a reader of stores.
            Self::Secret { .. } if text.starts_with('@') => {
                Err(Rejected::new(InvalidApiKey::Reference.to_string()))
            }
            Self::Secret { .. } => Ok(SettingValue::Text(text.to_owned())),
            _ => self.read_word(text).map(SettingValue::Text),
        }
    }

    fn read_list(&self, text: &str) -> Result<SettingValue, Rejected> {
        if let Ok(value) = text.parse::<toml_edit::Value>() {
            return match SettingValue::from_item(&toml_edit::Item::Value(value)) {
                Ok(list @ SettingValue::List(_)) => Ok(list),
                _ => Err(self.reject_shown(text)),
            };
        }
        // Not TOML, so bare words between brackets: `[a, b]`.
        let inside = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let Some(inside) = inside else {
            return Err(self.reject_shown(text));
        };
        let words = inside
            .split(',')
            .map(|word| self.read_word(word.trim()).map(SettingValue::Text));
        words.collect::<Result<_, _>>().map(SettingValue::List)
    }

    /// A bare word stands for itself, a quoted one for what is between the quotes.
    fn read_word(&self, text: &str) -> Result<String, Rejected> {
        if !text.starts_with(['"', '\'']) {
            return Ok(text.to_owned());
        }
        match text.parse::<toml_edit::Value>() {
            Ok(toml_edit::Value::String(inner)) => Ok(inner.value().clone()),
            _ => Err(Rejected::new(format!(
                "{} has a quote that does not close",
                shown(text)
            ))),
        }
    }

    /// Checks a value of the file and gives it the type its field has.
    pub(crate) fn check(&self, value: &SettingValue, home: &Home) -> Result<Value, Rejected> {
        match (self, value) {
            (Self::Flag, SettingValue::Bool(flag)) => Ok(Value::Flag(*flag)),
            (Self::Count { min, max }, SettingValue::Integer(number)) => u64::try_from(*number)
                .ok()
                .filter(|count| (*min..=*max).contains(count))
                .map(Value::Count)
                .ok_or_else(|| self.reject(value)),
            (Self::Share { min, max }, SettingValue::Number(number)) => {
                within(*number, *min, *max).ok_or_else(|| self.reject(value))
            }
            (Self::Share { min, max }, SettingValue::Integer(number)) => {
                within(*number as f64, *min, *max).ok_or_else(|| self.reject(value))
            }
            (Self::Id, SettingValue::Text(_) | SettingValue::Integer(_)) => {
                self.word(value).map(Value::Text)
            }
            (Self::Secret { .. }, SettingValue::Text(text)) => KeySetting::from_file(text)
                .map(Value::Secret)
                .map_err(|error| Rejected::new(error.to_string())),
            (Self::Path, SettingValue::Text(_)) => self.path(value, home).map(Value::Path),
            (Self::Paths, SettingValue::List(items)) => self
                .list(items, |item| Self::Path.path(item, home))
                .map(Value::Paths),
            (Self::Ids, SettingValue::List(items)) => self
                .list(items, |item| Self::Id.word(item))
                .map(Value::List),
            (Self::Variables, SettingValue::List(items)) => self
                .list(items, |item| Self::Variable.word(item))
                .map(Value::List),
            (Self::Choices(accepted), SettingValue::List(items)) => {
                let one = Self::Choice {
                    accepted,
                    retired: &[],
                };
                self.list(items, |item| one.word(item)).map(Value::List)
            }
            (Self::Arguments, SettingValue::List(items)) => self
                .list(items, |item| ARGUMENT.word(item))
                .map(Value::List),
            (
                Self::Line { .. }
                | Self::Text { .. }
                | Self::Choice { .. }
                | Self::Variable
                | Self::BaseUrl
                | Self::Profile
                | Self::Zone,
                SettingValue::Text(_),
            ) => self.word(value).map(Value::Text),
            _ => Err(self.reject(value)),
        }
    }

    fn list<T>(
        &self,
        items: &[SettingValue],
        check: impl Fn(&SettingValue) -> Result<T, Rejected>,
    ) -> Result<Vec<T>, Rejected> {
        if items.len() > MAX_LIST {
            return Err(Rejected::new(format!(
                "has {} entries; at most {MAX_LIST} are accepted",
                items.len()
            )));
        }
        let mut checked = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            checked.push(check(item).map_err(|rejected| Rejected {
                reason: format!("entry {}: {}", index + 1, rejected.reason),
                suggestion: rejected.suggestion,
            })?);
        }
        Ok(checked)
    }

    /// Checks one value that ends up as text.
    fn word(&self, value: &SettingValue) -> Result<String, Rejected> {
        let text = match (self, value) {
            (_, SettingValue::Text(text)) => text.clone(),
            (Self::Id, SettingValue::Integer(number)) => number.to_string(),
            _ => return Err(self.reject(value)),
        };
        let is_text = matches!(self, Self::Text { .. });
        if text.trim().is_empty() && !matches!(self, Self::Text { max: MAX_ARGUMENT }) {
            return Err(Rejected::new(format!(
                "is blank; remove the line or give a value ({})",
                self.expected()
            )));
        }
        let forbidden = |c: char| c.is_control() && !(is_text && matches!(c, '\n' | '\r' | '\t'));
        if text.chars().any(forbidden) {
            return Err(Rejected::new(format!(
                "{} has a control character; remove it",
                shown(&text)
            )));
        }
        match self {
            Self::Line { max } | Self::Text { max } if text.chars().count() > *max => {
                Err(Rejected::new(format!(
                    "has {} characters; at most {max} are accepted",
                    text.chars().count()
                )))
            }
            Self::Choice { accepted, retired } => choose(&text, accepted, retired),
            Self::Variable if !is_variable(&text) => Err(self.reject(value)),
            Self::Profile if !is_profile(&text) => Err(self.reject(value)),
            Self::Id if text.trim() != text => Err(Rejected::new(format!(
                "{} has white space around it; remove it",
                shown(&text)
            ))),
            Self::BaseUrl => base_url(&text).map(|()| text),
            Self::Zone => match jiff::tz::TimeZone::get(&text) {
                Ok(_) => Ok(text),
                Err(_) => Err(self.reject(value)),
            },
            _ => Ok(text),
        }
    }

    fn path(&self, value: &SettingValue, home: &Home) -> Result<std::path::PathBuf, Rejected> {
        let text = self.word(value)?;
        home.expand(&text)
            .map_err(|reason| Rejected::new(format!("{}: {reason}", shown(&text))))
    }

    fn reject(&self, value: &SettingValue) -> Rejected {
        if matches!(value, SettingValue::Number(_)) && !matches!(self, Self::Share { .. }) {
            return self.reject_type("a fraction");
        }
        // A key pasted into the wrong kind of value must not come back in the message.
        let found = match (self, value) {
            (Self::Secret { .. }, _) => "the value".to_owned(),
            (_, SettingValue::Text(text)) => shown(text),
            (_, other) => format!("`{}`", shortened(&other.to_string(), SHOWN)),
        };
        Rejected::new(format!("{found} is not accepted; {}", self.expected()))
    }

    /// The refusal of something that is no value at all, for example a section.
    pub(crate) fn reject_type(&self, found: &str) -> Rejected {
        Rejected::new(format!("is {found}; {}", self.expected()))
    }

    fn reject_shown(&self, text: &str) -> Rejected {
        Rejected::new(format!(
            "{} is not accepted; {}",
            shown(text),
            self.expected()
        ))
    }
}

/// The longest single argument of a helper, in characters. An argument may be empty.
const MAX_ARGUMENT: usize = 4096;
const ARGUMENT: Kind = Kind::Text { max: MAX_ARGUMENT };

/// What is no number at all is within no bounds.
fn within(number: f64, min: u16, max: u16) -> Option<Value> {
    (share(min)..=share(max))
        .contains(&number)
        .then_some(Value::Share(number))
}

fn share(thousandths: u16) -> f64 {
    f64::from(thousandths) / 1000.0
}

fn shown(text: &str) -> String {
    format!("{:?}", shortened(text, SHOWN))
}

fn choose(
    text: &str,
    accepted: &'static [&'static str],
    retired: &'static [(&'static str, &'static str)],
) -> Result<String, Rejected> {
    if accepted.contains(&text) {
        return Ok(text.to_owned());
    }
    if let Some((_, advice)) = retired.iter().find(|(name, _)| *name == text) {
        return Err(Rejected::new(format!(
            "{} is not accepted: {advice}",
            shown(text)
        )));
    }
    Err(Rejected {
        reason: format!(
            "{} is not accepted; accepted: {}",
            shown(text),
            accepted.join(", ")
        ),
        suggestion: nearest(text, accepted),
    })
}

/// The longest name of a profile, in bytes.
const MAX_PROFILE: usize = 32;

fn is_profile(text: &str) -> bool {
    text.len() <= MAX_PROFILE
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
}

/// Whether `text` can be the name of an environment variable (POSIX names).
pub(super) fn is_variable(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well
        && text.len() <= 255
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn base_url(text: &str) -> Result<(), Rejected> {
    let refuse = |why: &str| {
        let address = text.split('@').next_back().unwrap_or_default();
        Err(Rejected::new(format!("{}: {why}", shown(address))))
    };
    let Ok(url) = url::Url::parse(text) else {
        return refuse("not an address; write it as `http://host:port/v1`");
    };
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return refuse("must start with `http://` or `https://` and name a host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("must not hold a user name or password; give the key as `api_key`");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse("must end with the path, without `?` or `#`");
    }
    Ok(())
}
