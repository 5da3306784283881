//! Undoing what tools changed, for the owner.

use async_trait::async_trait;
use fermix_channels::commands::{Asker, NotDone, Outcome, UndoRequest};
use fermix_sandbox::{Sandbox, Scope};
use fermix_tools::git;
use fermix_types::ConversationKey;
use fermix_undo::{Change, ChangeKind, Restored, UndoError, UndoLog};
use serde::Serialize;

use crate::desk::UndoCommands;
use crate::engine::Engine;

/// How many changes `/undo list` shows.
const MAX_SHOWN: u32 = 10;

/// What was undone.
#[derive(Clone, Debug, Serialize)]
pub struct Undone {
    /// The change.
    pub change: Change,
    /// What became of it, in a sentence.
    pub message: String,
}

/// Lists and undoes changes. That the owner asks for it in person is the caller's to know.
#[derive(Clone)]
pub(crate) struct Undoing {
    pub(crate) log: UndoLog,
    pub(crate) sandbox: Sandbox,
}

impl Undoing {
    pub(crate) async fn undo(
        &self,
        id: Option<i64>,
        conversation: Option<&ConversationKey>,
    ) -> Result<Undone, UndoError> {
        let conversation = conversation.map(ToString::to_string);
        let change = self.log.find(id, conversation.as_deref()).await?;
        // What admitted the file then: a standing root, or the folder the turn was asked in.
        let scope = Scope {
            cwd: change.cwd(),
            attended: true,
            ..Scope::default()
        };
        let restored = match change.kind {
            ChangeKind::File => {
                self.log
                    .restore_file(&change, &self.sandbox, &scope)
                    .await?
            }
            ChangeKind::Git => {
                let message = git::undo::restore(&self.log, &change, &self.sandbox, scope).await?;
                return Ok(Undone { change, message });
            }
        };
        let path = change.path.display();
        let message = match restored {
            Restored::Content => {
                format!("`{path}` has its content from before {} again", change.tool)
            }
            Restored::Removed => format!("`{path}`, which {} had created, is removed", change.tool),
            Restored::AlreadyAsBefore => {
                format!("`{path}` is already as it was before {}", change.tool)
            }
        };
        Ok(Undone { change, message })
    }

    pub(crate) async fn list(
        &self,
        conversation: Option<&ConversationKey>,
        limit: u32,
    ) -> Result<Vec<Change>, UndoError> {
        let conversation = conversation.map(ToString::to_string);
        self.log.list(conversation.as_deref(), limit).await
    }
}

#[async_trait]
impl UndoCommands for Undoing {
    /// A conversation takes back what was changed in it, and nothing else.
    async fn run(&self, request: UndoRequest, asker: &Asker) -> Outcome {
        let here = Some(&asker.origin.conversation);
        let not_done = |error: UndoError| NotDone(error.to_string());
        let id = match request {
            UndoRequest::List => {
                let changes = self.list(here, MAX_SHOWN).await.map_err(not_done)?;
                return Ok(shown(&changes));
            }
            UndoRequest::Last => None,
            UndoRequest::Change(id) => Some(id),
        };
        let undone = self.undo(id, here).await.map_err(not_done)?;
        Ok(undone.message)
    }
}

fn shown(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "No tool has changed anything in this conversation.".to_owned();
    }
    let lines: Vec<String> = changes
        .iter()
        .map(|change| {
            let state = match (change.is_undone, change.existed) {
                (true, _) => "undone",
                (false, true) => "changed",
                (false, false) => "created",
            };
            format!("{}  {state}  {}", change.id.0, change.path.display())
        })
        .collect();
    lines.join("\n")
}

impl Engine {
    fn undoing(&self) -> Undoing {
        Undoing {
            log: self.assembled.undo.clone(),
            sandbox: self.assembled.sandbox.clone(),
        }
    }

    /// The newest changes, newest first; those of one conversation when one is given.
    pub async fn changes(
        &self,
        conversation: Option<&ConversationKey>,
        limit: u32,
    ) -> Result<Vec<Change>, UndoError> {
        self.undoing().list(conversation, limit).await
    }

    /// Undoes the change with number `id`, or the newest one that was not undone. For the owner in
    /// person: the caller has made sure of that.
    pub async fn undo(
        &self,
        id: Option<i64>,
        conversation: Option<&ConversationKey>,
    ) -> Result<Undone, UndoError> {
        self.undoing().undo(id, conversation).await
    }
}
