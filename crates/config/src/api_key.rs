//! A provider's key, which never shows itself.

use std::fmt;

use fermix_types::SecretStore;
use secrecy::{ExposeSecret, SecretString};

/// The longest key that is accepted, in bytes. Keys are short; a whole file pasted by mistake is not.
const MAX_KEY: usize = 8192;

/// A provider's key. `Debug` and `Display` hide it and its memory is wiped on drop.
#[derive(Clone)]
pub struct ApiKey(SecretString);

/// Text that cannot be a key. The text itself is not repeated: it may be most of a real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidApiKey {
    /// Nothing but white space.
    #[error("the key is blank; remove the line or give the key")]
    Blank,
    /// White space, a control character, or a character outside ASCII: a header could not carry it.
    #[error("the key has white space or other characters a key never has; paste it again")]
    BadCharacter,
    /// More than 8192 bytes.
    #[error("the key is longer than {MAX_KEY} bytes; paste the key alone")]
    TooLong,
    /// It begins with `@`: a reference, which must not be sent to a provider as if it were a key.
    #[error(
        "a value that begins with `@` names a secret store: `@keyring` and `@file` do so in config.toml alone; give \
         the key itself, or keep it with `fermix secrets set`"
    )]
    Reference,
}

impl ApiKey {
    /// Takes `text` without the white space around it.
    pub fn new(text: &str) -> Result<Self, InvalidApiKey> {
        let text = text.trim();
        if text.is_empty() {
            return Err(InvalidApiKey::Blank);
        }
        if text.len() > MAX_KEY {
            return Err(InvalidApiKey::TooLong);
        }
        if text.starts_with('@') {
            return Err(InvalidApiKey::Reference);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidApiKey::BadCharacter);
        }
        Ok(Self(SecretString::from(text)))
    }

    /// The key itself, for the request header.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// What the settings say about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySetting {
    /// The key itself, from the environment or as plain text.
    Text(ApiKey),
    /// The store that keeps it. The key is read when it is needed.
    Stored(SecretStore),
}

impl KeySetting {
    /// Reads the value of a secret key of the file.
    pub(crate) fn from_file(text: &str) -> Result<Self, InvalidApiKey> {
        match SecretStore::from_sentinel(text.trim()) {
            Some(store) => Ok(Self::Stored(store)),
            None => ApiKey::new(text).map(Self::Text),
        }
    }

    /// The key, when the settings hold it.
    pub fn text(&self) -> Option<&ApiKey> {
        match self {
            Self::Text(key) => Some(key),
            Self::Stored(_) => None,
        }
    }

    /// The store that keeps the key, when the settings only name it.
    pub fn store(&self) -> Option<SecretStore> {
        match self {
            Self::Text(_) => None,
            Self::Stored(store) => Some(*store),
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey([hidden])")
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl PartialEq for ApiKey {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for ApiKey {}
