//! The database, opened when it is first needed and once.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fermix_store::{Store, StoreError, StoreOptions};

/// Opens one database for everybody who shares it. Listing tools needs none.
#[derive(Clone)]
pub(crate) struct LazyStore {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    opened: Mutex<Option<Store>>,
}

impl LazyStore {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            inner: Arc::new(Inner {
                path,
                opened: Mutex::new(None),
            }),
        }
    }

    /// The database. A failure is not remembered: the next caller tries again. Blocks for a few
    /// milliseconds the first time.
    ///
    /// `for_life` folds the log into the file at the end, which a process that answers one question
    /// leaves to the next start; it counts the first time.
    pub(crate) fn open(&self, for_life: bool) -> Result<Store, StoreError> {
        let mut opened = self
            .inner
            .opened
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*opened {
            return Ok(store.clone());
        }
        let options = StoreOptions {
            checkpoint_on_close: for_life,
            ..StoreOptions::default()
        };
        let store = Store::open(&self.inner.path, &options)?;
        *opened = Some(store.clone());
        Ok(store)
    }
}
