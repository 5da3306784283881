//! Secrets in the file: where each one is, and how plain text becomes the name of a store.

use std::path::Path;

use fermix_types::SecretStore;

use super::ConfigFile;
use crate::api_key::{ApiKey, KeySetting};
use crate::edit;
use crate::error::{ConfigError, EditError};
use crate::load;
use crate::schema::SettingValue;
use crate::secrets::{self, SecretDoc};

/// What the file says about a secret. No store is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// Nothing.
    Absent,
    /// The value itself.
    Plain,
    /// The store that keeps it.
    Stored(SecretStore),
}

/// A secret that stands in the file as plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainSecret {
    /// Which one.
    pub secret: SecretDoc,
    /// Its value.
    pub value: ApiKey,
}

impl ConfigFile {
    /// Where the file says that `secret` is.
    ///
    /// # Errors
    /// When its value is none that the key accepts.
    pub fn secret_place(&self, secret: SecretDoc) -> Result<SecretPlace, EditError> {
        let setting = setting(&self.text, secret, &self.path)?;
        Ok(match setting {
            None => SecretPlace::Absent,
            Some(KeySetting::Text(_)) => SecretPlace::Plain,
            Some(KeySetting::Stored(store)) => SecretPlace::Stored(store),
        })
    }

    /// The secrets that stand in the file as plain text.
    ///
    /// # Errors
    /// When a secret's value is none that its key accepts.
    pub fn plain_secrets(&self) -> Result<Vec<PlainSecret>, EditError> {
        let mut found = Vec::new();
        for secret in secrets::all() {
            if let Some(KeySetting::Text(value)) = setting(&self.text, secret, &self.path)? {
                found.push(PlainSecret { secret, value });
            }
        }
        Ok(found)
    }

    /// Makes the file say that `store` keeps `secret`. Comments stay.
    ///
    /// # Errors
    /// When the file is written in a way that this cannot follow.
    pub fn point_to_store(
        &mut self,
        secret: SecretDoc,
        store: SecretStore,
    ) -> Result<(), EditError> {
        self.text = pointing(&self.text, secret, store)
            .map_err(|edit::Unsupported| self.unsupported(secret.key()))?;
        Ok(())
    }
}

/// Whether a secret's value only names a store.
pub(super) fn is_sentinel(root: &toml_edit::Table, path: &[String]) -> bool {
    let value = edit::find(root, path).and_then(toml_edit::Item::as_str);
    value.is_some_and(|text| SecretStore::from_sentinel(text.trim()).is_some())
}

fn path_of(secret: SecretDoc) -> Vec<String> {
    secret.key().split('.').map(str::to_owned).collect()
}

fn pointing(
    text: &str,
    secret: SecretDoc,
    store: SecretStore,
) -> Result<String, edit::Unsupported> {
    let value = SettingValue::Text(store.sentinel().to_owned());
    edit::set(text, &path_of(secret), &value.to_string())
}

fn setting(text: &str, secret: SecretDoc, path: &Path) -> Result<Option<KeySetting>, ConfigError> {
    let document = load::parse(text, path)?;
    let Some(item) = edit::find(document.as_table(), &path_of(secret)) else {
        return Ok(None);
    };
    let refused = |reason: String| ConfigError::Unreadable {
        path: path.to_owned(),
        reason: format!("`{}`: {reason}", secret.key()),
    };
    match SettingValue::from_item(item) {
        Ok(SettingValue::Text(value)) => KeySetting::from_file(&value)
            .map(Some)
            .map_err(|error| refused(error.to_string())),
        Ok(_) | Err(_) => Err(refused("it is not a string; correct it".to_owned())),
    }
}

/// `old` as the backup of a file that now says `new`: a plain-text secret that has left the file
/// does not stay behind in the backup.
pub(super) fn backup(old: &str, new: &str, path: &Path) -> Result<String, ConfigError> {
    let mut kept = old.to_owned();
    for secret in secrets::all() {
        // What no key accepts is no secret that was ever in use, and a file may be mended by
        // removing it.
        let Ok(Some(KeySetting::Text(value))) = setting(old, secret, path) else {
            continue;
        };
        let changed = match setting(new, secret, path) {
            Ok(Some(KeySetting::Text(same))) if same == value => continue,
            Ok(Some(KeySetting::Stored(store))) => pointing(&kept, secret, store),
            Ok(Some(KeySetting::Text(_)) | None) | Err(_) => edit::unset(&kept, &path_of(secret))
                .map(|text| text.unwrap_or_else(|| kept.clone())),
        };
        kept = changed.map_err(|edit::Unsupported| ConfigError::Unreadable {
            path: path.to_owned(),
            reason: format!(
                "`{}` cannot be kept out of the backup; write it in its section's usual form",
                secret.key()
            ),
        })?;
    }
    Ok(kept)
}
