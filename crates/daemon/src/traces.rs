//! Trace rows on disk: `traces/<UTC date>/<kind>.jsonl` under the home, one JSON object a line.
//!
//! Each row is one `write` to a file opened for appending, so rows of several processes never mix
//! and a crash loses at most the row being written. Secrets are removed from the finished line.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fermix_secrets::Redactor;
use fermix_types::{Clock, TraceKind, TraceRow, TraceSink, UnixMillis, text};
use serde_json::{Map, Value};

/// How many bytes of a content field are kept in a row that is too long.
const PREVIEW: usize = 2_000;
/// A longer row is cut at its longest field.
const MAX_ROW: usize = 1 << 20;
/// Days of traces kept.
const KEEP_DAYS: i64 = 30;
/// Bytes of traces kept.
const KEEP_BYTES: u64 = 1 << 30;

/// Whether message and tool bodies are kept whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCapture {
    /// Whole.
    On,
    /// Left out (`FERMIX_TRACE_CONTENT=0`).
    Off,
}

/// Writes rows. A row that cannot be written is dropped with one log line: traces never fail a
/// turn.
pub struct TraceFiles {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    redactor: Arc<Redactor>,
    capture: ContentCapture,
    open: Mutex<OpenDay>,
}

#[derive(Default)]
struct OpenDay {
    date: String,
    files: HashMap<TraceKind, File>,
}

impl TraceFiles {
    /// Writes below `folder`, which is made when the first row comes.
    pub fn new(
        folder: PathBuf,
        clock: Arc<dyn Clock>,
        redactor: Arc<Redactor>,
        capture: ContentCapture,
    ) -> Self {
        Self {
            folder,
            clock,
            redactor,
            capture,
            open: Mutex::default(),
        }
    }

    fn line(&self, row: TraceRow, now: UnixMillis) -> String {
        let mut fields = Map::new();
        fields.insert("ts".into(), timestamp(now).into());
        if let Ok(Value::Object(ids)) = serde_json::to_value(&row.ids) {
            fields.extend(ids);
        }
        let content_fields = row.content_fields;
        // Ids come first and cannot be replaced by what a tool or a provider reports.
        for (key, mut value) in row.fields {
            if self.capture == ContentCapture::Off && content_fields.contains(&key.as_str()) {
                value = measured(&value);
            }
            fields.entry(key).or_insert(value);
        }
        let line = Value::Object(fields).to_string();
        if line.len() <= MAX_ROW {
            return self.redactor.redact(&line).into_owned();
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(&line) else {
            return String::new();
        };
        for key in content_fields {
            if let Some(value) = fields.get_mut(*key) {
                *value = preview(value.take());
            }
        }
        self.redactor
            .redact(&Value::Object(fields).to_string())
            .into_owned()
    }

    fn append(&self, kind: TraceKind, now: UnixMillis, mut line: String) -> std::io::Result<()> {
        line.push('\n');
        let date = timestamp(now)[..10].to_owned();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.date != date {
            let folder = self.folder.join(&date);
            let is_new_day = !folder.exists();
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder)?;
            // Once a day is often enough, and needs no task of its own.
            if is_new_day {
                prune(&self.folder, now)?;
            }
            *open = OpenDay {
                date,
                files: HashMap::new(),
            };
        }
        let path = self
            .folder
            .join(&open.date)
            .join(format!("{}.jsonl", kind.as_str()));
        let file = match open.files.entry(kind) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(
                OpenOptions::new()
                    .append(true)
                    .create(true)
                    .mode(0o600)
                    .open(path)?,
            ),
        };
        file.write_all(line.as_bytes())
    }
}

impl TraceSink for TraceFiles {
    fn record(&self, row: TraceRow) {
        let kind = row.kind;
        // Every file a tool touches is a decision; the file keeps the ones the owner may want to
        // do something about.
        if kind == TraceKind::SandboxEvent && row.fields.get("decision") == Some(&"allow".into()) {
            return;
        }
        let now = self.clock.now();
        let line = self.line(row, now);
        if line.is_empty() {
            tracing::warn!(
                kind = kind.as_str(),
                "a trace row could not be cut to size and was dropped"
            );
        } else if let Err(error) = self.append(kind, now, line) {
            tracing::warn!(kind = kind.as_str(), %error, "a trace row could not be written");
        }
    }
}

/// What is left of a body when capture is off: how large it was.
fn measured(value: &Value) -> Value {
    let bytes = value
        .as_str()
        .map_or_else(|| value.to_string().len(), str::len);
    Value::String(format!("[{bytes} bytes]"))
}

/// The beginning of a body.
fn preview(value: Value) -> Value {
    match value {
        Value::String(whole) => Value::String(text::shortened(&whole, PREVIEW)),
        Value::Null => Value::Null,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Value::String(text::shortened(&value.to_string(), PREVIEW))
        }
    }
}

/// `now` as RFC 3339 in UTC with milliseconds.
pub fn timestamp(now: UnixMillis) -> String {
    jiff::Timestamp::from_millisecond(now.0)
        .map(|moment| format!("{moment:.3}"))
        .unwrap_or_else(|_| "1970-01-01T00:00:00.000Z".to_owned())
}

/// Removes whole days beyond [`KEEP_DAYS`] or, oldest first, beyond [`KEEP_BYTES`]. The present
/// day stays. Returns how many days were removed.
pub fn prune(folder: &Path, now: UnixMillis) -> std::io::Result<usize> {
    let today = timestamp(now)[..10].to_owned();
    let oldest = timestamp(UnixMillis(now.0 - KEEP_DAYS * 86_400_000))[..10].to_owned();
    let mut days = days(folder)?;
    days.sort_by(|a, b| b.cmp(a));
    let mut kept_bytes = 0;
    let mut removed = 0;
    for day in days {
        let path = folder.join(&day);
        kept_bytes += size_of_day(&path)?;
        if day != today && (day < oldest || kept_bytes > KEEP_BYTES) {
            fs::remove_dir_all(&path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// The days that have traces, as `YYYY-MM-DD`, in no particular order. Other names are not ours.
pub fn days(folder: &Path) -> std::io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut days = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.parse::<jiff::civil::Date>().is_ok() {
            days.push(name);
        }
    }
    Ok(days)
}

fn size_of_day(folder: &Path) -> std::io::Result<u64> {
    fs::read_dir(folder)?
        .map(|entry| Ok(entry?.metadata()?.len()))
        .sum()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use fermix_types::TraceIds;
    use fermix_types::clock::FixedClock;
    use serde_json::json;

    use super::*;

    const NOON: UnixMillis = UnixMillis(1_800_000_000_000);

    fn sink(folder: &Path, capture: ContentCapture) -> TraceFiles {
        let clock = Arc::new(FixedClock::at(NOON));
        TraceFiles::new(folder.to_owned(), clock, Arc::new(Redactor::new()), capture)
    }

    fn row(fields: Value) -> TraceRow {
        let ids = TraceIds {
            session_id: "main-1".into(),
            turn_id: "t".into(),
            parent_session: None,
        };
        TraceRow::new(TraceKind::ToolExec, &ids, fields).with_content(&["arguments"])
    }

    fn written(folder: &Path) -> Vec<Value> {
        let file = folder.join("2027-01-15/tool_exec.jsonl");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::read_to_string(file)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_row_keeps_its_ids_and_loses_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let sink = sink(folder.path(), ContentCapture::On);
        sink.record(row(json!({
            "tool": "shell", "session_id": "forged",
            "error": "rejected Bearer abcdefghijklmnopqrstuvwxyz012345"
        })));
        let rows = written(folder.path());
        assert_eq!(rows[0]["session_id"], json!("main-1"));
        assert_eq!(rows[0]["ts"], json!("2027-01-15T08:00:00.000Z"));
        assert_eq!(rows[0]["error"], json!("rejected Bearer [REDACTED:bearer]"));
    }

    #[test]
    fn bodies_are_gone_when_capture_is_off_and_huge_rows_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let body = "x".repeat(3 << 20);
        sink(folder.path(), ContentCapture::Off)
            .record(row(json!({ "arguments": body, "tool": "a" })));
        sink(folder.path(), ContentCapture::On)
            .record(row(json!({ "arguments": body, "tool": "b" })));
        let rows = written(folder.path());
        assert_eq!(rows[0]["arguments"], json!("[3145728 bytes]"));
        assert_eq!(
            rows[1]["arguments"].as_str().unwrap().len(),
            PREVIEW + '…'.len_utf8()
        );
    }

    #[test]
    fn old_days_go_and_strangers_stay() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["2026-11-01", "2027-01-14", "2027-01-15", "notes"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("x"), "x").unwrap();
        }
        assert_eq!(prune(folder.path(), NOON).unwrap(), 1);
        let mut left = days(folder.path()).unwrap();
        left.sort();
        assert_eq!(left, ["2027-01-14", "2027-01-15"]);
        assert!(folder.path().join("notes/x").exists());
    }
}
