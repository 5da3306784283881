//! Undoing what tools changed, for the owner.

use fermix_sandbox::Scope;
use fermix_types::ConversationKey;
use fermix_undo::{Change, ChangeKind, Restored, UndoError};
use serde::Serialize;

use crate::engine::Engine;

/// What was undone.
#[derive(Clone, Debug, Serialize)]
pub struct Undone {
    /// The change.
    pub change: Change,
    /// What became of it, in a sentence.
    pub message: String,
}

impl Engine {
    /// The newest changes, newest first; those of one conversation when one is given.
    pub async fn changes(
        &self,
        conversation: Option<&ConversationKey>,
        limit: u32,
    ) -> Result<Vec<Change>, UndoError> {
        let conversation = conversation.map(ToString::to_string);
        self.undo_log().list(conversation.as_deref(), limit).await
    }

    /// Undoes the change with number `id`, or the newest one that was not undone. For the owner in
    /// person: the caller has made sure of that.
    pub async fn undo(
        &self,
        id: Option<i64>,
        conversation: Option<&ConversationKey>,
    ) -> Result<Undone, UndoError> {
        let conversation = conversation.map(ToString::to_string);
        let log = self.undo_log();
        let change = log.find(id, conversation.as_deref()).await?;
        // The folder counts as the one the owner asks from, as it did for the change itself.
        let scope = Scope {
            cwd: change.path.parent().map(ToOwned::to_owned),
            attended: true,
            ..Scope::default()
        };
        let restored = match change.kind {
            ChangeKind::File => log.restore_file(&change, self.sandbox(), &scope).await?,
            ChangeKind::Git => return Err(UndoError::Nothing(id)),
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
}
