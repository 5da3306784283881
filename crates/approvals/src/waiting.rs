//! What waits for the owner's answer, whatever it is, and the one way to answer it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use fermix_capability::{ApprovalPrompt, Choice, PromptOrigin};

use crate::confirmations::{ConfirmError, Confirmations};

/// Something that an answer of the owner releases: a change of the sandbox, one command.
#[async_trait]
pub trait Waiting: Send + Sync + fmt::Debug {
    /// The answers that make sense besides `deny`, the meaning of a plain `/confirm TOKEN` first.
    fn choices(&self) -> &[Choice];

    /// Carries out what was answered, [`Choice::Deny`] included. Called once. The text tells the
    /// owner what came of it.
    async fn answered(self: Box<Self>, answer: Answer<'_>) -> String;
}

/// An answer that counts.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// What was answered: one of [`Waiting::choices`], or no.
    pub choice: Choice,
    /// Who answered, and where.
    pub origin: &'a PromptOrigin,
    /// The token, which is used up by now. Only its digest may be kept.
    pub token: &'a str,
}

/// The one store of prompts that wait for an answer.
pub type Prompts = Confirmations<Box<dyn Waiting>>;

/// The monotonic clock; tests have their own.
pub type Monotonic = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Answers the prompt under `token` from `origin`. `None` is the plain `/confirm TOKEN`. A refused
/// answer burns nothing. Whether the one who answers is the owner in person is for the caller to
/// know, and to check first.
pub async fn answer(
    prompts: &Prompts,
    token: &str,
    choice: Option<Choice>,
    origin: &PromptOrigin,
    now: Instant,
) -> Result<String, ConfirmError> {
    let mut meant = Choice::Deny;
    let waiting = prompts.take_if(token, origin, now, |waiting| {
        let choices = waiting.choices();
        meant = match choice {
            Some(Choice::Deny) => Choice::Deny,
            Some(choice) if choices.contains(&choice) => choice,
            None if !choices.is_empty() => choices[0],
            Some(_) | None => {
                let accepted: Vec<&str> = choices.iter().map(|choice| choice.as_str()).collect();
                return Err(format!(
                    "that answer does not fit this request; accepted: {}, deny",
                    accepted.join(", ")
                ));
            }
        };
        Ok(())
    })?;
    let answer = Answer {
        choice: meant,
        origin,
        token,
    };
    let _settled = Settled { prompts, token };
    Ok(waiting.answered(answer).await)
}

/// However carrying out ends, it ends.
struct Settled<'a> {
    prompts: &'a Prompts,
    token: &'a str,
}

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        self.prompts.settled(self.token);
    }
}

/// A prompt as text, for a channel that has nothing better.
pub fn render(prompt: &ApprovalPrompt) -> String {
    let token = &prompt.token;
    let mut lines = vec![prompt.title.clone()];
    if !prompt.body.is_empty() {
        lines.push(prompt.body.clone());
    }
    for (place, choice) in prompt.choices.iter().enumerate() {
        let words = match (place, choice) {
            (_, Choice::Deny) => continue,
            (0, _) => format!("Approve: `/confirm {token}`"),
            (_, Choice::Once) => {
                format!("Only for this conversation or this once: `/confirm {token} once`")
            }
            (_, Choice::Read) => format!("For reading only: `/confirm {token} read`"),
            (_, Choice::Always) => format!("From now on: `/confirm {token} always`"),
        };
        lines.push(words);
    }
    lines.push(format!(
        "Refuse: `/deny {token}` (expires in {}s)",
        prompt.expires_in.as_secs()
    ));
    lines.join("\n")
}
