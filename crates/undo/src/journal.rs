//! Which changes there were: one row each, in the database.

use std::path::PathBuf;

use fermix_store::StoreError;
use fermix_store::rusqlite::{self, OptionalExtension as _, Row, Transaction, params};
use fermix_types::UnixMillis;
use serde::Serialize;
use serde_json::Value;

use crate::objects::Digest;
use crate::{KEEP_DAYS, MAX_BYTES, MAX_CHANGES, UndoError, UndoLog};

/// A change's number; later changes have higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ChangeId(pub i64);

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// One file.
    File,
    /// A repository, by git.
    Git,
}

impl ChangeKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Git => "git",
        }
    }
}

/// A change that is about to be made.
#[derive(Clone, Debug)]
pub struct NewChange {
    /// What is changed.
    pub kind: ChangeKind,
    /// The tool.
    pub tool: String,
    /// The file or the repository's folder; canonical.
    pub path: PathBuf,
    /// The conversation, as text.
    pub conversation: Option<String>,
    /// The turn.
    pub turn_id: String,
    /// The content before; absent when there was no file.
    pub before: Option<Digest>,
    /// Its length in bytes.
    pub before_bytes: u64,
    /// The content afterwards.
    pub after: Option<Digest>,
    /// Old contents besides `before` that it needs; they go when it goes.
    pub objects: Vec<Digest>,
    /// What else its restoration needs.
    pub detail: Value,
}

/// A change that was made.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Its number.
    pub id: ChangeId,
    /// What was changed.
    pub kind: ChangeKind,
    /// When, in milliseconds since 1970.
    pub at: UnixMillis,
    /// The tool.
    pub tool: String,
    /// The file or the repository's folder.
    pub path: PathBuf,
    /// The conversation.
    pub conversation: Option<String>,
    /// The turn.
    pub turn_id: String,
    /// Whether the file was there before.
    pub existed: bool,
    /// Whether it was undone.
    pub is_undone: bool,
    /// The content before.
    #[serde(skip)]
    pub before: Option<Digest>,
    /// The content afterwards.
    #[serde(skip)]
    pub after: Option<Digest>,
    /// What else its restoration needs.
    #[serde(skip)]
    pub detail: Value,
}

impl Change {
    /// The folder the turn of the change was asked in.
    pub fn cwd(&self) -> Option<PathBuf> {
        self.detail.get("cwd")?.as_str().map(PathBuf::from)
    }

    /// Whether the old content was kept.
    pub fn is_kept(&self) -> bool {
        self.detail.get("kept") != Some(&Value::Bool(false))
    }
}

impl UndoLog {
    /// Writes down a change that is about to be made, and forgets the oldest ones beyond the bounds.
    pub async fn record(&self, change: NewChange) -> Result<ChangeId, UndoError> {
        let now = self.clock.now();
        let (id, forgotten) = self
            .store()
            .await?
            .write(move |transaction| {
                let id = insert(transaction, &change, now)?;
                let forgotten = prune(transaction, now)?;
                Ok::<_, StoreError>((id, forgotten))
            })
            .await?;
        self.remove_objects(forgotten).await;
        Ok(id)
    }

    /// Forgets a change that was not made after all.
    pub async fn discard(&self, id: ChangeId) -> Result<(), UndoError> {
        let forgotten = self
            .store()
            .await?
            .write(move |transaction| {
                let gone = named_by(transaction, "= ?1", id.0)?;
                transaction.execute("DELETE FROM change_object WHERE change_id = ?1", [id.0])?;
                transaction.execute("DELETE FROM change WHERE id = ?1", [id.0])?;
                unused(transaction, gone)
            })
            .await?;
        self.remove_objects(forgotten).await;
        Ok(())
    }

    /// Completes what is known of a change that is only known afterwards.
    pub async fn amend(&self, id: ChangeId, detail: Value) -> Result<(), UndoError> {
        self.store()
            .await?
            .write(move |transaction| {
                transaction.execute(
                    "UPDATE change SET detail = ?2 WHERE id = ?1",
                    params![id.0, detail.to_string()],
                )?;
                Ok::<_, StoreError>(())
            })
            .await?;
        Ok(())
    }

    /// The newest changes, newest first; those of one conversation when one is given.
    pub async fn list(
        &self,
        conversation: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Change>, UndoError> {
        let conversation = conversation.map(str::to_owned);
        let changes = self
            .store()
            .await?
            .read(move |connection| {
                let mut statement = connection.prepare(
                    "SELECT id, kind, at, tool, path, conversation, turn_id, before, after, detail, undone_at
                     FROM change WHERE ?1 IS NULL OR conversation = ?1 ORDER BY id DESC LIMIT ?2",
                )?;
                let rows = statement
                    .query_map(params![conversation, limit], read_change)?
                    .collect::<Result<Vec<_>, _>>()?;
                Ok::<_, StoreError>(rows)
            })
            .await?;
        Ok(changes)
    }

    /// The change with this number, or the newest one that was not undone.
    pub async fn find(
        &self,
        id: Option<i64>,
        conversation: Option<&str>,
    ) -> Result<Change, UndoError> {
        let conversation = conversation.map(str::to_owned);
        let change = self
            .store()
            .await?
            .read(move |connection| {
                let found = connection
                    .query_row(
                        "SELECT id, kind, at, tool, path, conversation, turn_id, before, after, detail, undone_at
                         FROM change
                         WHERE (?1 IS NULL OR id = ?1) AND (?2 IS NULL OR conversation = ?2)
                           AND (?1 IS NOT NULL OR undone_at IS NULL)
                         ORDER BY id DESC LIMIT 1",
                        params![id, conversation],
                        read_change,
                    )
                    .optional()?;
                Ok::<_, StoreError>(found)
            })
            .await?
            .ok_or(UndoError::Nothing(id))?;
        if change.is_undone {
            return Err(UndoError::AlreadyUndone(change.id.0));
        }
        Ok(change)
    }

    /// Writes down that a change was undone.
    pub async fn mark_undone(&self, id: ChangeId) -> Result<(), UndoError> {
        let now = self.clock.now();
        self.store()
            .await?
            .write(move |transaction| {
                transaction.execute(
                    "UPDATE change SET undone_at = ?2 WHERE id = ?1",
                    params![id.0, now.0],
                )?;
                Ok::<_, StoreError>(())
            })
            .await?;
        Ok(())
    }

    /// A content that was removed from the rows and is still on disk costs space until the next
    /// change of the same file, and nothing else.
    async fn remove_objects(&self, digests: Vec<Digest>) {
        if digests.is_empty() {
            return;
        }
        let objects = self.objects.clone();
        let removed = crate::blocking(move || {
            for digest in &digests {
                objects.remove(digest);
            }
            Ok(())
        });
        if let Err(error) = removed.await {
            tracing::warn!(%error, "old contents stay until later");
        }
    }
}

fn insert(
    transaction: &Transaction<'_>,
    change: &NewChange,
    now: UnixMillis,
) -> Result<ChangeId, StoreError> {
    transaction.execute(
        "INSERT INTO change (kind, at, tool, path, conversation, turn_id, before, before_bytes, after, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            change.kind.as_str(),
            now.0,
            change.tool,
            change.path.to_string_lossy(),
            change.conversation,
            change.turn_id,
            change.before.as_ref().map(Digest::as_str),
            i64::try_from(change.before_bytes).unwrap_or(i64::MAX),
            change.after.as_ref().map(Digest::as_str),
            change.detail.to_string(),
        ],
    )?;
    let id = transaction.last_insert_rowid();
    let mut statement = transaction
        .prepare("INSERT OR IGNORE INTO change_object (change_id, digest) VALUES (?1, ?2)")?;
    for digest in &change.objects {
        statement.execute(params![id, digest.as_str()])?;
    }
    Ok(ChangeId(id))
}

/// Deletes the oldest rows beyond the bounds. Gives the contents nobody needs any more.
fn prune(transaction: &Transaction<'_>, now: UnixMillis) -> Result<Vec<Digest>, StoreError> {
    let oldest = now.0 - KEEP_DAYS * 24 * 60 * 60 * 1000;
    let too_old: Option<i64> = transaction.query_row(
        "SELECT max(id) FROM change WHERE at < ?1",
        [oldest],
        |row| row.get(0),
    )?;
    let too_many: Option<i64> = transaction
        .query_row(
            "SELECT id FROM change ORDER BY id DESC LIMIT 1 OFFSET ?1",
            [MAX_CHANGES],
            |row| row.get(0),
        )
        .optional()?;
    // Whatever its size, the newest change stays.
    let too_large: Option<i64> = transaction.query_row(
        "SELECT max(id) FROM (SELECT id, sum(before_bytes) OVER (ORDER BY id DESC) AS total FROM change)
         WHERE total > ?1 AND id < (SELECT max(id) FROM change)",
        [i64::try_from(MAX_BYTES).unwrap_or(i64::MAX)],
        |row| row.get(0),
    )?;
    let Some(last) = too_old.max(too_many).max(too_large) else {
        return Ok(Vec::new());
    };
    let gone = named_by(transaction, "<= ?1", last)?;
    transaction.execute("DELETE FROM change_object WHERE change_id <= ?1", [last])?;
    transaction.execute("DELETE FROM change WHERE id <= ?1", [last])?;
    unused(transaction, gone)
}

/// The contents that the changes need whose number is as `which` says of `id`.
fn named_by(
    transaction: &Transaction<'_>,
    which: &'static str,
    id: i64,
) -> Result<Vec<String>, StoreError> {
    let query = format!(
        "SELECT before FROM change WHERE id {which} AND before IS NOT NULL
         UNION SELECT digest FROM change_object WHERE change_id {which}"
    );
    let named = transaction
        .prepare(&query)?
        .query_map([id], |row| row.get(0))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(named)
}

/// Of `digests`, those that no row names.
fn unused(transaction: &Transaction<'_>, digests: Vec<String>) -> Result<Vec<Digest>, StoreError> {
    let mut statement = transaction.prepare(
        "SELECT 1 FROM change WHERE before = ?1
         UNION ALL SELECT 1 FROM change_object WHERE digest = ?1 LIMIT 1",
    )?;
    let mut unused = Vec::new();
    for digest in digests {
        if !statement.exists([&digest])? {
            unused.extend(Digest::parse(&digest));
        }
    }
    Ok(unused)
}

fn read_change(row: &Row<'_>) -> rusqlite::Result<Change> {
    let digest = |text: Option<String>| text.as_deref().and_then(Digest::parse);
    let before: Option<String> = row.get(7)?;
    let detail: String = row.get(9)?;
    Ok(Change {
        id: ChangeId(row.get(0)?),
        kind: if row.get::<_, String>(1)? == ChangeKind::Git.as_str() {
            ChangeKind::Git
        } else {
            ChangeKind::File
        },
        at: UnixMillis(row.get(2)?),
        tool: row.get(3)?,
        path: PathBuf::from(row.get::<_, String>(4)?),
        conversation: row.get(5)?,
        turn_id: row.get(6)?,
        existed: before.is_some(),
        is_undone: row.get::<_, Option<i64>>(10)?.is_some(),
        before: digest(before),
        after: digest(row.get(8)?),
        detail: serde_json::from_str(&detail).unwrap_or(Value::Null),
    })
}
