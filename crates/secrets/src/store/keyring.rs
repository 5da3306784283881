//! The keyring of the desktop session, over the Secret Service of D-Bus.
//!
//! An entry is found by its attributes `service`, `account` and `env` in the default collection. A
//! locked collection is never unlocked on behalf of a background process: that would raise a dialog
//! on somebody's screen.

use std::collections::HashMap;

use async_trait::async_trait;
use fermix_types::SecretStore;
use secrecy::{ExposeSecret as _, SecretString};
use secret_service::{Collection, EncryptionType, Error, SecretService};
use zeroize::Zeroizing;

use super::{Attendance, Backend, MAX_VALUE, SecretError, StoreState};
use crate::item::Item;

const LABEL: &str = "Fermix";
const ACCOUNT: &str = "fermix";
const CONTENT_TYPE: &str = "text/plain";

/// The keyring. It connects anew for each use: a session bus may come and go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keyring;

#[async_trait]
impl Backend for Keyring {
    async fn state(&self) -> StoreState {
        match probe().await {
            Ok(true) => StoreState::Locked,
            Ok(false) => StoreState::Ready,
            Err(error) => StoreState::Unavailable(reason(&error)),
        }
    }

    async fn read(&self, item: &Item) -> Result<Option<SecretString>, SecretError> {
        let service = connect().await?;
        let collection = collection(&service, Attendance::Nobody).await?;
        let found = collection
            .search_items(attributes(item))
            .await
            .map_err(failed)?;
        let Some(entry) = found.first() else {
            return Ok(None);
        };
        let bytes = Zeroizing::new(entry.get_secret().await.map_err(failed)?);
        let text = std::str::from_utf8(&bytes)
            .ok()
            .filter(|text| text.len() <= MAX_VALUE)
            .ok_or_else(|| unavailable("its entry holds no text of ours; set the secret again"))?;
        Ok(Some(SecretString::from(text)))
    }

    async fn write(
        &self,
        item: &Item,
        value: &SecretString,
        attendance: Attendance,
    ) -> Result<(), SecretError> {
        let service = connect().await?;
        let collection = collection(&service, attendance).await?;
        let value = value.expose_secret().as_bytes();
        collection
            .create_item(LABEL, attributes(item), value, true, CONTENT_TYPE)
            .await
            .map_err(failed)?;
        Ok(())
    }

    async fn remove(&self, item: &Item, attendance: Attendance) -> Result<bool, SecretError> {
        let service = connect().await?;
        let collection = collection(&service, attendance).await?;
        let found = collection
            .search_items(attributes(item))
            .await
            .map_err(failed)?;
        for entry in &found {
            entry.delete().await.map_err(failed)?;
        }
        Ok(!found.is_empty())
    }
}

/// Whether the default collection is locked. Reads a property and nothing else.
async fn probe() -> Result<bool, Error> {
    let service = SecretService::connect(EncryptionType::Plain).await?;
    service.get_default_collection().await?.is_locked().await
}

async fn connect() -> Result<SecretService<'static>, SecretError> {
    // The value crosses the bus encrypted: a monitor of the bus must not see it.
    SecretService::connect(EncryptionType::Dh)
        .await
        .map_err(failed)
}

/// The default collection, unlocked.
async fn collection<'s>(
    service: &'s SecretService<'static>,
    attendance: Attendance,
) -> Result<Collection<'s>, SecretError> {
    let collection = service.get_default_collection().await.map_err(failed)?;
    if collection.is_locked().await.map_err(failed)? {
        match attendance {
            Attendance::Nobody => return Err(SecretError::Locked),
            Attendance::Person => collection.unlock().await.map_err(failed)?,
        }
        if collection.is_locked().await.map_err(failed)? {
            return Err(SecretError::Locked);
        }
    }
    Ok(collection)
}

fn attributes(item: &Item) -> HashMap<&str, &str> {
    HashMap::from([
        ("service", item.prefix()),
        ("account", ACCOUNT),
        ("env", item.name()),
    ])
}

fn failed(error: Error) -> SecretError {
    match error {
        Error::Locked | Error::Prompt | Error::PromptDisconnected => SecretError::Locked,
        other => unavailable(&reason(&other)),
    }
}

fn reason(error: &Error) -> String {
    match error {
        Error::NoResult => {
            "it has no default collection; make one with your desktop's password manager".to_owned()
        }
        Error::Unavailable | Error::ZbusFdo(_) => {
            "no Secret Service answers on the session bus".to_owned()
        }
        Error::Zbus(_) => "there is no session bus, or no Secret Service answers on it".to_owned(),
        Error::Crypto(_) | Error::Zvariant(_) => {
            "the Secret Service did not speak as it should".to_owned()
        }
        Error::Locked | Error::Prompt | Error::PromptDisconnected => {
            "it was not unlocked".to_owned()
        }
        // The library may add kinds.
        _ => "the Secret Service did not answer".to_owned(),
    }
}

fn unavailable(reason: &str) -> SecretError {
    SecretError::Unavailable {
        store: SecretStore::Keyring,
        reason: reason.to_owned(),
    }
}
