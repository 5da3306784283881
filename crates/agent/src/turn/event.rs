//! What a turn tells whoever watches it.
//!
//! Watching is a preview and nothing more: the final text is authoritative, and a watcher that is
//! slow, gone or broken never holds the turn up. Text waits in a buffer while the watcher's queue
//! is full and goes out in one piece later; the short events keep a part of the queue to
//! themselves.

use std::sync::{Arc, Mutex, PoisonError};

use fermix_providers::{EventSink, ModelEvent};
use tokio::sync::mpsc;

/// How much text waits for a slow watcher, in bytes. What comes after that is left out.
const MAX_WAITING: usize = 256 * 1024;
/// Places in a watcher's queue that text leaves free for the other events.
const RESERVED: usize = 8;

/// One thing that happened in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// The run began.
    SessionStarted {
        /// Joins the run's trace rows.
        session_id: String,
    },
    /// A provider call is about to be made; the first is 1.
    IterationStarted(u32),
    /// The provider is asked.
    ProviderStart,
    /// The provider answered.
    ProviderResponse {
        /// The model that answered.
        model: String,
    },
    /// Text of the answer.
    TextDelta(String),
    /// The text of this provider call is complete.
    TextDone,
    /// What the model thinks aloud.
    ReasoningDelta(String),
    /// The thinking of this provider call is complete.
    ReasoningDone,
    /// A tool is about to run.
    ToolStart {
        /// Joins start and finish.
        call_id: String,
        /// The tool.
        name: String,
    },
    /// A tool gave its answer.
    ToolFinish {
        /// Joins start and finish.
        call_id: String,
        /// The tool.
        name: String,
        /// Whether the answer is no error.
        ok: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Channel {
    Text,
    Reasoning,
}

struct Watcher {
    sender: mpsc::Sender<TurnEvent>,
    waiting: Option<(Channel, String)>,
}

impl Watcher {
    fn delta(&mut self, channel: Channel, piece: String) {
        match &mut self.waiting {
            Some((waiting, text)) if *waiting == channel => {
                if text.len() + piece.len() <= MAX_WAITING {
                    text.push_str(&piece);
                }
            }
            other => {
                // Text of the other kind that could not be sent in time is given up.
                *other = Some((channel, piece));
            }
        }
        if self.sender.capacity() > RESERVED {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Some((channel, text)) = self.waiting.take() else {
            return;
        };
        let event = match channel {
            Channel::Text => TurnEvent::TextDelta(text),
            Channel::Reasoning => TurnEvent::ReasoningDelta(text),
        };
        if let Err(mpsc::error::TrySendError::Full(
            TurnEvent::TextDelta(text) | TurnEvent::ReasoningDelta(text),
        )) = self.sender.try_send(event)
        {
            self.waiting = Some((channel, text));
        }
    }

    fn send(&mut self, event: TurnEvent) {
        self.flush();
        // A watcher that takes nothing misses this event; the turn's report has what counts.
        let _ = self.sender.try_send(event);
    }
}

/// The watchers of one turn. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<Watcher>>>);

impl Events {
    pub(crate) fn new(senders: impl IntoIterator<Item = mpsc::Sender<TurnEvent>>) -> Self {
        let watchers = senders
            .into_iter()
            .map(|sender| Watcher {
                sender,
                waiting: None,
            })
            .collect();
        Self(Arc::new(Mutex::new(watchers)))
    }

    pub(crate) fn send(&self, event: &TurnEvent) {
        self.each(|watcher| watcher.send(event.clone()));
    }

    fn each(&self, mut tell: impl FnMut(&mut Watcher)) {
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| !watcher.sender.is_closed());
        watchers.iter_mut().for_each(&mut tell);
    }
}

impl EventSink for Events {
    fn emit(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::TextDelta(text) => {
                self.each(|watcher| watcher.delta(Channel::Text, text.clone()));
            }
            ModelEvent::ReasoningDelta(text) => {
                self.each(|watcher| watcher.delta(Channel::Reasoning, text.clone()));
            }
            ModelEvent::TextDone => self.send(&TurnEvent::TextDone),
            ModelEvent::ReasoningDone => self.send(&TurnEvent::ReasoningDone),
        }
    }

    fn is_visible(&self) -> bool {
        let watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.iter().any(|watcher| !watcher.sender.is_closed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_watcher_gets_all_text_later_and_holds_nothing_up() {
        let (sender, mut receiver) = mpsc::channel(RESERVED + 2);
        let (gone, _) = mpsc::channel(1);
        let mut events = Events::new([sender, gone]);
        for index in 0..100 {
            events.emit(ModelEvent::TextDelta(format!("{index} ")));
        }
        let mut text = String::new();
        for _ in 0..2 {
            let Some(TurnEvent::TextDelta(piece)) = receiver.recv().await else {
                panic!("text comes first")
            };
            text.push_str(&piece);
        }
        events.emit(ModelEvent::TextDone);
        let Some(TurnEvent::TextDelta(rest)) = receiver.recv().await else {
            panic!("the rest goes out before the end")
        };
        text.push_str(&rest);
        let expected: String = (0..100).map(|index| format!("{index} ")).collect();
        assert_eq!(text, expected);
        assert_eq!(receiver.recv().await, Some(TurnEvent::TextDone));
    }
}
