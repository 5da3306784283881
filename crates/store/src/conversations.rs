//! Conversations: what was said, by whom, and what answering it cost.
//!
//! The rules every implementation keeps:
//! 1. A blank text is never stored; it would poison every later request to a model.
//! 2. A request (a user message) has one ending: one answer or one marker.
//! 3. A platform's message id is accepted once per channel, among the last [`ACCEPTED_IDS`] ids
//!    of the last [`ACCEPTED_FOR_MILLIS`].
//! 4. Each operation happens whole or not at all.
//! 5. What is read is fit to be sent, whatever has become of the stored rows: what is damaged is
//!    left out or mended, and never an error.
//! 6. A checkpoint stands for the messages of its session up to one of them, and for nothing when
//!    it is not whole: then they are replayed themselves. No message is ever removed by it.

mod history;
mod repair;
pub mod sqlite;
mod usage;

use sqlite::Conversations;
pub use usage::{UsageBy, UsageRow};

use async_trait::async_trait;
use fermix_types::{ConversationKey, UnixMillis};

use crate::error::StoreError;

/// Platform ids remembered per channel.
pub const ACCEPTED_IDS: usize = 1_000;

/// How long a platform id is remembered: 24 hours.
pub const ACCEPTED_FOR_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// The longest work note, in bytes; a longer one is cut at its end.
pub const MAX_WORK_NOTE: usize = 2048;

/// The longest text of one message, in bytes.
pub const MAX_TEXT: usize = 4 << 20;

/// The longest platform id, in bytes.
pub const MAX_PLATFORM_ID: usize = 256;

/// The most conversations one listing returns.
pub const MAX_LISTED: usize = 1_000;

/// A stored message. Ids grow and never repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub i64);

/// Why a conversation could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Nothing was stored; the caller tells the person that no answer came.
    #[error("a blank message is not stored; give it words, such as what was attached")]
    Blank,
    /// Nothing was stored.
    #[error("the message has {bytes} bytes and the longest stored one {MAX_TEXT}; shorten it")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Nothing was stored; the channel's adapter made a bad id.
    #[error(
        "a platform message id has between 1 and {MAX_PLATFORM_ID} bytes, this one {bytes}; correct the channel's adapter"
    )]
    BadPlatformId {
        /// Its length.
        bytes: usize,
    },
    /// Nothing was stored; the answer belongs to no request of this conversation.
    #[error("message {} is not a request of this conversation; answer one that is", .0.0)]
    NoSuchRequest(MessageId),
    /// Nothing was stored; the conversation has moved on since what the checkpoint stands for was
    /// read.
    #[error("the conversation has changed since it was read; compact it again")]
    Stale,
    /// Nothing was stored; the request has its answer, or its turn was marked as unfinished.
    #[error("message {} has been answered already; keep the first answer", .0.0)]
    AlreadyAnswered(MessageId),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A message to be stored before its turn begins.
#[derive(Clone, Debug)]
pub struct NewUserMessage {
    /// Not blank. Pictures are not stored: a message that is only one gets words from the caller.
    pub text: String,
    /// Whether a guest wrote it; the memory reviewer never learns from those.
    pub guest: bool,
    /// When it arrived.
    pub at: UnixMillis,
    /// The platform's id, unique within the channel, when the platform has one.
    pub platform_message_id: Option<String>,
}

/// What became of a user message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is stored now.
    Stored(MessageId),
    /// It was accepted before, as this message; nothing changed.
    Duplicate(MessageId),
}

/// Tokens as the provider reported them; a count it did not report is absent, not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Sent to the model, cached ones included.
    pub prompt: Option<u64>,
    /// Written by the model.
    pub completion: Option<u64>,
    /// Of the prompt, those read from the provider's cache.
    pub cached: Option<u64>,
    /// Of the prompt, those written to the provider's cache.
    pub cache_creation: Option<u64>,
}

/// The end of a turn, whatever its outcome.
#[derive(Clone, Debug, Default)]
pub struct TurnRecord {
    /// When it ended.
    pub at: UnixMillis,
    /// What the tools did, for the next turn to read; cut to [`MAX_WORK_NOTE`].
    pub work_note: Option<String>,
    /// The provider that answered last.
    pub provider: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// The sum over the turn's calls.
    pub tokens: TokenCounts,
    /// The largest prompt of one call: how full the model's window got. Absent when no provider
    /// said.
    pub peak_tokens: Option<u64>,
}

/// A record of older messages, to be replayed in their place.
#[derive(Clone, Debug)]
pub struct NewCheckpoint {
    /// The last message it stands for: the end of a turn.
    pub covers_through: MessageId,
    /// The record it takes the place of, as it was read; the newer one is not stored when another
    /// came first.
    pub replaces: Option<MessageId>,
    /// Not blank.
    pub text: String,
    /// Whether a guest's words went into it.
    pub guest: bool,
    /// Whether it tells of turns that were not a guest's.
    pub tells_of_owner: bool,
    /// When it was made.
    pub at: UnixMillis,
    /// Who wrote it.
    pub provider: Option<String>,
    /// With which model.
    pub model: Option<String>,
    /// What writing it cost.
    pub tokens: TokenCounts,
}

/// What was delivered to the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyContent {
    /// Words; not blank.
    Text(String),
    /// No words: the delivery itself was the reply.
    Delivered(Delivered),
}

/// A reply without words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// A reaction to the person's message.
    Reaction,
    /// A file.
    Attachment,
    /// Both.
    ReactionAndAttachment,
}

impl Delivered {
    /// The marker that later turns read.
    pub const fn marker(self) -> &'static str {
        match self {
            Self::Reaction => "[I answered this with a reaction.]",
            Self::Attachment => "[I answered this by sending an attachment.]",
            Self::ReactionAndAttachment => "[I answered this with a reaction and an attachment.]",
        }
    }
}

/// The marker of a turn that was stopped, failed or crashed.
pub const UNFINISHED_MARKER: &str = "[This request was not finished. It is here as context only; do not take it up again unless asked.]";

/// Who a stored message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// Fermix, in the model's place, about a turn that ended without words.
    Marker,
}

/// A message as it is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its id.
    pub id: MessageId,
    /// Who it is from.
    pub role: Role,
    /// Never blank.
    pub text: String,
    /// Whether a guest's request is at its root.
    pub guest: bool,
    /// When it was stored.
    pub at: UnixMillis,
    /// The request that an answer or a marker ends.
    pub reply_to: Option<MessageId>,
    /// What the tools did in the turn that this message ended.
    pub work_note: Option<String>,
    /// The provider that answered.
    pub provider: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
}

/// A checkpoint as it is replayed, before the messages that follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its id.
    pub id: MessageId,
    /// The last message it stands for.
    pub covers_through: MessageId,
    /// Never blank.
    pub text: String,
    /// Whether a guest's words went into it.
    pub guest: bool,
    /// Whether it tells of turns that were not a guest's.
    pub tells_of_owner: bool,
    /// When it was stored.
    pub at: UnixMillis,
}

/// The present session as it is replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// What stands for the messages before.
    pub checkpoint: Option<Checkpoint>,
    /// The messages after it, oldest first.
    pub messages: Vec<StoredMessage>,
    /// How many messages after the checkpoint the limits left out.
    pub left_out: u64,
    /// The peak of the last turn, unless the checkpoint is newer: what was measured before it says
    /// nothing about what is replayed now.
    pub peak_tokens: Option<u64>,
}

impl Replay {
    /// Whether no turn has ended since the checkpoint was stored.
    pub fn is_checkpoint_news(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|checkpoint| {
            self.messages
                .iter()
                .all(|message| message.role == Role::User || message.id < checkpoint.id)
        })
    }
}

/// How much of a conversation is replayed. The newest messages win. When a limit is passed, the
/// oldest go in one block, down to about half of it, so that the beginning of what is replayed
/// stays the same for many turns and providers find their caches.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// At most this many messages.
    pub max_messages: usize,
    /// At most this many bytes of text and work notes together.
    pub max_bytes: usize,
}

/// One conversation in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationSummary {
    /// Which one.
    pub key: ConversationKey,
    /// When its first message was stored.
    pub created_at: UnixMillis,
    /// When it last changed.
    pub updated_at: UnixMillis,
    /// Messages of the present session.
    pub messages: u64,
}

/// Tokens of one model on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenTotals {
    /// The provider.
    pub provider: String,
    /// The model, when it was known.
    pub model: Option<String>,
    /// Turns that it ended.
    pub turns: u64,
    /// Sums of what was reported; absent when no turn reported that count.
    pub tokens: TokenCounts,
}

/// Where conversations are kept. The rules are in the [module's documentation](self).
#[async_trait]
pub trait ConversationLog: Send + Sync {
    /// Stores a request before its turn begins, creating the conversation if need be.
    async fn append_user(
        &self,
        key: &ConversationKey,
        message: NewUserMessage,
    ) -> Result<Appended, LogError>;

    /// Stores what was delivered in answer to `request`, in the session the request came in: an
    /// answer that arrives after a reset does not reach the new session.
    async fn append_assistant(
        &self,
        key: &ConversationKey,
        request: MessageId,
        content: ReplyContent,
        record: TurnRecord,
    ) -> Result<MessageId, LogError>;

    /// Marks `request` as not finished if it is the last message of the present session; does
    /// nothing and returns `None` otherwise.
    async fn append_unfinished_marker(
        &self,
        key: &ConversationKey,
        request: MessageId,
        record: TurnRecord,
    ) -> Result<Option<MessageId>, LogError>;

    /// The requests that are the last message of their conversation: their turn runs, or it ended
    /// with its process. Newest conversation first; at most [`MAX_LISTED`] conversations are
    /// looked at.
    async fn unanswered(&self) -> Result<Vec<(ConversationKey, MessageId)>, LogError>;

    /// The end of the present session, oldest message first, fit to be sent: no blank text, no
    /// answer without its request, one answer a request. Empty for a conversation nobody began.
    async fn replay(
        &self,
        key: &ConversationKey,
        limits: HistoryLimits,
    ) -> Result<Replay, LogError>;

    /// The messages of [`ConversationLog::replay`] alone.
    async fn history(
        &self,
        key: &ConversationKey,
        limits: HistoryLimits,
    ) -> Result<Vec<StoredMessage>, LogError> {
        Ok(self.replay(key, limits).await?.messages)
    }

    /// Stores a checkpoint, unless the conversation has changed so that it no longer fits
    /// ([`LogError::Stale`]): a new session, another checkpoint, or an answer that would be parted
    /// from its request.
    async fn append_checkpoint(
        &self,
        key: &ConversationKey,
        checkpoint: NewCheckpoint,
    ) -> Result<MessageId, LogError>;

    /// Begins a new session: older messages stay stored and are not replayed. Returns whether
    /// there was a conversation.
    async fn reset(&self, key: &ConversationKey, at: UnixMillis) -> Result<bool, LogError>;

    /// The conversations that changed last, newest first; at most [`MAX_LISTED`].
    async fn list_conversations(&self, limit: usize) -> Result<Vec<ConversationSummary>, LogError>;

    /// Tokens used on the UTC day that holds `day`, by provider and model, in that order.
    async fn token_totals(&self, day: UnixMillis) -> Result<Vec<TokenTotals>, LogError>;

    /// The next number of a main run (`main-<n>`): 1, 2, 3 and so on, also across restarts.
    async fn next_session_number(&self) -> Result<u64, LogError>;
}

/// Whether a reader would see nothing. Providers refuse such a text whichever white space it is.
fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|character| character.is_whitespace() || character.is_control())
}
