//! Changing `config.toml` key by key.

mod plain;

use std::path::{Path, PathBuf};

use toml_edit::Key;

use crate::edit;
use crate::error::{ConfigError, EditError};
use crate::home::Home;
use crate::load;
use crate::schema::{self, Advice, Found, KeyDoc, SettingValue};
use crate::secrets::SecretDoc;
use crate::settings::Config;
use crate::write::{self, Lock};

pub use plain::{PlainSecret, SecretPlace};

/// `config.toml` as text that is being changed. Nothing reaches the disk before [`Self::save`].
#[derive(Debug)]
pub struct ConfigFile {
    home: Home,
    path: PathBuf,
    /// What the file held when it was read; `None` = there was none.
    baseline: Option<String>,
    text: String,
    /// Held from before the file was read, so that no other writer came between.
    lock: Option<Lock>,
}

/// The answer to "what is this key".
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// The file says so.
    Value(SettingValue),
    /// The file has a value, which is a secret.
    Hidden,
    /// The file has none, and this is the default as TOML, or `unset`.
    Default(&'static str),
}

impl ConfigFile {
    /// Reads the file. It must be TOML; whether it is a valid configuration is asked by
    /// [`Self::config`] and by every save, so that a wrong key can be removed with [`Self::unset`].
    pub fn open(home: &Home) -> Result<Self, ConfigError> {
        let path = home.config_file();
        let baseline = load::read_file(&path)?.map(|file| file.text);
        let text = baseline.clone().unwrap_or_default();
        load::parse(&text, &path)?;
        Ok(Self {
            home: home.clone(),
            path,
            baseline,
            text,
            lock: None,
        })
    }

    /// Reads the file to change it now: no other writer comes between this and the end of the
    /// value, so [`Self::save`] never finds a file that another Fermix changed. For a change that
    /// takes a moment; a value that is kept is opened with [`Self::open`]. Waits for the writers
    /// before it, so call it off the executor.
    pub fn open_locked(home: &Home) -> Result<Self, EditError> {
        let lock = write::lock(&home.config_file())?;
        let mut file = Self::open(home)?;
        file.lock = Some(lock);
        Ok(file)
    }

    /// Makes one change as a whole: waits for other writers, reads the file, lets `change` change
    /// it, and saves it. Whether anything was written comes back beside what `change` answered;
    /// when it fails, nothing was. Blocks: call it off the executor.
    pub fn update<T>(
        home: &Home,
        change: impl FnOnce(&mut Self) -> Result<T, EditError>,
    ) -> Result<(T, bool), EditError> {
        let mut file = Self::open_locked(home)?;
        let answer = change(&mut file)?;
        Ok((answer, file.save()?))
    }

    /// Where the file is, or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text with the changes so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text with every secret's value replaced by `"***"`, for showing. The name of a store is no
    /// secret.
    pub fn masked_text(&self) -> Result<String, ConfigError> {
        let mut text = self.text.clone();
        let document = load::parse(&self.text, &self.path)?;
        for row in schema::keys().filter(|row| row.secret()) {
            let path: Vec<String> = row.path().split('.').map(str::to_owned).collect();
            let is_there = edit::find(document.as_table(), &path).is_some();
            if !is_there || plain::is_sentinel(document.as_table(), &path) {
                continue;
            }
            text = edit::set(&text, &path, "\"***\"").map_err(|_| ConfigError::Unreadable {
                path: self.path.clone(),
                reason: "a secret in it cannot be masked; write it in its section's usual form"
                    .to_owned(),
            })?;
        }
        Ok(text)
    }

    /// The configuration the text stands for, without environment and overrides.
    pub fn config(&self) -> Result<Config, ConfigError> {
        Config::from_file_text(&self.text, &self.home)
    }

    /// What the file says about a dotted key.
    pub fn get(&self, key: &str) -> Result<Shown, EditError> {
        let (row, path) = known(key)?;
        let document = load::parse(&self.text, &self.path)?;
        let Some(item) = edit::find(document.as_table(), &path) else {
            return Ok(Shown::Default(row.default()));
        };
        if row.secret() && !plain::is_sentinel(document.as_table(), &path) {
            return Ok(Shown::Hidden);
        }
        match SettingValue::from_item(item) {
            Ok(value) => Ok(Shown::Value(value)),
            Err(found) => Err(bad_value(key, row.kind().reject_type(found))),
        }
    }

    /// What the file says about a whole section, as TOML with every secret masked; empty when it
    /// says nothing. `None` when `key` is no section: [`Self::get`] tells what it is.
    pub fn section(&self, key: &str) -> Result<Option<String>, EditError> {
        let path = parts(key)?;
        if !matches!(schema::look_up(&path), Found::Section) {
            return Ok(None);
        }
        let masked = self.masked_text()?;
        let document = load::parse(&masked, &self.path)?.into_mut();
        Ok(Some(edit::excerpt(&document, &path)))
    }

    /// Sets a dotted key from text: `true`, `5`, a bare or quoted word, `[a, b]`. Secrets are
    /// refused.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), EditError> {
        let (row, path) = known(key)?;
        if let Some(secret) = SecretDoc::of(row) {
            return Err(EditError::Secret {
                key: key.to_owned(),
                name: secret.name(),
            });
        }
        let value = row
            .kind()
            .read_text(text)
            .map_err(|rejected| bad_value(key, rejected))?;
        row.kind()
            .check(&value, &self.home)
            .map_err(|rejected| bad_value(key, rejected))?;
        self.text =
            edit::set(&self.text, &path, &value.to_string()).map_err(|_| self.unsupported(key))?;
        Ok(())
    }

    /// Removes a dotted key, known or not, and the header it leaves with nothing below it unless a
    /// comment is about it. `false` when the file does not have it.
    pub fn unset(&mut self, key: &str) -> Result<bool, EditError> {
        let path = parts(key)?;
        match edit::unset(&self.text, &path) {
            Ok(Some(text)) => {
                self.text = text;
                Ok(true)
            }
            // A key that does not exist at all is more likely a slip than an intention.
            Ok(None) => known(key).map(|_| false),
            Err(edit::Unsupported) => Err(self.unsupported(key)),
        }
    }

    /// Checks the whole text and writes it, mode 0600, atomically, keeping the old file as
    /// `config.toml.bak`, less the plain-text secrets that left it with this change. `false` when there was nothing to write. Blocks: call it off the
    /// executor.
    pub fn save(&mut self) -> Result<bool, EditError> {
        self.config()?;
        if self.text == self.baseline.as_deref().unwrap_or_default() {
            return Ok(false);
        }
        let fresh;
        let lock = match &self.lock {
            Some(held) => held,
            None => {
                fresh = write::lock(&self.path)?;
                &fresh
            }
        };
        let backup = match &self.baseline {
            Some(old) => Some(plain::backup(old, &self.text, &self.path)?),
            None => None,
        };
        write::replace(
            &self.path,
            self.baseline.as_deref(),
            backup.as_deref(),
            &self.text,
            lock,
        )?;
        self.baseline = Some(self.text.clone());
        Ok(true)
    }

    fn unsupported(&self, key: &str) -> EditError {
        EditError::Unsupported {
            key: key.to_owned(),
            path: self.path.clone(),
        }
    }
}

fn bad_value(key: &str, rejected: schema::Rejected) -> EditError {
    EditError::BadValue {
        key: key.to_owned(),
        reason: rejected.reason,
        suggestion: rejected.suggestion,
    }
}

fn parts(key: &str) -> Result<Vec<String>, EditError> {
    match Key::parse(key) {
        Ok(parts) => Ok(parts.iter().map(|part| part.get().to_owned()).collect()),
        Err(_) => Err(EditError::NotAKey {
            key: key.to_owned(),
            reason: "write it as `section.key`, with quotes around a part that has dots, colons or slashes, \
                     for example `fermix_core.models.\"qwen3:32b\".vision`"
                .to_owned(),
        }),
    }
}

fn known(key: &str) -> Result<(&'static KeyDoc, Vec<String>), EditError> {
    let path = parts(key)?;
    match schema::look_up(&path) {
        Found::Key(row, _) => Ok((row, path)),
        Found::Section => Err(EditError::NotAKey {
            key: key.to_owned(),
            reason: "it is a section; name one of its keys".to_owned(),
        }),
        Found::Nothing { .. } => {
            let Advice { suggestion, reason } = schema::advise(&path);
            Err(EditError::Unknown {
                key: key.to_owned(),
                reason,
                suggestion,
            })
        }
    }
}
