//! Folders the owner opened for one conversation: in memory, gone with the process.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fermix_types::ConversationKey;

use crate::roots::UnsafeRoot;
use crate::sandbox::Sandbox;

/// How many conversations may hold grants; beyond that the one that was granted something longest
/// ago loses its own.
const MAX_CONVERSATIONS: usize = 256;
/// How many folders one conversation may hold.
const MAX_FOLDERS: usize = 64;

/// Why a folder was not opened for a conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionGrantError {
    /// It may never be granted.
    #[error(transparent)]
    Unsafe(#[from] UnsafeRoot),
    /// The conversation holds too many already.
    #[error(
        "this conversation has {MAX_FOLDERS} folders already; revoke one with `/revoke path P`"
    )]
    TooMany,
}

/// The grants of every conversation, the newest last.
#[derive(Debug, Default)]
pub(crate) struct SessionGrants(Mutex<VecDeque<(ConversationKey, Vec<PathBuf>)>>);

impl SessionGrants {
    fn all(&self) -> MutexGuard<'_, VecDeque<(ConversationKey, Vec<PathBuf>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the conversation holds; a turn without one holds nothing.
    pub(crate) fn of(&self, conversation: Option<&ConversationKey>) -> Vec<PathBuf> {
        let Some(conversation) = conversation else {
            return Vec::new();
        };
        let all = self.all();
        let own = all.iter().find(|(key, _)| key == conversation);
        own.map(|(_, folders)| folders.clone()).unwrap_or_default()
    }

    fn add(
        &self,
        conversation: &ConversationKey,
        folder: PathBuf,
    ) -> Result<(), SessionGrantError> {
        let mut all = self.all();
        let own = all.iter().position(|(key, _)| key == conversation);
        let mut folders = own
            .and_then(|place| all.remove(place))
            .map(|(_, folders)| folders)
            .unwrap_or_default();
        let is_new = !folders.contains(&folder);
        let has_room = folders.len() < MAX_FOLDERS;
        if is_new && has_room {
            folders.push(folder);
        }
        all.push_back((conversation.clone(), folders));
        if all.len() > MAX_CONVERSATIONS {
            all.pop_front();
        }
        if is_new && !has_room {
            return Err(SessionGrantError::TooMany);
        }
        Ok(())
    }

    fn remove(&self, conversation: &ConversationKey, folder: &Path) -> bool {
        let mut all = self.all();
        let Some((_, folders)) = all.iter_mut().find(|(key, _)| key == conversation) else {
            return false;
        };
        let before = folders.len();
        folders.retain(|held| held != folder);
        let removed = folders.len() < before;
        all.retain(|(_, folders)| !folders.is_empty());
        removed
    }
}

impl Sandbox {
    /// Opens a folder for one conversation, for reading and writing, until this process ends. The
    /// rules of every grant apply. Gives the canonical folder.
    pub fn grant_for_conversation(
        &self,
        conversation: &ConversationKey,
        path: &Path,
    ) -> Result<PathBuf, SessionGrantError> {
        let folder = self.grantable_root(path)?;
        self.now().grants.add(conversation, folder.clone())?;
        Ok(folder)
    }

    /// Takes a folder away from one conversation; `false` when it did not have it.
    pub fn revoke_for_conversation(&self, conversation: &ConversationKey, folder: &Path) -> bool {
        self.now().grants.remove(conversation, folder)
    }

    /// Takes everything away that was opened for one conversation alone.
    pub fn forget_conversation(&self, conversation: &ConversationKey) {
        self.now()
            .grants
            .all()
            .retain(|(key, _)| key != conversation);
    }

    /// The folders that are open to one conversation alone.
    pub fn conversation_grants(&self, conversation: &ConversationKey) -> Vec<PathBuf> {
        self.now().grants.of(Some(conversation))
    }
}
