//! Both stores behind one door, with a deadline for each call, and every value that passes through
//! known to the redactor.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use fermix_types::SecretStore;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Mutex;

use crate::item::Item;
use crate::redaction::Redactor;
use crate::store::file::FileStore;
use crate::store::keyring::Keyring;
use crate::store::{Attendance, Backend, MAX_VALUE, SecretError, StoreState};

/// How long a store may take to say whether it can be used.
const PROBE: Duration = Duration::from_secs(2);
/// How long a store may take when nobody has to be asked.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a person may take to unlock the keyring.
const PERSON: Duration = Duration::from_secs(120);
/// How long a value that was read is used before the store is asked again: a key that was replaced
/// works from then on.
const FRESH: Duration = Duration::from_secs(60);
/// How long a store that failed is left alone, so that not every request waits for it.
const PAUSE: Duration = Duration::from_secs(5);

type HandedOut = HashMap<(SecretStore, String), Weak<Stored>>;

/// The stores of one home. Cloning shares them.
#[derive(Clone)]
pub struct Vault {
    profile: Arc<str>,
    file: Arc<dyn Backend>,
    keyring: Arc<dyn Backend>,
    redactor: Arc<Redactor>,
    /// What was handed out and is still in use, so that one secret is read once for all its users.
    handed_out: Arc<std::sync::Mutex<HandedOut>>,
}

/// Where new secrets go, and what the owner should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The store.
    pub store: SecretStore,
    /// Why it is not the keyring, when nobody chose that.
    pub notice: Option<String>,
}

impl Vault {
    /// The stores of the home whose encrypted files are in `folder`. Touches neither. Values that
    /// are read are added to `redactor`.
    pub fn new(folder: PathBuf, profile: &str, redactor: Arc<Redactor>) -> Self {
        Self {
            profile: profile.into(),
            file: Arc::new(FileStore::new(folder)),
            keyring: Arc::new(Keyring),
            redactor,
            handed_out: Arc::default(),
        }
    }

    /// What knows every value that was read.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    fn backend(&self, store: SecretStore) -> &dyn Backend {
        match store {
            SecretStore::Keyring => &*self.keyring,
            SecretStore::File => &*self.file,
        }
    }

    /// Whether `store` can be used now. Changes nothing and asks nobody.
    pub async fn state(&self, store: SecretStore) -> StoreState {
        let probe = self.backend(store).state();
        tokio::time::timeout(PROBE, probe)
            .await
            .unwrap_or_else(|_| {
                StoreState::Unavailable(format!("it did not answer within {} s", PROBE.as_secs()))
            })
    }

    /// Where a new secret goes: to the store the owner named, else to the keyring when it can be
    /// used, else to the files. Asked once, before anything is written; a write that fails goes
    /// nowhere else.
    pub async fn choose(&self, named: Option<SecretStore>) -> Choice {
        if let Some(store) = named {
            return Choice {
                store,
                notice: None,
            };
        }
        let why = match self.state(SecretStore::Keyring).await {
            StoreState::Ready => {
                return Choice {
                    store: SecretStore::Keyring,
                    notice: None,
                };
            }
            StoreState::Locked => "it is locked".to_owned(),
            StoreState::Unavailable(reason) => reason,
        };
        Choice {
            store: SecretStore::File,
            notice: Some(format!(
                "the keyring is not used because {why}; secrets are kept in encrypted files (`fermix config set \
                 fermix_core.secret_store keyring` insists on the keyring)"
            )),
        }
    }

    /// The value of the secret `name` in `store`.
    ///
    /// # Errors
    /// See [`SecretError`]; no message holds the value.
    pub async fn read(&self, store: SecretStore, name: &str) -> Result<SecretString, SecretError> {
        let item = Item::new(&self.profile, name)?;
        let read = self.backend(store).read(&item);
        let value = within(store, PATIENCE, read).await?;
        let value = value.ok_or_else(|| SecretError::Missing {
            store,
            item: name.to_owned(),
        })?;
        self.redactor.add_values([&value])?;
        Ok(value)
    }

    /// Stores `value` and reads it back. On any error the store may hold the new value or the old
    /// one, and nothing may be made to point at it.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub async fn write(
        &self,
        store: SecretStore,
        name: &str,
        value: &SecretString,
        attendance: Attendance,
    ) -> Result<(), SecretError> {
        let item = Item::new(&self.profile, name)?;
        if value.expose_secret().is_empty() || value.expose_secret().len() > MAX_VALUE {
            return Err(SecretError::BadValue);
        }
        self.redactor.add_values([value])?;
        let write = self.backend(store).write(&item, value, attendance);
        within(store, patience(attendance), write).await?;
        let kept = self.read(store, name).await?;
        if kept.expose_secret() == value.expose_secret() {
            Ok(())
        } else {
            Err(SecretError::NotKept { store })
        }
    }

    /// Removes the secret `name` from `store`; `false` when it was not there.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub async fn remove(
        &self,
        store: SecretStore,
        name: &str,
        attendance: Attendance,
    ) -> Result<bool, SecretError> {
        let item = Item::new(&self.profile, name)?;
        let removal = self.backend(store).remove(&item, attendance);
        within(store, patience(attendance), removal).await
    }

    /// A secret that is read when it is needed. The same secret is read once for all who hold it.
    pub fn stored(&self, store: SecretStore, name: &str) -> StoredSecret {
        let mut handed_out = self
            .handed_out
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = handed_out.get(&(store, name.to_owned()));
        if let Some(secret) = known.and_then(Weak::upgrade) {
            return StoredSecret(secret);
        }
        let secret = Arc::new(Stored {
            vault: self.clone(),
            store,
            name: name.to_owned(),
            last: Mutex::default(),
        });
        handed_out.insert((store, name.to_owned()), Arc::downgrade(&secret));
        StoredSecret(secret)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({})", self.profile)
    }
}

fn patience(attendance: Attendance) -> Duration {
    match attendance {
        Attendance::Nobody => PATIENCE,
        Attendance::Person => PERSON,
    }
}

async fn within<T>(
    store: SecretStore,
    patience: Duration,
    work: impl Future<Output = Result<T, SecretError>>,
) -> Result<T, SecretError> {
    tokio::time::timeout(patience, work)
        .await
        .unwrap_or_else(|_| {
            Err(SecretError::TimedOut {
                store,
                seconds: patience.as_secs(),
            })
        })
}

/// A secret of a store that is read when it is first needed, and again from time to time. Cloning
/// shares what was read.
#[derive(Clone)]
pub struct StoredSecret(Arc<Stored>);

struct Stored {
    vault: Vault,
    store: SecretStore,
    name: String,
    /// Held while the store is asked, so that it is asked once.
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    value: Option<SecretString>,
    /// When the value was read.
    read: Option<Instant>,
    /// When the store failed last, and how, if it has not worked since.
    failure: Option<(Instant, SecretError)>,
}

impl StoredSecret {
    /// The secret's own name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Reads the value anew, whatever was read before. A store that cannot be read keeps what it gave.
    pub async fn refresh(&self) {
        {
            let mut last = self.0.last.lock().await;
            last.read = None;
            last.failure = None;
        }
        // A failure is in the log, and told to whoever needs the value.
        drop(self.value().await);
    }

    /// The value. A store that fails later does not take away what it gave before.
    ///
    /// # Errors
    /// When the store has never given the value and cannot now.
    pub async fn value(&self) -> Result<SecretString, SecretError> {
        let stored = &*self.0;
        let mut last = stored.last.lock().await;
        let is_fresh = last.read.is_some_and(|read| read.elapsed() < FRESH);
        if let Some(value) = last.value.as_ref().filter(|_| is_fresh) {
            return Ok(value.clone());
        }
        let recent = last
            .failure
            .as_ref()
            .filter(|(when, _)| when.elapsed() < PAUSE);
        if let Some((_, error)) = recent {
            return last.value.clone().ok_or_else(|| error.clone());
        }
        match stored.vault.read(stored.store, &stored.name).await {
            Ok(value) => {
                *last = Last {
                    value: Some(value.clone()),
                    read: Some(Instant::now()),
                    failure: None,
                };
                Ok(value)
            }
            Err(error) => {
                // One line when it begins to fail, not one for each request.
                if last.failure.is_none() {
                    tracing::warn!(name = stored.name, %error, "a secret could not be read");
                }
                // What was taken away on purpose is not used any longer.
                if matches!(error, SecretError::Missing { .. }) {
                    last.value = None;
                }
                last.failure = Some((Instant::now(), error.clone()));
                last.value.clone().ok_or(error)
            }
        }
    }
}

impl fmt::Debug for StoredSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredSecret({} in {})", self.0.name, self.0.store)
    }
}

#[cfg(test)]
mod tests;
