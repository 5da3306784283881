//! What a repository was before a change, so that [`super::undo`] can bring it back.
//!
//! Git keeps commits and everything that was staged. It has no copy of the index as a whole, of a
//! branch's old place once its log is gone, and of changes in files that were never staged: these
//! are put away here. A change that failed, or changed nothing, leaves no checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fermix_capability::CallContext;
use fermix_types::{ToolError, ToolResult};
use fermix_undo::{ChangeId, ChangeKind, Digest, MAX_OBJECT, NewChange, UndoError, UndoLog};
use serde::{Deserialize, Serialize};

use super::on_disk::{OnDisk, look};
use super::session::{Answer, Point, Session};
use super::submodules::MAX_FILES;
use crate::blocking::blocking;
use crate::scope::sandbox_scope;

/// The most files whose changes are put away, and their bytes together.
const MAX_KEPT: usize = 200;
const MAX_KEPT_BYTES: u64 = 32 * 1024 * 1024;
/// How many names a note has.
const SHOWN: usize = 10;
/// What a merge or a pick that is under way has in Git's own folder.
const UNDER_WAY: &[&str] = &[
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
];

/// What the row of a change says; digests as text.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// The folder the turn was asked in, where the journal looks for it.
    pub(super) cwd: Option<PathBuf>,
    /// Whether the command writes files of the work tree.
    pub(super) writes_files: bool,
    pub(super) head: Head,
    /// The bytes of the index; nothing when there was none.
    pub(super) index: Option<String>,
    /// The index as Git lists it.
    pub(super) entries: String,
    /// What the change left; nothing while it is being made.
    pub(super) left: Option<Left>,
}

/// What a change left.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Left {
    pub(super) head: Head,
    pub(super) entries: String,
    /// The branches that it made, moved or removed.
    pub(super) branches: Vec<Moved>,
    /// Files that Git alone does not know.
    pub(super) files: Vec<FileMark>,
}

/// Where HEAD is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The branch; nothing when detached.
    pub(super) branch: Option<String>,
    /// The commit; nothing before the first.
    pub(super) commit: Option<String>,
}

/// A branch and the commits it was at.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) name: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

/// A file by its digests; absent ones stand for no file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileMark {
    /// Canonical.
    pub(super) path: String,
    /// Whether `before` was put away. Otherwise Git knows what was there.
    pub(super) is_kept: bool,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

/// A repository at one moment.
pub(super) struct Place {
    pub(super) head: Head,
    branches: BTreeMap<String, String>,
    /// The index as Git lists it.
    listing: Vec<u8>,
}

impl Place {
    pub(super) async fn of(session: &Session) -> Result<Self, ToolError> {
        let branch = session.query(&["symbolic-ref", "--quiet", "HEAD"]).await?;
        let commit = session
            .query(&["rev-parse", "--verify", "--quiet", "HEAD"])
            .await?;
        let said = |answer: Answer| (answer.exit == 0).then(|| answer.line());
        let head = Head {
            branch: said(branch),
            commit: said(commit),
        };
        let branches = session
            .query(&[
                "for-each-ref",
                "--format=%(refname) %(objectname)",
                "refs/heads",
            ])
            .await?;
        let branches = whole(branches, "the branches")?;
        let words = ["ls-files", "--stage", "-v", "--full-name", "-z", "--", ":/"];
        let listing = session
            .ask(&session.repository, Point::Explicit, &words, MAX_FILES)
            .await?;
        Ok(Self {
            head,
            branches: String::from_utf8_lossy(&branches)
                .lines()
                .filter_map(|line| line.split_once(' '))
                .map(|(name, commit)| (name.to_owned(), commit.to_owned()))
                .collect(),
            listing: whole(listing, "the index")?,
        })
    }

    pub(super) fn branch(&self, name: &str) -> Option<&String> {
        self.branches.get(name)
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(&self.listing)
    }

    pub(super) fn entries(&self) -> Option<Entries<'_>> {
        entries(&self.listing)
    }

    fn moved(&self, after: &Self) -> Vec<Moved> {
        let names: BTreeSet<&String> = self.branches.keys().chain(after.branches.keys()).collect();
        names
            .into_iter()
            .map(|name| Moved {
                name: name.clone(),
                before: self.branch(name).cloned(),
                after: after.branch(name).cloned(),
            })
            .filter(|moved| moved.before != moved.after)
            .collect()
    }
}

/// What the index says of each path: once, or once for each side of a conflict.
pub(super) type Entries<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// The entries of a listing; nothing when a name is no text.
pub(super) fn entries(listing: &[u8]) -> Option<Entries<'_>> {
    let mut entries = Entries::new();
    for entry in std::str::from_utf8(listing).ok()?.split_terminator('\0') {
        let (facts, path) = entry.split_once('\t')?;
        entries.entry(path).or_default().push(facts);
    }
    Some(entries)
}

/// Paths whose entries differ. Those of submodules are left out: their files are not the
/// repository's.
pub(super) fn differing<'a>(before: &Entries<'a>, after: &Entries<'a>) -> BTreeSet<&'a str> {
    let is_submodule = |facts: Option<&Vec<&str>>| {
        facts.is_some_and(|facts| facts.iter().any(|entry| entry.contains(" 160000 ")))
    };
    before
        .keys()
        .chain(after.keys())
        .copied()
        .filter(|path| {
            let (before, after) = (before.get(path), after.get(path));
            before != after && !is_submodule(before) && !is_submodule(after)
        })
        .collect()
}

/// Files that differ from the index.
pub(super) async fn unstaged(session: &Session) -> Result<BTreeSet<String>, ToolError> {
    let changed = session
        .query(&[
            "diff",
            "--name-only",
            "-z",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
        ])
        .await?;
    names(changed, "the local changes")
}

fn names(answer: Answer, what: &str) -> Result<BTreeSet<String>, ToolError> {
    let listing = whole(answer, what)?;
    let text = String::from_utf8_lossy(&listing);
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}

fn whole(answer: Answer, what: &str) -> Result<Vec<u8>, ToolError> {
    match answer.exit {
        0 => Ok(answer.stdout),
        _ => Err(ToolError::new(
            "git_failed",
            format!("git cannot list {what}:\n{}", answer.stderr.trim()),
        )),
    }
}

/// A command that is about to be run.
pub(super) struct Planned<'a> {
    pub(super) session: &'a Session,
    pub(super) undo: &'a UndoLog,
    pub(super) context: &'a CallContext,
    pub(super) command: &'static str,
    pub(super) operands: &'a [String],
}

/// A checkpoint of a change that is being made.
pub(super) struct Checkpoint<'a> {
    planned: Planned<'a>,
    /// The row, or why there is none.
    kept: Result<Kept, String>,
}

struct Kept {
    id: ChangeId,
    before: Place,
    record: Record,
    /// Files that were put away, by their paths, and their digests.
    files: BTreeMap<String, Option<String>>,
    /// Files that were not, by their names in the work tree, and whether they were tracked.
    left_out: BTreeMap<String, bool>,
}

/// Puts away what the change may take. A repository that is too large for it is changed without a
/// way back, and the answer says so.
pub(super) async fn begin(planned: Planned<'_>) -> Result<Checkpoint<'_>, ToolError> {
    let kept = match Place::of(planned.session).await {
        Ok(before) => keep(&planned, before).await?,
        Err(error) if error.tag == "output_limit" => Err("the repository is too large".to_owned()),
        Err(error) => return Err(error),
    };
    Ok(Checkpoint { planned, kept })
}

async fn keep(planned: &Planned<'_>, before: Place) -> Result<Result<Kept, String>, ToolError> {
    let (session, undo) = (planned.session, planned.undo);
    let git_dir = &session.repository.git_dir;
    if before.listing.len() as u64 > MAX_OBJECT {
        return Ok(Err("the repository is too large".to_owned()));
    }
    let Some(entries) = before.entries() else {
        return Ok(Err("a file's name is no text".to_owned()));
    };
    if is_split(git_dir) {
        return Ok(Err("the index is split into several files".to_owned()));
    }
    let index = match look(session, &git_dir.join("index"), MAX_OBJECT).await? {
        OnDisk::Absent => None,
        OnDisk::File(bytes) => Some(bytes),
        OnDisk::Other => return Ok(Err("the index cannot be read or is too large".to_owned())),
    };
    let mut bytes = index.as_ref().map_or(0, |index| index.len() as u64);
    bytes += before.listing.len() as u64;
    let mut objects = Vec::new();
    let index = match index {
        None => None,
        Some(index) => Some(undo.put(index).await.map_err(failed)?),
    };
    objects.extend(index.clone());
    let listing = undo.put(before.listing.clone()).await.map_err(failed)?;

    let writes_files = matches!(planned.command, "checkout" | "pull");
    let mut wanted: Vec<(String, Option<String>)> = UNDER_WAY
        .iter()
        .map(|name| (git_dir.join(name).to_string_lossy().into_owned(), None))
        .collect();
    if writes_files {
        let mut changed = unstaged(session).await?;
        changed.extend(overwritten(planned, &entries).await?);
        wanted.extend(changed.into_iter().map(|name| {
            let path = session.repository.work_tree.join(&name);
            (path.to_string_lossy().into_owned(), Some(name))
        }));
    }
    let (mut files, mut left_out) = (BTreeMap::new(), BTreeMap::new());
    let mut room = MAX_KEPT_BYTES;
    for (path, name) in wanted {
        let found = match files.len() < MAX_KEPT + UNDER_WAY.len() {
            true => look(session, Path::new(&path), room).await?,
            false => OnDisk::Other,
        };
        let digest = match found {
            OnDisk::Absent => None,
            OnDisk::File(content) => {
                room = room.saturating_sub(content.len() as u64);
                bytes += content.len() as u64;
                let digest = undo.put(content).await.map_err(failed)?;
                objects.push(digest.clone());
                Some(digest.as_str().to_owned())
            }
            OnDisk::Other => {
                left_out.extend(name.map(|name| {
                    let is_tracked = entries.contains_key(name.as_str());
                    (name, is_tracked)
                }));
                continue;
            }
        };
        files.insert(path, digest);
    }
    let turn = &planned.context.turn;
    let record = Record {
        cwd: sandbox_scope(planned.context).cwd,
        writes_files,
        head: before.head.clone(),
        index: index.map(|index| index.as_str().to_owned()),
        entries: listing.as_str().to_owned(),
        left: None,
    };
    let id = undo
        .record(NewChange {
            kind: ChangeKind::Git,
            tool: planned.context.tool.as_str().to_owned(),
            path: session.repository.work_tree.clone(),
            conversation: turn.conversation.as_ref().map(ToString::to_string),
            turn_id: turn.ids.turn_id.clone(),
            before: Some(listing),
            before_bytes: bytes,
            after: None,
            objects,
            detail: as_detail(&record),
        })
        .await
        .map_err(failed)?;
    Ok(Ok(Kept {
        id,
        before,
        record,
        files,
        left_out,
    }))
}

fn as_detail(record: &Record) -> serde_json::Value {
    serde_json::to_value(record).expect("a record is plain data")
}

fn failed(error: UndoError) -> ToolError {
    ToolError::new(
        "checkpoint_failed",
        format!("nothing was done, because it could not be made undoable: {error}"),
    )
}

/// Whether the index refers to another file, which Git removes after a while.
fn is_split(git_dir: &Path) -> bool {
    fs::read_dir(git_dir).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            name.as_encoded_bytes().starts_with(b"sharedindex.")
        })
    })
}

/// Untracked files in the place of files that a checkout brings.
async fn overwritten(
    planned: &Planned<'_>,
    entries: &Entries<'_>,
) -> Result<BTreeSet<String>, ToolError> {
    let session = planned.session;
    let Some(target) = planned
        .operands
        .first()
        .filter(|_| planned.command == "checkout")
    else {
        return Ok(BTreeSet::new());
    };
    let target = if target == "-" { "@{-1}" } else { target };
    let tree = format!("{target}^{{tree}}");
    let words = [
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        &tree,
    ];
    let found = session.query(&words).await?;
    if found.exit != 0 {
        return Ok(BTreeSet::new());
    }
    let tree = found.line();
    let words = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", &tree];
    let listed = session
        .ask(&session.repository, Point::Explicit, &words, MAX_FILES)
        .await?;
    let mut brought = names(listed, "the files of the commit")?;
    brought.retain(|name| !entries.contains_key(name.as_str()));
    let work_tree = session.repository.work_tree.clone();
    blocking(move || {
        brought.retain(|name| fs::symlink_metadata(work_tree.join(name)).is_ok());
        Ok(brought)
    })
    .await
}

impl Checkpoint<'_> {
    /// Completes the checkpoint of a change that was made, or forgets it.
    pub(super) async fn finish(self, answer: ToolResult) -> ToolResult {
        let Self { planned, kept } = self;
        let kept = match (kept, &answer) {
            (Ok(kept), Ok(_)) => kept,
            (Ok(kept), Err(_)) => {
                forget(planned.undo, kept.id).await;
                return answer;
            }
            (Err(_), Err(_)) => return answer,
            (Err(why), Ok(_)) => return answer.map(|output| output.note(no_way_back(&why))),
        };
        let id = kept.id;
        let (note, is_recorded) = match kept.left(planned.session).await {
            Ok(None) => (None, false),
            Ok(Some((record, note))) => match planned.undo.amend(id, as_detail(&record)).await {
                Ok(()) => (note, true),
                Err(error) => (Some(no_way_back(&error.to_string())), false),
            },
            Err(error) => (Some(no_way_back(&error.message)), false),
        };
        if !is_recorded {
            forget(planned.undo, id).await;
        }
        answer.map(|output| match note {
            Some(note) => output.note(note),
            None => output,
        })
    }
}

impl Kept {
    /// What the change left, and what does not come back with an undo. Nothing when it changed
    /// nothing.
    async fn left(self, session: &Session) -> Result<Option<(Record, Option<String>)>, ToolError> {
        let Self {
            before,
            mut record,
            files,
            left_out,
            ..
        } = self;
        let after = Place::of(session).await?;
        let (Some(old), Some(new)) = (before.entries(), after.entries()) else {
            return Err(unknown("a file whose name is no text"));
        };
        let (changed, unstaged) = match record.writes_files {
            true => (differing(&old, &new), unstaged(session).await?),
            false => (BTreeSet::new(), BTreeSet::new()),
        };
        let place = |name: &str| {
            let path = session.repository.work_tree.join(name);
            path.to_string_lossy().into_owned()
        };
        let changed_places: BTreeSet<String> = changed.iter().map(|name| place(name)).collect();
        let mut marks = Vec::new();
        for (path, before) in &files {
            let found = look(session, Path::new(path), MAX_OBJECT).await?;
            let after = found.digest().map_err(|()| unknown(path))?;
            if *before != after || changed_places.contains(path) {
                marks.push(FileMark {
                    path: path.clone(),
                    is_kept: true,
                    before: before.clone(),
                    after,
                });
            }
        }
        // What Git does not answer for is remembered by its digest.
        for name in &changed {
            let path = place(name);
            if files.contains_key(&path) || (new.contains_key(name) && !unstaged.contains(*name)) {
                continue;
            }
            let found = look(session, Path::new(&path), MAX_OBJECT).await?;
            let after = found.digest().map_err(|()| unknown(&path))?;
            marks.push(FileMark {
                path,
                is_kept: false,
                before: None,
                after,
            });
        }
        let branches = before.moved(&after);
        let is_same = before.head == after.head
            && before.listing == after.listing
            && branches.is_empty()
            && marks.is_empty();
        if is_same && left_out.is_empty() {
            return Ok(None);
        }
        let lost: Vec<&String> = left_out
            .iter()
            .filter(|(name, is_tracked)| {
                changed.contains(name.as_str()) || **is_tracked && !unstaged.contains(*name)
            })
            .map(|(name, _)| name)
            .collect();
        let note = (!lost.is_empty()).then(|| {
            let shown: Vec<&str> = lost.iter().take(SHOWN).map(|name| name.as_str()).collect();
            let more = lost.len().saturating_sub(SHOWN);
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "the local changes of {}{more} are not kept for an undo: they are too many, too large or no plain files",
                shown.join(", ").escape_debug()
            )
        });
        if is_same {
            return match note {
                None => Ok(None),
                Some(note) => Err(ToolError::new("git_failed", note)),
            };
        }
        record.left = Some(Left {
            head: after.head.clone(),
            entries: after.digest().as_str().to_owned(),
            branches,
            files: marks,
        });
        Ok(Some((record, note)))
    }
}

fn unknown(what: &str) -> ToolError {
    ToolError::new("git_failed", format!("`{what}` cannot be looked at"))
}

fn no_way_back(why: &str) -> String {
    format!("this change cannot be undone: {why}")
}

/// What was not changed needs no way back. One that stays all the same is refused as unfinished.
async fn forget(undo: &UndoLog, id: ChangeId) {
    if let Err(error) = undo.discard(id).await {
        tracing::warn!(%error, "a checkpoint of a change that was not made stays");
    }
}
