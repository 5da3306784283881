//! Switching, and telling what was thrown away on the way.

use std::collections::BTreeSet;

use fermix_types::{ToolError, ToolResult};

use super::{Change, named, paths, with_note};
use crate::git::session::{Point, Session};
use crate::git::submodules::MAX_FILES;

pub(super) async fn run(change: Change<'_>) -> ToolResult {
    change.refuse_home()?;
    let is_forced = change.arguments.has(&["-f", "--force"]);
    let before = State::of(change.session, is_forced).await?;
    // What Git says about local changes after a switch it finds by looking into the submodules of
    // the new branch, whose settings nobody has seen.
    let output = change.make(change.words(&["--quiet"])).await?;
    let found = discarded(&change, &before, is_forced).await;
    Ok(with_note(output, found))
}

/// What `before` had and nobody has any more.
async fn discarded(
    change: &Change<'_>,
    before: &State,
    is_forced: bool,
) -> Result<Option<String>, ToolError> {
    let after = State::of(change.session, false).await?;
    let mut lost: BTreeSet<&String> = before.unstaged.difference(&after.unstaged).collect();
    // A switch keeps what is staged. Without one, paths were taken from a commit or the index.
    if is_forced || before.head == after.head {
        lost.extend(before.staged.difference(&after.staged));
    }
    let tracked;
    if !before.untracked.is_empty() {
        let listed = list(change.session, &["--cached"]).await?;
        tracked = paths(listed, "the files")?.into_iter().collect();
        lost.extend(before.untracked.intersection(&tracked));
    }
    Ok((!lost.is_empty())
        .then(|| format!("discarded local changes in: {}", named(lost.into_iter()))))
}

/// The files of the index, or those beside it.
async fn list(session: &Session, which: &[&str]) -> Result<super::Answer, ToolError> {
    let mut words = vec!["ls-files", "--full-name", "-z"];
    words.extend(which);
    words.extend(["--", ":/"]);
    session
        .ask(&session.repository, Point::Explicit, &words, MAX_FILES)
        .await
}

/// What a checkout may change.
struct State {
    head: String,
    unstaged: BTreeSet<String>,
    staged: BTreeSet<String>,
    /// Looked for only when they may be overwritten.
    untracked: BTreeSet<String>,
}

impl State {
    async fn of(session: &Session, with_untracked: bool) -> Result<Self, ToolError> {
        let branch = session.query(&["symbolic-ref", "--quiet", "HEAD"]).await?;
        let commit = session
            .query(&["rev-parse", "--verify", "--quiet", "HEAD"])
            .await?;
        let changed = |more: &'static [&'static str]| {
            let mut words = vec![
                "diff",
                "--name-only",
                "-z",
                "--no-renames",
                "--no-ext-diff",
                "--no-textconv",
                "--ignore-submodules=all",
            ];
            words.extend(more);
            async move { paths(session.query(&words).await?, "the local changes") }
        };
        let untracked = match with_untracked {
            true => {
                let listed = list(session, &["--others", "--exclude-standard"]).await?;
                paths(listed, "the untracked files")?
            }
            false => Vec::new(),
        };
        Ok(Self {
            head: format!("{} {}", branch.line(), commit.line()),
            unstaged: changed(&[]).await?.into_iter().collect(),
            staged: changed(&["--cached"]).await?.into_iter().collect(),
            untracked: untracked.into_iter().collect(),
        })
    }
}
