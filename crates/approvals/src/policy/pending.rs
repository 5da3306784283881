//! A change that waits for the owner's yes.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use fermix_capability::{ApprovalPrompt, Choice, PromptOrigin};
use fermix_types::TraceIds;
use serde_json::json;

use super::diff::Diff;
use super::directory::TurnKey;
use super::error::PolicyError;
use super::operation::{GrantScope, Operation, State};
use super::{By, Intent, PolicyDesk, Provenance, Resume, blocking, describe, lock};
use crate::confirmations::Parked;
use crate::shown::{visible, visible_path};
use crate::waiting::{Answer, Waiting};

/// As it is shown, and no other way.
const AS_SHOWN: &[Choice] = &[Choice::Always];
/// A grant can be narrowed by the answer.
const GRANT: &[Choice] = &[Choice::Always, Choice::Once, Choice::Read];

/// Parked until the owner answers.
#[derive(Debug)]
pub(super) struct PendingChange {
    pub(super) desk: PolicyDesk,
    /// With the canonical path of a grant, as it was shown.
    pub(super) operation: Operation,
    /// The path of a grant as it was asked for: what is resolved again at the answer.
    pub(super) requested: Option<PathBuf>,
    pub(super) diff: Diff,
    pub(super) requested_by: String,
    pub(super) reason: String,
    /// The turn that asked, when it was the agent.
    pub(super) turn: Option<(TurnKey, TraceIds)>,
}

impl PendingChange {
    /// Parks the change and gives what the owner is shown.
    pub(super) fn park(
        self,
        origin: &PromptOrigin,
        title: String,
        body: Vec<String>,
    ) -> Result<(Parked, ApprovalPrompt), PolicyError> {
        let desk = self.desk.clone();
        let mut choices = self.choices().to_vec();
        choices.push(Choice::Deny);
        let fields = json!({
            "event": "policy_prompt",
            "operation": self.operation.name(),
            "diff": self.diff.lines,
            "channel": origin.conversation.channel,
            "conversation": origin.conversation.to_string(),
        });
        let ids = self
            .turn
            .as_ref()
            .map(|(_, ids)| ids.clone())
            .unwrap_or_default();
        let fingerprint = fingerprint(&self.operation);
        let mut lines = body;
        lines.extend(self.diff.lines.iter().cloned());
        let now = (desk.inner.monotonic)();
        let parked = desk
            .inner
            .prompts
            .park(origin, &fingerprint, Box::new(self), now)?;
        if parked.is_new {
            desk.trace(&ids, fields);
        }
        let prompt = ApprovalPrompt {
            token: parked.token.clone(),
            title,
            body: lines.join("\n"),
            choices,
            expires_in: parked.expires_in,
        };
        Ok((parked, prompt))
    }

    /// The operation that this answer means.
    fn meant(&self, choice: Choice) -> Operation {
        match (&self.operation, choice) {
            (Operation::Grant { path, .. }, Choice::Once) => Operation::Grant {
                path: path.clone(),
                scope: GrantScope::Once,
            },
            (Operation::Grant { path, .. }, Choice::Read) => Operation::Grant {
                path: path.clone(),
                scope: GrantScope::Read,
            },
            (operation, _) => operation.clone(),
        }
    }

    /// Carries it out, when it still means what was shown. Blocks.
    fn apply(&self, choice: Choice, by: &By, token: &str) -> Result<String, PolicyError> {
        if let (Operation::Grant { path, .. }, Some(requested)) = (&self.operation, &self.requested)
        {
            let now = self.desk.grantable(requested)?;
            if now != *path {
                return Err(PolicyError::PathChanged(requested.clone()));
            }
        }
        let operation = self.meant(choice);
        // A narrower answer gives other entries than the ones that were shown, and less.
        let intent = if operation == self.operation {
            Intent::AsShown(&self.diff.gains)
        } else {
            Intent::Confirmed
        };
        let provenance = Provenance {
            reason: &self.reason,
            requested_by: &self.requested_by,
            token: Some(token),
        };
        let change = self.desk.change(&operation, intent, by, &provenance)?;
        let diff = change.diff.lines.clone();
        let mut text = match change.state {
            State::Unchanged => change.outcome().message,
            _ => format!("Sandbox change applied: {}", describe(&operation)),
        };
        for line in diff {
            text.push('\n');
            text.push_str(&line);
        }
        Ok(text)
    }

    async fn resume(&self, origin: &PromptOrigin) -> &'static str {
        let Some((_, turn)) = &self.turn else {
            return "";
        };
        const AGAIN: &str = "\nRe-run your request.";
        let port = lock(&self.desk.inner.resume).clone();
        let Some(port) = port else {
            return AGAIN;
        };
        let number = self.desk.inner.resumed.fetch_add(1, Ordering::Relaxed);
        let resume = Resume {
            id: format!("grant-resume-{number}"),
            origin: origin.clone(),
            turn: turn.clone(),
        };
        match port.resume(resume).await {
            Ok(()) => "\nYour request goes on.",
            Err(error) => {
                tracing::warn!(error, "a request could not go on after its grant");
                AGAIN
            }
        }
    }
}

#[async_trait]
impl Waiting for PendingChange {
    fn choices(&self) -> &[Choice] {
        match &self.operation {
            Operation::Grant {
                scope: GrantScope::Always,
                ..
            } => GRANT,
            _ => AS_SHOWN,
        }
    }

    async fn answered(self: Box<Self>, answer: Answer<'_>) -> String {
        if answer.choice == Choice::Deny {
            if let (Some((turn, _)), Operation::Grant { path, .. }) = (&self.turn, &self.operation)
            {
                lock(&self.desk.inner.turns).deny(turn, path.clone());
            }
            self.desk.trace(
                &TraceIds::default(),
                json!({
                    "event": "policy_denied",
                    "operation": self.operation.name(),
                    "channel": answer.origin.conversation.channel,
                    "user": answer.origin.user,
                }),
            );
            return format!("Sandbox change denied: {}", describe(&self.operation));
        }
        let by = By::message(answer.origin);
        let (choice, token) = (answer.choice, answer.token.to_owned());
        let applied = blocking(move || {
            let text = self.apply(choice, &by, &token)?;
            Ok((self, text))
        })
        .await;
        match applied {
            Ok((pending, mut text)) => {
                text.push_str(pending.resume(answer.origin).await);
                text
            }
            Err(error) => format!("Sandbox change not applied: {error}"),
        }
    }
}

/// Two requests for the same thing are one.
fn fingerprint(operation: &Operation) -> String {
    let text = serde_json::to_string(operation);
    text.unwrap_or_else(|_| format!("{operation:?}"))
}

/// What stands above the difference.
pub(super) fn title(operation: &Operation) -> String {
    match operation {
        Operation::Grant { path, .. } => format!("Open a folder: {}", visible_path(path)),
        other => format!("Change the sandbox: {}", visible(&describe(other))),
    }
}
