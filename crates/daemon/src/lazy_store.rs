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
    options: StoreOptions,
    opened: Mutex<Option<Store>>,
}

impl LazyStore {
    pub(crate) fn new(path: PathBuf, options: StoreOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                path,
                options,
                opened: Mutex::new(None),
            }),
        }
    }

    /// The database. A failure is not remembered: the next caller tries again. Blocks for a few
    /// milliseconds the first time.
    pub(crate) fn get(&self) -> Result<Store, StoreError> {
        let mut opened = self
            .inner
            .opened
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*opened {
            return Ok(store.clone());
        }
        let store = Store::open(&self.inner.path, &self.inner.options)?;
        *opened = Some(store.clone());
        Ok(store)
    }
}
