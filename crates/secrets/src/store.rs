//! Where secrets are kept: one trait, two stores.

pub(crate) mod file;
pub(crate) mod keyring;

use std::path::PathBuf;

use async_trait::async_trait;
use fermix_types::SecretStore;
use secrecy::SecretString;

use crate::item::Item;

/// The longest value a store takes, in bytes: a service account's key file fits.
pub const MAX_VALUE: usize = 64 * 1024;

/// Whether a store can be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// It can be read and written.
    Ready,
    /// It is there, and its owner has to unlock it first.
    Locked,
    /// It cannot be used, for this reason.
    Unavailable(String),
}

/// Whether a person is there to answer the desktop's unlock dialog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attendance {
    /// Nobody is: a locked store is an error, and no dialog is raised.
    #[default]
    Nobody,
    /// The owner waits for the answer, and may be asked to unlock.
    Person,
}

/// Why a store did not do what was asked. No message holds a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The store needs unlocking.
    #[error(
        "the keyring is locked; unlock it by signing in to your desktop or with its password manager, then try again"
    )]
    Locked,
    /// The store cannot be used.
    #[error("the {store} store of secrets is unavailable: {reason}")]
    Unavailable {
        /// Which store.
        store: SecretStore,
        /// Why, and the fix where there is one.
        reason: String,
    },
    /// It did not answer in time.
    #[error("the {store} store of secrets did not answer within {seconds} s; try again")]
    TimedOut {
        /// Which store.
        store: SecretStore,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The store has no such entry.
    #[error(
        "`{item}` is not in the {store} store of secrets; set it again with `fermix secrets set {item}`"
    )]
    Missing {
        /// Which store.
        store: SecretStore,
        /// The secret's name.
        item: String,
    },
    /// Others may have read or changed it. It was left as it is: it is evidence.
    #[error(
        "`{}` can be reached by others (mode {mode:04o}, owner {owner}) and is not used; find out why, then replace the secret and run `chmod go= {}`", path.display(), path.display()
    )]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Whose it is.
        owner: u32,
    },
    /// What is stored is not what was put there.
    #[error("`{}` is damaged ({detail}) and was left as it is; set the secret again with `fermix secrets set`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: &'static str,
    },
    /// The file system refused.
    #[error("cannot {doing} `{}`: {reason}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        reason: String,
    },
    /// The value cannot be stored.
    #[error("the value is empty or longer than {MAX_VALUE} bytes; give the secret alone")]
    BadValue,
    /// The value was read back and is another one.
    #[error(
        "the {store} store of secrets gave back something else than it was given; nothing was changed in config.toml"
    )]
    NotKept {
        /// Which store.
        store: SecretStore,
    },
    /// The values do not fit the redactor, so they could not be kept out of logs.
    #[error("{0}")]
    TooMany(#[from] crate::redaction::TooManySecrets),
    /// The address is none.
    #[error("{0}")]
    Name(#[from] crate::item::InvalidName),
}

/// A place that keeps secrets. Every call is bounded by its caller.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Whether it can be used, without changing anything and without asking anybody.
    async fn state(&self) -> StoreState;

    /// The value of `item`; `None` when there is none.
    async fn read(&self, item: &Item) -> Result<Option<SecretString>, SecretError>;

    /// Stores `value` as `item`, in the place of an earlier one.
    async fn write(
        &self,
        item: &Item,
        value: &SecretString,
        attendance: Attendance,
    ) -> Result<(), SecretError>;

    /// Removes `item`; `false` when there was none.
    async fn remove(&self, item: &Item, attendance: Attendance) -> Result<bool, SecretError>;
}
