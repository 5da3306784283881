//! The store through its public door: opening, writing, reading, conversations, sudden death.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod checkpoints;
mod conversations;
mod crash;
mod opening;
mod working;

use std::path::PathBuf;

use fermix_store::{Conversations, Store, StoreOptions};
use fermix_types::{ConversationKey, UnixMillis};

/// A home of its own for one test.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("memory.db")
    }

    fn open(&self) -> Store {
        Store::open(&self.path(), &StoreOptions::default()).unwrap()
    }

    fn conversations(&self) -> Conversations {
        Conversations::new(self.open())
    }
}

fn chat(id: &str) -> ConversationKey {
    ConversationKey::root("cli", id)
}

const NOON: UnixMillis = UnixMillis(1_764_590_400_000);
