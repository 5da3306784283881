//! Shows one question at a time for each turn, and waits for its answer.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fermix_capability::{ApprovalPrompt, Choice, PromptOrigin, TurnScope};
use tokio::sync::oneshot;

use crate::confirmations::{ConfirmError, Confirmations, TOKEN_TTL};

/// A call that waits for the owner. Whoever takes it from the store settles it.
#[derive(Debug)]
pub struct Question {
    answer: oneshot::Sender<Choice>,
    offers_always: bool,
}

impl Question {
    /// Gives the call its answer, and says which one it was: "always" means "once" where only that was
    /// offered. Nothing when the call is gone.
    pub fn settle(self, choice: Choice) -> Option<Choice> {
        let choice = match choice {
            Choice::Always if !self.offers_always => Choice::Once,
            // No call has a part that only reads, and saying yes to a part is no yes to the whole.
            Choice::Read => Choice::Deny,
            Choice::Once | Choice::Always | Choice::Deny => choice,
        };
        self.answer.send(choice).ok().map(|()| choice)
    }
}

/// Why an answer did not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The token's words.
    #[error(transparent)]
    Confirm(#[from] ConfirmError),
    /// Commands have no answer of this kind; the question still stands.
    #[error("a command is allowed `once` or `always`, or denied")]
    NotOffered,
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Yes(Choice),
    No,
    Expired,
    /// Another question of this turn, or this very question, waits already.
    Busy,
    /// Nobody can have seen it.
    Unseen(String),
}

/// What is asked.
pub(super) struct Asked<'a> {
    pub(super) fingerprint: &'a str,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) offers_always: bool,
}

/// The store of questions, and which turns have one.
#[derive(Debug)]
pub(super) struct Desk {
    store: Arc<Confirmations<Question>>,
    waiting: Mutex<HashSet<String>>,
}

impl Desk {
    pub(super) fn new(store: Arc<Confirmations<Question>>) -> Self {
        Self {
            store,
            waiting: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashSet<String>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a question of this turn waits for its answer.
    pub(super) fn has_question(&self, turn: &TurnScope) -> bool {
        self.waiting().contains(&turn_key(turn))
    }

    /// Asks, and waits for at most as long as a token lives. Dropped while it waits, it takes its
    /// question back.
    pub(super) async fn ask(&self, turn: &TurnScope, asked: Asked<'_>) -> Told {
        let (Some(port), Some(origin)) = (&turn.approval, &turn.origin) else {
            return Told::Unseen("this run has no way to ask".to_owned());
        };
        let Some(mut place) = self.take_place(turn) else {
            return Told::Busy;
        };
        let (answer, answered) = oneshot::channel();
        let question = Question {
            answer,
            offers_always: asked.offers_always,
        };
        let parked = match self
            .store
            .park(origin, asked.fingerprint, question, Instant::now())
        {
            Ok(parked) if parked.is_new => parked,
            Ok(_) => return Told::Busy,
            Err(error) => return Told::Unseen(error.to_string()),
        };
        place.token = Some(parked.token.clone());
        let choices = if asked.offers_always {
            vec![Choice::Once, Choice::Always, Choice::Deny]
        } else {
            vec![Choice::Once, Choice::Deny]
        };
        let prompt = ApprovalPrompt {
            token: parked.token.clone(),
            title: asked.title,
            body: asked.body,
            choices,
            expires_in: parked.expires_in,
        };
        let mut answered = answered;
        let shown_and_answered = async {
            // A port may be slow to say that it has shown what is answered already.
            tokio::select! {
                biased;
                choice = &mut answered => return Ok(choice.ok()),
                shown = port.show(&prompt) => shown?,
            }
            Ok((&mut answered).await.ok())
        };
        match tokio::time::timeout(TOKEN_TTL, shown_and_answered).await {
            Ok(Ok(choice)) => told(choice),
            Ok(Err(why)) => Told::Unseen(why),
            // An answer that took the question in the last moment counts.
            Err(_) if self.store.withdraw(&parked.token).is_none() => told(answered.await.ok()),
            Err(_) => Told::Expired,
        }
    }

    /// Gives an answer to the question `token` stands for, when `origin` was the one asked.
    pub(super) fn answer(
        &self,
        token: &str,
        choice: Choice,
        origin: &PromptOrigin,
    ) -> Result<Choice, AnswerError> {
        if choice == Choice::Read {
            return Err(AnswerError::NotOffered);
        }
        let question = self.store.take(token, origin, Instant::now())?;
        question
            .settle(choice)
            .ok_or(AnswerError::Confirm(ConfirmError::UnknownToken))
    }

    fn take_place(&self, turn: &TurnScope) -> Option<Place<'_>> {
        let turn = turn_key(turn);
        self.waiting().insert(turn.clone()).then_some(Place {
            desk: self,
            turn,
            token: None,
        })
    }
}

fn told(choice: Option<Choice>) -> Told {
    match choice {
        Some(choice @ (Choice::Once | Choice::Always)) => Told::Yes(choice),
        Some(Choice::Deny | Choice::Read) => Told::No,
        // Whoever had the question let it go.
        None => Told::Expired,
    }
}

/// The one question a turn may have. Goes with the wait, however that ends.
struct Place<'a> {
    desk: &'a Desk,
    turn: String,
    token: Option<String>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(token) = &self.token {
            self.desk.store.withdraw(token);
        }
        self.desk.waiting().remove(&self.turn);
    }
}

/// Names a turn. The frame's id is random, so that turns without trace ids are told apart too.
pub(super) fn turn_key(turn: &TurnScope) -> String {
    format!(
        "{}\n{}\n{}",
        turn.ids.session_id,
        turn.ids.turn_id,
        turn.frame.as_str()
    )
}
