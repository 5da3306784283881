//! What the owner asks for beside turns: the sandbox, prompts, undoing. The policy desk and the undo
//! log do it; this joins them to chats and to the daemon's socket.

use async_trait::async_trait;
use fermix_api::Reply;
use fermix_approvals::policy::{By, Who};
use fermix_approvals::{Operation, PolicyDesk};
use fermix_capability::PromptOrigin;
use fermix_channels::commands::{Asker, Invocation, NotDone, Outcome};
use serde_json::{Value, json};

use crate::desk::PolicyCommands;
use crate::server::OwnerRequests;
use crate::undoing::Undoing;

/// How many changes a list over the socket holds.
const MAX_LISTED: u32 = 50;

/// `/sandbox`, `/grant`, `/revoke`, `/confirm` and `/deny`.
pub(crate) struct Policy(pub(crate) PolicyDesk);

#[async_trait]
impl PolicyCommands for Policy {
    async fn run(&self, invocation: &Invocation, asker: &Asker) -> Outcome {
        let mut words = vec![format!("/{}", invocation.name)];
        words.extend(invocation.words.iter().cloned());
        // That the sender may give this command was decided by the table of commands; the desk asks
        // once more for everything that changes something.
        let who = if asker.standing.is_owner() {
            Who::Owner
        } else {
            Who::Guest {
                is_allowlisted: true,
            }
        };
        let reply = self.0.chat_command(&words, &asker.origin, who).await;
        if reply.text.is_empty() {
            return Err(NotDone("the command has no answer".to_owned()));
        }
        Ok(reply.text)
    }
}

/// The same as data, for the owner's programs.
pub(crate) struct Requests {
    pub(crate) policy: PolicyDesk,
    pub(crate) undoing: Undoing,
}

#[async_trait]
impl OwnerRequests for Requests {
    async fn policy(&self, operation: Value, confirmed: bool, origin: &PromptOrigin) -> Reply {
        let operation: Operation = match serde_json::from_value(operation) {
            Ok(operation) => operation,
            Err(error) => return Reply::error(format!("invalid request: {error}")),
        };
        match self
            .policy
            .run(operation, confirmed, By::message(origin))
            .await
        {
            Ok(outcome) => Reply::ok(&json!({ "outcome": outcome })),
            Err(error) => Reply::error(error.to_string()),
        }
    }

    async fn undo(&self, list: bool, id: Option<i64>) -> Reply {
        if list {
            return match self.undoing.list(None, MAX_LISTED).await {
                Ok(changes) => Reply::ok(&json!({ "changes": changes })),
                Err(error) => Reply::error(error.to_string()),
            };
        }
        match self.undoing.undo(id, None).await {
            Ok(undone) => Reply::ok(&undone),
            Err(error) => Reply::error(error.to_string()),
        }
    }
}
