//! A write that can be undone: the old content is put away first.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use fermix_capability::CallContext;
use fermix_sandbox::{Existing, FileError, WritablePath, Written};
use fermix_types::ToolError;
use fermix_undo::{BeforeWrite, ChangeId, UndoLog};

use super::file_write::failed;
use crate::blocking::blocking;
use crate::scope::sandbox_scope;

/// A file that is ready to be written.
pub(super) struct Planned {
    pub(super) path: WritablePath,
    /// What it holds now. Carries the lock.
    pub(super) existing: Option<Existing>,
    /// Why its old content cannot be put away; the change is made without a way back.
    pub(super) is_unreadable: bool,
    pub(super) bytes: Vec<u8>,
    /// Whether missing folders are made.
    pub(super) makes_folders: bool,
}

/// Puts the old content away and writes the new one. Nothing is written when the old content could
/// not be put away, except one that is too large for it.
pub(super) async fn write(
    undo: &UndoLog,
    planned: Planned,
    context: &CallContext,
) -> Result<(Written, Option<String>), ToolError> {
    let Planned {
        path,
        existing,
        is_unreadable,
        bytes,
        makes_folders,
    } = planned;
    let is_same = existing
        .as_ref()
        .is_some_and(|existing| existing.bytes == bytes);
    let mut note = None;
    let change = if is_same {
        None
    } else {
        let write = BeforeWrite {
            tool: context.tool.as_str(),
            conversation: context.turn.conversation.as_ref().map(ToString::to_string),
            turn_id: &context.turn.ids.turn_id,
            path: path.path(),
            before: existing.as_ref().map(|existing| existing.bytes.clone()),
            after: &bytes,
            new_folders: missing_folders(&path),
            cwd: sandbox_scope(context).cwd,
        };
        let recorded = if is_unreadable {
            note = Some(
                "the old content is too large or not readable, so this cannot be undone".to_owned(),
            );
            undo.unkept_write(write).await
        } else {
            undo.before_write(write).await
        };
        let change = recorded.map_err(|error| {
            ToolError::new(
                "write_failed",
                format!("nothing was written, because it could not be made undoable: {error}"),
            )
        })?;
        Some(change)
    };
    let target = Arc::new(path);
    let written = {
        let target = Arc::clone(&target);
        blocking(move || {
            if makes_folders {
                target.create_parents().map_err(failed)?;
            }
            target.replace(&bytes, existing).map_err(failed)
        })
        .await
    };
    if let (Some(change), false) = (
        change,
        matches!(written, Ok(Written::Created | Written::Replaced)),
    ) {
        forget(undo, change).await;
    }
    written.map(|written| (written, note))
}

/// What was not changed needs no way back. One that stays all the same is found to be "as before".
async fn forget(undo: &UndoLog, change: ChangeId) {
    if let Err(error) = undo.discard(change).await {
        tracing::warn!(%error, "a checkpoint of a change that was not made stays");
    }
}

/// The file as it is, for a write that replaces all of it.
pub(super) fn current(path: &WritablePath) -> Result<(Option<Existing>, bool), ToolError> {
    match path.read_existing(fermix_undo::MAX_OBJECT) {
        Ok(existing) => Ok((existing, false)),
        Err(FileError::TooLarge { .. }) => Ok((None, true)),
        // It can be replaced and not read.
        Err(FileError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            Ok((None, true))
        }
        // Its folder is missing, so it is.
        Err(FileError::NoParent(_)) => Ok((None, false)),
        Err(error) => Err(failed(error)),
    }
}

/// Folders above the file that do not exist, the outermost first.
fn missing_folders(path: &WritablePath) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> = path
        .path()
        .ancestors()
        .skip(1)
        .take_while(|folder| !folder.exists())
        .map(PathBuf::from)
        .collect();
    missing.reverse();
    missing
}
