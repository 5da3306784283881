//! Where a secret is kept, and the word in `config.toml` that says so.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::{UnknownName, closed_names};

closed_names! {
    /// A place that keeps secrets.
    SecretStore, "secret store", {
        /// The keyring of the person's desktop session, over the Secret Service.
        Keyring = "keyring",
        /// Encrypted files below the Fermix home.
        File = "file",
    }
}

impl SecretStore {
    /// What stands in `config.toml` in the place of a secret that this store keeps.
    pub const fn sentinel(self) -> &'static str {
        match self {
            Self::Keyring => "@keyring",
            Self::File => "@file",
        }
    }

    /// The store that `text`, the value of a secret key, names.
    pub fn from_sentinel(text: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|store| store.sentinel() == text)
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Keyring => Self::File,
            Self::File => Self::Keyring,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentinel_names_its_store_and_nothing_else_does() {
        for store in SecretStore::ALL {
            assert_eq!(SecretStore::from_sentinel(store.sentinel()), Some(*store));
            assert_eq!(SecretStore::from_sentinel(store.as_str()), None);
        }
        assert_eq!(SecretStore::from_sentinel("@Keyring"), None);
        assert_eq!(SecretStore::from_sentinel("@vault"), None);
    }
}
