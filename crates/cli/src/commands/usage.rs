//! `fermix usage`: what answering cost.

use fermix_daemon::{UsageBy, UsageRow};
use fermix_types::UnixMillis;
use jiff::Timestamp;
use serde_json::json;

use crate::args::{By, UsageArgs};
use crate::moment::moment;
use crate::output::{self, Exit};
use crate::start::Start;

/// Prints the table.
pub fn run(args: &UsageArgs, start: &Start) -> Exit {
    let since = match moment(&args.since, Timestamp::now()) {
        Ok(since) => since,
        Err(error) => return output::usage(args.json, &error),
    };
    match usage(args, since, start) {
        Ok(()) => Exit::Ok,
        Err(error) => output::failure(args.json, &error),
    }
}

fn usage(args: &UsageArgs, since: Timestamp, start: &Start) -> Result<(), String> {
    let by = match args.by {
        By::Day => UsageBy::Day,
        By::Model => UsageBy::Model,
        By::Conversation => UsageBy::Conversation,
    };
    let engine = start.engine(&[])?;
    let (rows, budget) = start
        .runtime()?
        .block_on(engine.usage(UnixMillis(since.as_millisecond()), by))
        .map_err(|error| error.to_string())?;
    if args.json {
        output::json(&json!({
            "since": since.to_string(),
            "rows": rows,
            "total": total(&rows),
            "today": { "tokens": budget.spent, "budget": budget.limit },
        }));
        return Ok(());
    }
    if rows.is_empty() {
        output::line("no turn has used a model since then");
    } else {
        let all = total(&rows);
        let mut table = vec![header(args.by)];
        table.extend(rows.iter().chain([&all]).map(|row| cells(row, args.by)));
        output::line(&output::table(&table));
    }
    if let Some(limit) = budget.limit {
        output::line(&format!(
            "today (UTC): {} of {limit} tokens of [fermix_core.agent] daily_token_budget",
            budget.spent
        ));
    }
    Ok(())
}

fn header(by: By) -> Vec<String> {
    let first = match by {
        By::Day => Some("DAY"),
        By::Model => None,
        By::Conversation => Some("CONVERSATION"),
    };
    first
        .into_iter()
        .chain(["PROVIDER", "MODEL", "TURNS", "IN", "CACHED", "OUT"])
        .map(str::to_owned)
        .collect()
}

fn cells(row: &UsageRow, by: By) -> Vec<String> {
    let count =
        |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let group = (by != By::Model).then(|| row.group.clone().unwrap_or_default());
    group
        .into_iter()
        .chain([
            row.provider.clone(),
            row.model.clone().unwrap_or_else(|| "-".to_owned()),
            row.turns.to_string(),
            count(row.prompt),
            count(row.cached),
            count(row.completion),
        ])
        .collect()
}

/// The sum. What nobody reported stays unknown.
fn total(rows: &[UsageRow]) -> UsageRow {
    let sum = |part: fn(&UsageRow) -> Option<u64>| {
        rows.iter().filter_map(part).reduce(u64::saturating_add)
    };
    UsageRow {
        group: Some("total".to_owned()),
        provider: String::new(),
        model: Some(String::new()),
        turns: rows.iter().map(|row| row.turns).sum(),
        prompt: sum(|row| row.prompt),
        completion: sum(|row| row.completion),
        cached: sum(|row| row.cached),
        cache_creation: sum(|row| row.cache_creation),
    }
}
