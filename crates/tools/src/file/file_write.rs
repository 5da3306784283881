//! `file_write`: creates a file or replaces the whole content of one.

use fermix_capability::{Audience, CallContext, Capability, RegistrationError};
use fermix_sandbox::{FileError, Sandbox, Written};
use fermix_types::{Category, PolicyClass, ToolError, ToolOutput, ToolResult};
use fermix_undo::UndoLog;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::MAX_FILE;
use super::checkpoint::{self, Planned};
use crate::blocking::blocking;
use crate::scope::sandbox_scope;

/// Create a text file, or replace the whole content of one.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Absolute, `~/…`, or relative to the working directory.
    #[schemars(length(min = 1))]
    path: String,
    /// The whole new content; may be empty.
    content: String,
    /// Create missing parent folders. Default true.
    mkdir: Option<bool>,
}

/// The capability over `sandbox`. What it replaces is put away in `undo`.
pub fn capability(sandbox: Sandbox, undo: UndoLog) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "file_write",
        PolicyClass::ReadWrite,
        Category::File,
        Audience::Anyone,
    )
    .when_to_use("Create a file or replace all of it; to change part of one, use `file_edit`.")
    .example(
        json!({"path": "notes/todo.md", "content": "- water the plants\n"}),
        "Creates the file, and the folder `notes` when it is missing.",
    )
    .failure("missing_parameters", "`path` or `content` is missing.")
    .failure(
        "invalid_path",
        "The path is empty, has a null byte, or cannot be resolved.",
    )
    .failure(
        "sandbox_denied",
        "The path is outside the sandbox roots, protected or blocked; the message names the remedy.",
    )
    .failure(
        "guarded_path",
        "Something would run the file later; the message says what and what to do instead.",
    )
    .failure(
        "is_directory",
        "The path names a folder; name a file inside it.",
    )
    .failure(
        "not_regular_file",
        "The path names a FIFO, a device or a socket.",
    )
    .failure("too_large", "`content` has more than 10 MiB.")
    .failure(
        "changed",
        "Somebody else wrote the file at the same moment; read it and decide again.",
    )
    .failure(
        "locked",
        "Another program holds a lock on the file; try again when it is done.",
    )
    .failure("stopped", "fermix is shutting down.")
    .failure(
        "write_failed",
        "The disk refused; the old content is still there.",
    )
    .handler(move |args: Args, context| {
        run(sandbox.clone(), undo.clone(), args, context)
    })
}

async fn run(sandbox: Sandbox, undo: UndoLog, args: Args, context: CallContext) -> ToolResult {
    if args.content.len() > MAX_FILE {
        return Err(ToolError::new(
            "too_large",
            format!(
                "content has {} bytes and the limit is {MAX_FILE}; write it in smaller files, or have a command produce it",
                args.content.len()
            ),
        ));
    }
    let scope = sandbox_scope(&context);
    let bytes = args.content.len();
    let planned = blocking(move || {
        let path = sandbox.writable(&args.path, &scope)?;
        let (existing, is_unreadable) = checkpoint::current(&path)?;
        Ok(Planned {
            path,
            existing,
            is_unreadable,
            bytes: args.content.into_bytes(),
            makes_folders: args.mkdir.unwrap_or(true),
        })
    })
    .await?;
    let shown = planned.path.path().display().to_string();
    let (written, note) = checkpoint::write(&undo, planned, &context).await?;
    let output: ToolOutput = match written {
        Written::Created | Written::Replaced => format!("Wrote {bytes} bytes to {shown}"),
        Written::Unchanged => {
            format!("{shown} already holds exactly these {bytes} bytes; unchanged")
        }
    }
    .into();
    Ok(match note {
        Some(note) => output.note(note),
        None => output,
    })
}

/// The answer for a file that could not be written, under the tags this tool documents.
pub(super) fn failed(error: FileError) -> ToolError {
    match error {
        FileError::Io { .. } => ToolError::new("write_failed", error.to_string()),
        FileError::NoParent(_) => ToolError::new(
            "write_failed",
            format!("{error}; leave `mkdir` out to have it created"),
        ),
        FileError::Denied(_)
        | FileError::NotFound(_)
        | FileError::IsDirectory(_)
        | FileError::NotRegular(_)
        | FileError::TooLarge { .. }
        | FileError::Changed(_)
        | FileError::Locked(_) => error.into(),
    }
}
