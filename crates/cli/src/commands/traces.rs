//! `fermix traces`: what happened, newest last.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use fermix_daemon::traces;
use fermix_types::TraceKind;
use jiff::Timestamp;
use serde_json::Value;

use crate::args::TracesArgs;
use crate::moment::moment;
use crate::output::{self, Exit};
use crate::start::Start;

/// Prints the newest rows that fit the filters.
pub fn run(args: &TracesArgs, start: &Start) -> Exit {
    let since = match args
        .since
        .as_deref()
        .map(|text| moment(text, Timestamp::now()))
        .transpose()
    {
        Ok(since) => since,
        Err(error) => {
            return output::usage(args.json, &error);
        }
    };
    let rows = match read(start.home.traces(), args, since) {
        Ok(rows) => rows,
        Err(error) => {
            return output::failure(args.json, &format!("cannot read the traces: {error}"));
        }
    };
    if args.json {
        output::json(&rows);
    } else if rows.is_empty() {
        output::notice("no traces match");
    } else {
        for row in &rows {
            output::line(&one_line(row));
        }
    }
    Exit::Ok
}

fn read(folder: &Path, args: &TracesArgs, since: Option<Timestamp>) -> std::io::Result<Vec<Value>> {
    let first_day = since.map(|since| since.to_string()[..10].to_owned());
    let mut days = traces::days(folder)?;
    days.sort();
    let mut rows = Vec::new();
    for day in days
        .iter()
        .filter(|day| first_day.as_ref().is_none_or(|first| *day >= first))
    {
        for kind in TraceKind::ALL {
            // The start rows tell which sessions belong to a conversation, so a session filter
            // reads them too.
            if args.kind.is_none_or(|wanted| wanted == kind)
                || (args.session.is_some() && kind == TraceKind::AgentEvent)
            {
                read_file(
                    &folder.join(day).join(format!("{}.jsonl", kind.as_str())),
                    kind,
                    &mut rows,
                )?;
            }
        }
    }
    if let Some(wanted) = &args.session {
        let sessions = sessions_of(wanted, &rows);
        rows.retain(|(_, row)| text(row, "session_id").is_some_and(|id| sessions.contains(id)));
    }
    rows.retain(|(kind, row)| {
        args.kind.is_none_or(|wanted| wanted == *kind)
            && since.is_none_or(|since| {
                text(row, "ts")
                    .and_then(|ts| ts.parse::<Timestamp>().ok())
                    .is_some_and(|ts| ts >= since)
            })
    });
    rows.sort_by(|(_, a), (_, b)| text(a, "ts").cmp(&text(b, "ts")));
    let skip = rows.len().saturating_sub(args.limit);
    Ok(rows.into_iter().skip(skip).map(|(_, row)| row).collect())
}

fn read_file(
    path: &Path,
    kind: TraceKind,
    rows: &mut Vec<(TraceKind, Value)>,
) -> std::io::Result<()> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for line in BufReader::new(file).split(b'\n') {
        // A row that a crash cut short, or that holds a bad byte, is not JSON; the others are
        // still good.
        if let Ok(Value::Object(mut row)) = serde_json::from_slice(&line?) {
            row.insert("type".into(), kind.as_str().into());
            rows.push((kind, Value::Object(row)));
        }
    }
    Ok(())
}

/// The session itself and every session that ran in the conversation of that name.
fn sessions_of(wanted: &str, rows: &[(TraceKind, Value)]) -> BTreeSet<String> {
    let names_it = |row: &Value| {
        text(row, "session_id") == Some(wanted)
            || text(row, "parent_session") == Some(wanted)
            || text(row, "conversation")
                .is_some_and(|key| key == wanted || key.split(':').nth(1) == Some(wanted))
    };
    rows.iter()
        .filter(|(_, row)| names_it(row))
        .filter_map(|(_, row)| text(row, "session_id"))
        .map(str::to_owned)
        .collect()
}

fn text<'a>(row: &'a Value, key: &str) -> Option<&'a str> {
    row.get(key).and_then(Value::as_str)
}

/// One row for a person: time, type, session, then the rest as `key=value`.
fn one_line(row: &Value) -> String {
    let mut line = [text(row, "ts"), text(row, "type"), text(row, "session_id")]
        .map(|part| part.unwrap_or("-"))
        .join("  ");
    for (key, value) in row.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "ts" | "type" | "session_id" | "turn_id") {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), |text| text.replace('\n', "⏎"));
            line.push_str(&format!(
                "  {key}={}",
                fermix_types::text::shortened(&value, 120)
            ));
        }
    }
    line
}
