//! Undoing the change of one file.

use std::path::{Path, PathBuf};

use fermix_sandbox::{Existing, FileError, Sandbox, Scope, WritablePath};
use fermix_types::ToolError;
use serde_json::{Value, json};

use crate::journal::{Change, ChangeId, ChangeKind, NewChange};
use crate::objects::Digest;
use crate::{MAX_OBJECT, UndoError, UndoLog, blocking};

/// A file as a tool is about to change it.
#[derive(Debug)]
pub struct BeforeWrite<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The conversation, as text.
    pub conversation: Option<String>,
    /// The turn.
    pub turn_id: &'a str,
    /// The file; canonical.
    pub path: &'a Path,
    /// What it holds; nothing when it does not exist.
    pub before: Option<Vec<u8>>,
    /// What it will hold.
    pub after: &'a [u8],
    /// Folders that do not exist yet and will be made for it, the outermost first.
    pub new_folders: Vec<PathBuf>,
    /// The folder the turn was asked in, which may be what admitted the file.
    pub cwd: Option<PathBuf>,
}

/// What became of an undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The file has its old content again.
    Content,
    /// The file, which the change had created, is gone again.
    Removed,
    /// The file was as before the change already.
    AlreadyAsBefore,
}

impl UndoLog {
    /// Puts `bytes` away. They stay as long as a change names them among its
    /// [`NewChange::objects`].
    pub async fn put(&self, bytes: Vec<u8>) -> Result<Digest, UndoError> {
        let objects = self.objects.clone();
        blocking(move || objects.put(&bytes)).await
    }

    /// The content that [`UndoLog::put`] put away for `change`.
    pub async fn get(&self, change: &Change, digest: &Digest) -> Result<Vec<u8>, UndoError> {
        let (objects, wanted) = (self.objects.clone(), digest.clone());
        let lost = UndoError::ContentLost {
            path: change.path.clone(),
            objects: objects.folder().to_owned(),
        };
        blocking(move || Ok(objects.get(&wanted)))
            .await?
            .ok_or(lost)
    }

    /// Puts the old content away and writes the change down. To be called before the file is
    /// touched; after a write that failed, [`UndoLog::discard`] the number.
    pub async fn before_write(&self, write: BeforeWrite<'_>) -> Result<ChangeId, UndoError> {
        let before_bytes = write
            .before
            .as_ref()
            .map_or(0, |before| before.len() as u64);
        let objects = self.objects.clone();
        let before = match write.before {
            Some(bytes) => Some(blocking(move || objects.put(&bytes)).await?),
            None => None,
        };
        self.record(NewChange {
            kind: ChangeKind::File,
            tool: write.tool.to_owned(),
            path: write.path.to_owned(),
            conversation: write.conversation,
            turn_id: write.turn_id.to_owned(),
            before,
            before_bytes,
            after: Some(Digest::of(write.after)),
            objects: Vec::new(),
            detail: json!({ "new_folders": write.new_folders, "cwd": write.cwd }),
        })
        .await
    }

    /// Writes down a change whose old content is not kept, so that it is not passed over when the last
    /// change is to be taken back.
    pub async fn unkept_write(&self, write: BeforeWrite<'_>) -> Result<ChangeId, UndoError> {
        self.record(NewChange {
            kind: ChangeKind::File,
            tool: write.tool.to_owned(),
            path: write.path.to_owned(),
            conversation: write.conversation,
            turn_id: write.turn_id.to_owned(),
            before: None,
            before_bytes: 0,
            after: Some(Digest::of(write.after)),
            objects: Vec::new(),
            detail: json!({ "kept": false, "cwd": write.cwd }),
        })
        .await
    }

    /// Gives the file of `change` its old content back, unless it has changed since. The policy of
    /// `scope` decides whether it may be written.
    pub async fn restore_file(
        &self,
        change: &Change,
        sandbox: &Sandbox,
        scope: &Scope,
    ) -> Result<Restored, UndoError> {
        if !change.is_kept() {
            return Err(UndoError::Refused(format!(
                "the old content of `{}` was too large or not readable, so it was not kept; earlier changes can be taken back by their number",
                change.path.display()
            )));
        }
        let (objects, sandbox, scope) = (self.objects.clone(), sandbox.clone(), scope.clone());
        let wanted = change.clone();
        let restored = blocking(move || {
            let path = wanted.path.to_string_lossy().into_owned();
            let file = sandbox
                .writable(&path, &scope)
                .map_err(|denied| UndoError::Refused(ToolError::from(denied).message))?;
            let now = file
                .read_existing(MAX_OBJECT)
                .map_err(|error| changed_or(error, &wanted.path))?;
            let digest = now.as_ref().map(|existing| Digest::of(&existing.bytes));
            if digest == wanted.before {
                return Ok(Restored::AlreadyAsBefore);
            }
            if digest != wanted.after {
                return Err(UndoError::ChangedSince(wanted.path));
            }
            let Some(existing) = now else {
                return Err(UndoError::ChangedSince(wanted.path));
            };
            put_back(&file, existing, &wanted, &objects, (&sandbox, &scope))
        })
        .await?;
        self.mark_undone(change.id).await?;
        Ok(restored)
    }
}

fn put_back(
    file: &WritablePath,
    existing: Existing,
    change: &Change,
    objects: &crate::objects::Objects,
    (sandbox, scope): (&Sandbox, &Scope),
) -> Result<Restored, UndoError> {
    let Some(before) = &change.before else {
        file.remove(existing)
            .map_err(|error| changed_or(error, &change.path))?;
        // A folder that holds something by now stays, and so does everything above it.
        for folder in new_folders(&change.detail).iter().rev() {
            let Ok(folder) = sandbox.writable(folder, scope) else {
                break;
            };
            if folder.remove_empty_folder().is_err() {
                break;
            }
        }
        return Ok(Restored::Removed);
    };
    let bytes = objects.get(before).ok_or_else(|| UndoError::ContentLost {
        path: change.path.clone(),
        objects: objects.folder().to_owned(),
    })?;
    file.replace(&bytes, Some(existing))
        .map_err(|error| changed_or(error, &change.path))?;
    Ok(Restored::Content)
}

fn changed_or(error: FileError, path: &Path) -> UndoError {
    match error {
        FileError::Changed(_) | FileError::TooLarge { .. } | FileError::IsDirectory(_) => {
            UndoError::ChangedSince(path.to_owned())
        }
        other => UndoError::Refused(other.to_string()),
    }
}

fn new_folders(detail: &Value) -> Vec<String> {
    let folders = detail.get("new_folders").and_then(Value::as_array);
    folders
        .into_iter()
        .flatten()
        .filter_map(|folder| folder.as_str().map(str::to_owned))
        .collect()
}
