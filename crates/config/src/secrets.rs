//! Which keys are secrets, and what they are called.
//!
//! The list comes from the table of keys: a key of a secret kind is in it, with the name under
//! which a store keeps it.

use crate::schema::{self, KeyDoc};

/// One secret that Fermix knows.
#[derive(Clone, Copy)]
pub struct SecretDoc {
    row: &'static KeyDoc,
    item: &'static str,
}

impl SecretDoc {
    pub(crate) fn of(row: &'static KeyDoc) -> Option<Self> {
        Some(Self {
            row,
            item: row.item()?,
        })
    }

    /// What people call it: the provider.
    pub fn name(&self) -> &'static str {
        let sections = self
            .key()
            .rsplit_once('.')
            .map_or("", |(section, _)| section);
        sections.rsplit('.').next().unwrap_or(sections)
    }

    /// The name of the entry in a store, written like an environment variable.
    pub fn item(&self) -> &'static str {
        self.item
    }

    /// The key of `config.toml`.
    pub fn key(&self) -> &'static str {
        self.row.path()
    }

    /// The environment variable that wins over the file, if there is one.
    pub fn variable(&self) -> Option<&'static str> {
        self.row.variable()
    }
}

impl std::fmt::Debug for SecretDoc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretDoc({})", self.item)
    }
}

impl PartialEq for SecretDoc {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for SecretDoc {}

/// No secret has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no secret of Fermix{}; known: {known}", match suggestion {
    Some(nearest) => format!("; did you mean `{nearest}`?"),
    None => String::new(),
})]
pub struct UnknownSecret {
    /// What was given.
    pub name: String,
    /// The nearest name.
    pub suggestion: Option<String>,
    /// Every name.
    pub known: String,
}

/// Every secret, in the order of the table.
pub fn all() -> impl Iterator<Item = SecretDoc> + Clone {
    schema::keys().filter_map(SecretDoc::of)
}

/// The secret called `name`: a provider, the name of its environment variable, or its key.
///
/// # Errors
/// When there is none. A text that may be a value instead of a name is not repeated.
pub fn find(name: &str) -> Result<SecretDoc, UnknownSecret> {
    let name = name.trim();
    let found = all().find(|secret| {
        secret.name().eq_ignore_ascii_case(name)
            || secret.item().eq_ignore_ascii_case(name)
            || secret.key() == name
    });
    found.ok_or_else(|| {
        let names: Vec<&str> = all().map(|secret| secret.name()).collect();
        UnknownSecret {
            name: if is_plausible(name) { name } else { "that" }.to_owned(),
            suggestion: schema::nearest(name, &names),
            known: names.join(", "),
        }
    })
}

/// Whether `text` looks like a name. A key that was given in the place of one must not be shown.
fn is_plausible(text: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'.' | b'-');
    text.len() <= 48 && text.bytes().all(is_name_byte)
        || text.len() <= 32
            && text
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}
