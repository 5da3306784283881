//! The secrets of a home: which stores it has, reading what they keep, and moving plain text into
//! them.

use std::borrow::Cow;
use std::sync::Arc;

use fermix_capability::ResultScreen;
use fermix_config::secrets::SecretDoc;
use fermix_config::{Config, ConfigFile, EditError, Home, KeySetting, PlainSecret, ProviderId};
pub use fermix_secrets::{
    Attendance, Choice, ExposeSecret, Redactor, SecretError, SecretString, StoreState, Vault,
};
use fermix_secrets::{StoredSecret, TooManySecrets};
use fermix_types::SecretStore;
use tokio::task::JoinSet;

/// The stores of `home`. Touches neither.
pub fn vault(home: &Home, config: &Config, redactor: Arc<Redactor>) -> Vault {
    Vault::new(home.secrets(), &config.profile, redactor)
}

/// What became of the plain-text secrets of a file.
#[derive(Debug, Default)]
pub struct Migration {
    /// Those that a store keeps now. The file says so once it is saved.
    pub moved: Vec<SecretDoc>,
    /// The store they went to.
    pub store: Option<SecretStore>,
    /// What the owner should know about the choice of the store.
    pub notice: Option<String>,
    /// Those that stay as plain text, and why.
    pub kept: Vec<(SecretDoc, SecretError)>,
}

/// Moves every plain-text secret of `file` into a store and makes the file point there. Nothing of
/// the file is saved here. A secret that a store does not take stays as it is.
///
/// # Errors
/// When the file is written in a way that the change cannot follow.
pub async fn migrate(
    file: &mut ConfigFile,
    vault: &Vault,
    named: Option<SecretStore>,
    attendance: Attendance,
) -> Result<Migration, EditError> {
    let plain = file.plain_secrets()?;
    if plain.is_empty() {
        return Ok(Migration::default());
    }
    let Choice { store, notice } = vault.choose(named).await;
    let mut migration = Migration {
        store: Some(store),
        notice,
        ..Migration::default()
    };
    for PlainSecret { secret, value } in plain {
        let value = SecretString::from(value.expose());
        let written = vault.write(store, secret.item(), &value, attendance).await;
        match written {
            Ok(()) => {
                file.point_to_store(secret, store)?;
                migration.moved.push(secret);
            }
            Err(error) => migration.kept.push((secret, error)),
        }
    }
    Ok(migration)
}

/// The secrets that the configuration only names, to be read when they are needed.
pub(crate) fn stored(config: &Config, vault: &Vault) -> Vec<StoredSecret> {
    keys(config)
        .filter_map(|(secret, setting)| Some(vault.stored(setting.store()?, secret.item())))
        .collect()
}

/// Makes the keys that the configuration itself holds known to `redactor`.
pub(crate) fn announce(config: &Config, redactor: &Redactor) -> Result<(), TooManySecrets> {
    let values: Vec<SecretString> = keys(config)
        .filter_map(|(_, setting)| setting.text())
        .map(|key| key.expose().into())
        .collect();
    redactor.add_values(&values)
}

/// The names of the secrets that stand in the configuration as plain text, and the store of each of
/// the others.
pub(crate) fn places(config: &Config) -> (Vec<&'static str>, Vec<SecretStore>) {
    let mut plain = Vec::new();
    let mut stored = Vec::new();
    for (secret, setting) in keys(config) {
        match setting.store() {
            Some(store) => stored.push(store),
            None => plain.push(secret.name()),
        }
    }
    (plain, stored)
}

fn keys(config: &Config) -> impl Iterator<Item = (SecretDoc, &KeySetting)> {
    fermix_config::secrets::all().filter_map(|secret| {
        let provider: ProviderId = secret.name().parse().ok()?;
        Some((secret, config.providers.get(provider).api_key.as_ref()?))
    })
}

/// Asks for all of them at once. Each has its own deadline, and one that fails says so in the log
/// and is asked again when it is needed.
pub(crate) async fn read_all(secrets: &[StoredSecret]) {
    let mut reads = JoinSet::new();
    for secret in secrets {
        let secret = secret.clone();
        reads.spawn(async move { drop(secret.value().await) });
    }
    while reads.join_next().await.is_some() {}
}

/// Reads all of them anew: the owner has changed one.
pub(crate) async fn refresh_all(secrets: &[StoredSecret]) {
    let mut reads = JoinSet::new();
    for secret in secrets {
        let secret = secret.clone();
        reads.spawn(async move { secret.refresh().await });
    }
    while reads.join_next().await.is_some() {}
}

/// Takes the values of known secrets out of what tools answer.
pub(crate) struct KnownSecrets(pub(crate) Arc<Redactor>);

impl ResultScreen for KnownSecrets {
    fn screen<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.redact_values(text)
    }
}
