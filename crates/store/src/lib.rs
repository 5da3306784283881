//! The one SQLite file: migrations, backups, one writer thread, conversations.
//!
//! [`Store`] owns the file. Everything that changes it goes through one writer thread and is one
//! transaction; reads run beside it on a few read-only connections. The tables of every domain
//! are created here, in `migrations/`, because one file has one version number; what a domain
//! asks of its tables is a trait, such as [`ConversationLog`], so that another database can stand
//! in for SQLite.
//!
//! # What survives what
//! The file is in WAL mode with `synchronous = NORMAL`. A committed write is in the kernel's page
//! cache when `write` returns, so it survives any death of this process, `kill -9` included. When
//! the machine loses power, the file is never damaged, but the writes since the last checkpoint
//! that the kernel had not yet written back may be missing: the end of a conversation, as if
//! it had not happened. `FULL` would close that gap for one disk flush on each commit, two for
//! each turn, which costs more than everything else a turn does here.

mod backup;
pub mod conversations;
mod error;
mod open;
mod readers;
mod schema;
mod store;
mod writer;

pub use conversations::sqlite::Conversations;
pub use conversations::{
    Appended, Checkpoint, ConversationLog, ConversationSummary, Delivered, HistoryLimits, LogError,
    MAX_TEXT, MessageId, NewCheckpoint, NewUserMessage, Replay, ReplyContent, Role, StoredMessage,
    TokenCounts, TokenTotals, TurnRecord, UsageBy, UsageRow,
};
pub use error::StoreError;
pub use rusqlite;
pub use store::{Store, StoreOptions};
