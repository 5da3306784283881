//! `file_edit`: replaces one piece of a file, named by its exact text.
//!
//! The file is bytes throughout: what is not replaced keeps every byte, whatever its encoding. An
//! anchor matches exactly or not at all; the one freedom is that a bare line feed in it also
//! matches the file's CRLF, since models are shown lines and not line endings.

mod anchor;
mod nearest;

use fermix_capability::{Audience, CallContext, Capability, RegistrationError};
use fermix_sandbox::{Sandbox, WritablePath, Written};
use fermix_types::{Category, PolicyClass, ToolError, ToolOutput, ToolResult};
use fermix_undo::UndoLog;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::anchor::Anchor;
use super::MAX_FILE;
use super::checkpoint::{self, Planned};
use super::file_write::failed;
use crate::blocking::blocking;
use crate::scope::sandbox_scope;

/// How many matches of an ambiguous anchor are named by their line.
const SHOWN_LINES: usize = 10;

/// Replace one exact piece of a text file. `old_string` must occur exactly once.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Absolute, `~/…`, or relative to the working directory.
    #[schemars(length(min = 1))]
    path: String,
    /// Exact text, indentation included, with enough lines around it to be unique.
    #[schemars(length(min = 1))]
    old_string: String,
    /// What takes its place; empty removes it.
    new_string: String,
    /// Replace every occurrence. Default false.
    replace_all: Option<bool>,
}

/// The capability over `sandbox`. What it replaces is put away in `undo`.
pub fn capability(sandbox: Sandbox, undo: UndoLog) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "file_edit",
        PolicyClass::ReadWrite,
        Category::File,
        Audience::Anyone,
    )
    .when_to_use(
        "Change part of a file you have read; to create or replace a whole file, use `file_write`.",
    )
    .example(
        json!({"path": "src/main.rs", "old_string": "let limit = 10;", "new_string": "let limit = 20;"}),
        "Changes the one line and leaves every other byte as it is.",
    )
    .failure(
        "not_found",
        "No such file, or `old_string` does not occur; the nearest lines are shown. Copy the text exactly.",
    )
    .failure(
        "not_unique",
        "`old_string` occurs more than once; the lines are named. Add neighbouring lines, or set `replace_all`.",
    )
    .failure(
        "invalid_path",
        "The path is empty, has a `..` component or a null byte, or cannot be resolved.",
    )
    .failure(
        "sandbox_denied",
        "The path is outside the sandbox roots, protected or blocked; the message names the remedy.",
    )
    .failure(
        "guarded_path",
        "Something would run the file later; the message says what and what to do instead.",
    )
    .failure("is_directory", "The path names a folder.")
    .failure(
        "not_regular_file",
        "The path names a FIFO, a device or a socket.",
    )
    .failure("too_large", "The file has, or would have, more than 10 MiB.")
    .failure(
        "changed",
        "Somebody else changed the file while it was edited; read it again.",
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
    if args.path.split('/').any(|part| part == "..") {
        return Err(ToolError::new(
            "invalid_path",
            format!(
                "Path traversal is not allowed: {}. Name the file without `..`",
                args.path
            ),
        ));
    }
    if args.old_string.is_empty() {
        return Err(ToolError::new(
            "not_found",
            "Invalid old_string: it is empty; give the text to replace",
        ));
    }
    let scope = sandbox_scope(&context);
    let edit = blocking(move || {
        let path = sandbox.writable(&args.path, &scope)?;
        edit(path, &args)
    })
    .await?;
    let shown = edit.planned.path.path().display().to_string();
    let (written, _) = checkpoint::write(&undo, edit.planned, &context).await?;
    let output: ToolOutput = match written {
        Written::Unchanged => format!("{shown} already reads so; unchanged"),
        Written::Created | Written::Replaced => format!("Replaced {} in {shown}", edit.what),
    }
    .into();
    // The new content is another file under this name. Writing into the old one would leave half of
    // it behind after a crash, and would change files that may lie anywhere.
    let is_detached = edit.names > 1 && written == Written::Replaced;
    Ok(if is_detached {
        output.note(format!(
            "the file had {} names (hard links); only this one has the new content now, and the others keep the old",
            edit.names
        ))
    } else {
        output
    })
}

/// An edit that was worked out and not made.
struct Edit {
    planned: Planned,
    /// What is replaced, in words.
    what: String,
    /// How many names the file has.
    names: u64,
}

fn edit(path: WritablePath, args: &Args) -> Result<Edit, ToolError> {
    let shown = path.path().display();
    // Whoever else edits this file waits until the answer.
    let Some(existing) = path.read_existing(MAX_FILE as u64).map_err(failed)? else {
        return Err(ToolError::new(
            "not_found",
            format!("File not found: {shown}"),
        ));
    };
    let file = existing.bytes.as_slice();
    let anchor = Anchor::new(file, args.old_string.as_bytes());
    let replace_all = args.replace_all.unwrap_or(false);
    let count = anchor.matches().count();
    if count == 0 {
        let hint = nearest::hint(file, &args.old_string);
        return Err(ToolError::new(
            "not_found",
            format!("old_string not found in {shown}. {hint}"),
        ));
    }
    if count > 1 && !replace_all {
        let lines = anchor.lines(SHOWN_LINES);
        let more = if count > lines.len() { ", …" } else { "" };
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        return Err(ToolError::new(
            "not_unique",
            format!(
                "old_string is not unique; found {count} occurrences, at lines {}{more} of {shown}. Add neighbouring lines, or set replace_all",
                lines.join(", ")
            ),
        ));
    }
    let (replacements, removed) = anchor
        .matches_apart()
        .fold((0, 0), |(number, bytes), place| {
            (number + 1, bytes + place.len())
        });
    let at_least = args.new_string.len().saturating_mul(replacements) + (file.len() - removed);
    if at_least > MAX_FILE {
        return Err(too_large(&path));
    }
    let changed = anchor.replaced_by(&args.new_string);
    if changed.len() > MAX_FILE {
        return Err(too_large(&path));
    }
    let names = existing.names;
    let what = match (replace_all, replacements) {
        (false, _) => "unique anchor".to_owned(),
        (true, 1) => "1 occurrence".to_owned(),
        (true, number) => format!("{number} occurrences"),
    };
    Ok(Edit {
        planned: Planned {
            path,
            existing: Some(existing),
            is_unreadable: false,
            bytes: changed,
            makes_folders: false,
        },
        what,
        names,
    })
}

fn too_large(path: &WritablePath) -> ToolError {
    ToolError::new(
        "too_large",
        format!(
            "the edited file would have more than {MAX_FILE} bytes: {}; make a smaller change",
            path.path().display()
        ),
    )
}
