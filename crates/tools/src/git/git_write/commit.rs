//! Committing, with a message that is there.

use fermix_types::{ToolError, ToolResult};

use super::add::holds_secrets;
use super::{Change, named, paths, with_note};

pub(super) async fn run(change: Change<'_>) -> ToolResult {
    check_message(&change)?;
    let output = change.make(change.words(&[])).await?;
    if change
        .arguments
        .has(&["--dry-run", "--short", "--porcelain", "--long"])
    {
        return Ok(output);
    }
    Ok(with_note(output, committed_secrets(&change).await))
}

async fn committed_secrets(change: &Change<'_>) -> Result<Option<String>, ToolError> {
    let committed = change
        .session
        .query(&[
            "diff-tree",
            "--root",
            "-r",
            "--no-commit-id",
            "--name-only",
            "-z",
            "--diff-filter=d",
            "HEAD",
        ])
        .await?;
    let committed = paths(committed, "the files of the new commit")?;
    let secrets: Vec<&String> = committed
        .iter()
        .filter(|path| holds_secrets(path))
        .collect();
    Ok((!secrets.is_empty()).then(|| {
        format!(
            "warning: the commit holds files that usually hold secrets: {}; before anybody pushes it, take them out with another commit --amend",
            named(secrets.into_iter())
        )
    }))
}

/// A message is given, is taken from a commit, or was prepared by a merge. Nobody is at an editor.
fn check_message(change: &Change<'_>) -> Result<(), ToolError> {
    let has = |names: &[&str]| change.arguments.has(names);
    let is_given = has(&[
        "-m",
        "--message",
        "-C",
        "--reuse-message",
        "--fixup",
        "--dry-run",
        "--short",
        "--porcelain",
        "--long",
    ]);
    let is_kept = has(&["--no-edit"]) && (has(&["--amend"]) || is_merging(change));
    if is_given || is_kept {
        return Ok(());
    }
    Err(ToolError::new(
        "message_missing",
        "a commit needs a message, and there is nobody at an editor: pass -m MESSAGE, or --amend --no-edit to keep that of the last commit",
    ))
}

/// Whether a merge has left its message. A link in its place is not followed.
fn is_merging(change: &Change<'_>) -> bool {
    let git_dir = &change.session.repository.git_dir;
    ["MERGE_HEAD", "MERGE_MSG"].iter().all(|name| {
        std::fs::symlink_metadata(git_dir.join(name)).is_ok_and(|found| found.is_file())
    })
}
