//! Shows one question at a time for each turn, and waits for its answer.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use fermix_capability::{ApprovalPrompt, Choice, TurnScope};
use tokio::sync::oneshot;

use crate::confirmations::TOKEN_TTL;
use crate::waiting::{Answer, Prompts, Waiting};

/// A call that waits for the owner. Whoever takes it from the store settles it.
#[derive(Debug)]
struct Question {
    answer: oneshot::Sender<Choice>,
    offers_always: bool,
}

#[async_trait]
impl Waiting for Question {
    /// No call has a part that only reads, and saying yes to a part is no yes to the whole.
    fn choices(&self) -> &[Choice] {
        if self.offers_always {
            &[Choice::Once, Choice::Always]
        } else {
            &[Choice::Once]
        }
    }

    async fn answered(self: Box<Self>, answer: Answer<'_>) -> String {
        if self.answer.send(answer.choice).is_err() {
            return "The call is gone; nothing was run.".to_owned();
        }
        match answer.choice {
            Choice::Deny => "Denied; nothing was run.",
            Choice::Always => "Allowed, now and from now on for exactly this.",
            Choice::Once | Choice::Read => "Allowed, this once.",
        }
        .to_owned()
    }
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
    store: Arc<Prompts>,
    waiting: Mutex<HashSet<String>>,
}

impl Desk {
    pub(super) fn new(store: Arc<Prompts>) -> Self {
        Self {
            store,
            waiting: Mutex::default(),
        }
    }

    pub(super) fn prompts(&self) -> &Prompts {
        &self.store
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
        let mut choices = question.choices().to_vec();
        choices.push(Choice::Deny);
        let parked = match self.store.park(
            origin,
            asked.fingerprint,
            Box::new(question),
            Instant::now(),
        ) {
            Ok(parked) if parked.is_new => parked,
            Ok(_) => return Told::Busy,
            Err(error) => return Told::Unseen(error.to_string()),
        };
        place.token = Some(parked.token.clone());
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
