//! The results of one run: what each call gave, where it stands in the conversation, and the
//! originals of those that were shortened.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fermix_capability::dispatch::CallOutcome;
use fermix_capability::untrusted::{TAG, framed_content};
use fermix_types::{Message, ToolMessage};
use sha2::{Digest as _, Sha256};

use super::arguments::inner;

/// The most bytes of originals one run keeps. Beyond that the oldest go.
const MAX_KEPT: usize = 64 << 20;
/// A shorter repetition is not worth a marker.
const SHORTEST_DUPLICATE: usize = 512;

/// One result as it stands in the conversation.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Which message of the request it is.
    pub(super) position: usize,
    pub(super) call_id: String,
    pub(super) tool: String,
    /// Which step of the run it belongs to.
    pub(super) step: usize,
    /// Whether it holds somebody else's words.
    pub(super) external: bool,
    pub(super) state: State,
    text_digest: [u8; 32],
    read: Option<FileRead>,
}

/// How much of a result is still in view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// All of it.
    Raw,
    /// All of it, and a digest would be no shorter.
    Incompressible,
    /// A marker or a digest stands in its place.
    Replaced,
}

/// Which part of which file was read.
#[derive(Debug)]
struct FileRead {
    path: PathBuf,
    is_whole: bool,
    signature: [u8; 32],
}

impl FileRead {
    /// Whether a later reading shows all that this one showed, as it is now.
    fn is_superseded_by(&self, later: &Self) -> bool {
        self.path == later.path && (later.is_whole || later.signature == self.signature)
    }
}

/// The original of a result that is no longer wholly in view.
#[derive(Clone, Debug)]
pub(crate) struct Original {
    pub(crate) tool: String,
    /// Without its frame.
    pub(crate) text: Arc<str>,
    pub(crate) external: bool,
}

/// Originals by call id; shared with the tool that reads them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Originals(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    by_call: HashMap<String, Original>,
    order: Vec<String>,
    bytes: usize,
}

impl Originals {
    pub(crate) fn get(&self, call_id: &str) -> Option<Original> {
        self.kept().by_call.get(call_id).cloned()
    }

    /// The calls whose originals are kept, oldest first.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.kept().order.clone()
    }

    /// Keeps an original; one that is kept already is the fuller one.
    fn keep(&self, call_id: &str, original: Original) {
        let mut kept = self.kept();
        if kept.by_call.contains_key(call_id) {
            return;
        }
        kept.bytes += original.text.len();
        kept.order.push(call_id.to_owned());
        kept.by_call.insert(call_id.to_owned(), original);
        while kept.bytes > MAX_KEPT && kept.order.len() > 1 {
            let oldest = kept.order.remove(0);
            if let Some(gone) = kept.by_call.remove(&oldest) {
                kept.bytes -= gone.text.len();
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Every change is complete before the lock goes, so a panicking holder leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was saved without asking a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) duplicates: usize,
    pub(super) superseded: usize,
    pub(super) bytes: usize,
}

/// Every result of the run, in order.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(super) entries: Vec<Entry>,
    pub(super) originals: Originals,
}

/// What a step hands over about one result besides the message.
#[derive(Debug)]
pub(crate) struct Facts {
    external: bool,
    read: Option<FileRead>,
    /// All of the text, unframed, when the message holds only its beginning.
    whole: Option<String>,
}

impl Facts {
    /// Takes what the store needs out of an outcome. `path` is the file it touched, plainly
    /// spelled, and `signature` says what a call asked for whichever way it was written.
    pub(super) fn of(
        outcome: &mut CallOutcome,
        arguments: &str,
        path: Option<PathBuf>,
        signature: &str,
    ) -> Self {
        let is_reading = outcome.name == "file_read" && outcome.ran && !outcome.is_error;
        Self {
            // Anything with a frame in it is framed again when it is shortened; to take our own
            // text for somebody else's only narrows.
            external: outcome.external || outcome.text.contains(TAG),
            read: path.filter(|_| is_reading).map(|path| FileRead {
                path,
                is_whole: inner(arguments).keys().all(|key| key == "path"),
                signature: Sha256::digest(signature).into(),
            }),
            whole: outcome
                .rest
                .take()
                .map(|rest| format!("{}{rest}", unframed(&outcome.output))),
        }
    }

    /// Whether the message holds only the beginning of the result.
    pub(super) fn is_cut(&self) -> bool {
        self.whole.is_some()
    }
}

impl Results {
    /// Takes in the result that stands at `position` of the conversation.
    pub(super) fn add(
        &mut self,
        position: usize,
        step: usize,
        message: &ToolMessage,
        facts: Facts,
    ) {
        if let Some(whole) = facts.whole {
            let original = Original {
                tool: message.name.clone(),
                text: whole.into(),
                external: facts.external,
            };
            self.originals.keep(&message.call_id, original);
        }
        self.entries.push(Entry {
            position,
            call_id: message.call_id.clone(),
            tool: message.name.clone(),
            step,
            external: facts.external,
            state: State::Raw,
            text_digest: Sha256::digest(&message.text).into(),
            read: facts.read,
        });
    }

    /// What costs nothing: a result that an earlier one repeats word for word, and a reading of a
    /// file that a later one shows again.
    pub(super) fn reduce_freely(&mut self, messages: &mut [Message]) -> Saved {
        let mut saved = Saved::default();
        let mut first_of: HashMap<[u8; 32], usize> = HashMap::new();
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            // What came with an image is not the same because its words are.
            let is_text = matches!(messages.get(entry.position), Some(Message::Tool(message))
                if message.images.is_empty() && message.text.len() >= SHORTEST_DUPLICATE);
            if entry.state == State::Replaced || !is_text {
                continue;
            }
            let Some(&first) = first_of.get(&entry.text_digest) else {
                first_of.insert(entry.text_digest, index);
                continue;
            };
            let marker = format!(
                "[The same as the result of call {}, word for word.]",
                self.entries[first].call_id
            );
            saved.duplicates += 1;
            saved.bytes += self.replace(index, messages, marker);
        }
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            let Some(read) = entry
                .read
                .as_ref()
                .filter(|_| entry.state != State::Replaced)
            else {
                continue;
            };
            let later = self.entries[index + 1..].iter().find(|later| {
                later.state != State::Replaced
                    && later
                        .read
                        .as_ref()
                        .is_some_and(|later| read.is_superseded_by(later))
            });
            let Some(later) = later else { continue };
            let marker = format!(
                "[Left out: call {} read this file again later.]",
                later.call_id
            );
            if text_of(messages, entry.position).map_or(0, str::len) > marker.len() {
                saved.superseded += 1;
                saved.bytes += self.replace(index, messages, marker);
            }
        }
        saved
    }

    /// Puts `text` in the place of a result and keeps the original; gives back the bytes saved.
    pub(super) fn replace(
        &mut self,
        index: usize,
        messages: &mut [Message],
        text: String,
    ) -> usize {
        let entry = &mut self.entries[index];
        let Some(Message::Tool(message)) = messages.get_mut(entry.position) else {
            return 0;
        };
        let before = message.text.len();
        let original = std::mem::replace(&mut message.text, text);
        let original = Original {
            tool: entry.tool.clone(),
            text: unframed(&original).into(),
            external: entry.external,
        };
        self.originals.keep(&entry.call_id, original);
        entry.state = State::Replaced;
        before.saturating_sub(message.text.len())
    }
}

/// The text of a result.
pub(super) fn text_of(messages: &[Message], position: usize) -> Option<&str> {
    match messages.get(position) {
        Some(Message::Tool(message)) => Some(&message.text),
        _ => None,
    }
}

/// What stands in the frame, when all of the text is one.
pub(super) fn unframed(text: &str) -> &str {
    framed_content(text).unwrap_or(text)
}
