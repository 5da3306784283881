//! `tool_result_recall`: reads the originals of results that were shortened in this run.
//!
//! It is in no registry. A run offers it to itself once something was shortened, and only a caller
//! who may see it gets it (spec/01 §13).

use std::fmt::Write as _;
use std::sync::Arc;

use fermix_capability::{Audience, CallContext, Capability, RegistrationError, untrusted};
use fermix_types::{Category, PolicyClass, ToolError, ToolOutput, ToolResult, text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::results::Originals;

/// The tool's name.
pub(super) const NAME: &str = "tool_result_recall";
/// The most lines of one answer.
const MAX_LINES: usize = 400;
/// Lines of one answer unless the call says otherwise, and the most a search finds.
const USUAL_LINES: usize = 200;
/// The most bytes of one answer.
const MAX_BYTES: usize = 16_000;
/// A longer line counts as several, so that a text without line breaks can be read to its end.
const MAX_LINE_BYTES: usize = 2_000;
/// How many calls an error names.
const MAX_NAMED: usize = 20;

/// Reads the original of a result that was shortened or cut in this run.
#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The call whose result is read, as the shortened result names it.
    call_id: String,
    /// Only lines that contain this text, in whichever case; at most 200 of them.
    query: Option<String>,
    /// The first line to read, counted from 1.
    #[schemars(range(min = 1))]
    offset: Option<usize>,
    /// How many lines to read: 200 unless given.
    #[schemars(range(min = 1, max = 400))]
    limit: Option<usize>,
}

/// The tool over the originals of one run.
pub(super) fn capability(originals: Originals) -> Result<Arc<Capability>, RegistrationError> {
    Capability::builtin(
        NAME,
        PolicyClass::ReadOnly,
        Category::System,
        Audience::Anyone,
    )
    .when_to_use("A result in this run was shortened and you need what it left out.")
    .failure("unknown_call", "No original of that call is kept.")
    .parallel(true)
    .handler(move |args: Args, context: CallContext| {
        let originals = originals.clone();
        async move { read(&originals, &args, &context) }
    })
    .map(Arc::new)
}

fn read(originals: &Originals, args: &Args, context: &CallContext) -> ToolResult {
    let Some(original) = originals.get(&args.call_id) else {
        let mut known = originals.calls();
        let more = known.len().saturating_sub(MAX_NAMED);
        known.truncate(MAX_NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        return Err(ToolError::new(
            "unknown_call",
            format!(
                "no original of call {} is kept; kept are: {}{more}",
                text::shortened(&args.call_id, 128),
                known.join(", ")
            ),
        ));
    };
    let page = page(&original.text, args);
    let shown = if original.external {
        // Read again, it is still somebody else's text.
        untrusted::frame(&original.tool, &page.text, &context.turn.frame)
    } else {
        page.text
    };
    Ok(ToolOutput::from(shown).note(page.note))
}

struct Page {
    text: String,
    note: String,
}

fn page(original: &str, args: &Args) -> Page {
    let first = args.offset.unwrap_or(1).max(1);
    let limit = args.limit.unwrap_or(USUAL_LINES).clamp(1, MAX_LINES);
    let query = args.query.as_deref().filter(|query| !query.is_empty());
    let lowered = query.map(str::to_lowercase);
    let limit = if query.is_some() {
        limit.min(USUAL_LINES)
    } else {
        limit
    };
    let total = lines(original).count();
    let mut text = String::new();
    let (mut shown, mut last, mut is_full) = (0, first.saturating_sub(1), false);
    for (index, line) in lines(original).enumerate().skip(first - 1) {
        if lowered
            .as_ref()
            .is_some_and(|query| !line.to_lowercase().contains(query))
        {
            continue;
        }
        let entry = format!("{}: {line}\n", index + 1);
        if shown == limit || text.len() + entry.len() > MAX_BYTES {
            is_full = true;
            break;
        }
        text.push_str(&entry);
        shown += 1;
        last = index + 1;
    }
    let what = if query.is_some() {
        "matching lines"
    } else {
        "lines"
    };
    let mut note = format!("{shown} {what} of {total} lines");
    if is_full {
        let _ = write!(note, "; read on with offset {}", last + 1);
    }
    Page { text, note }
}

/// The lines of a text, none longer than [`MAX_LINE_BYTES`].
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        let mut rest = Some(line);
        std::iter::from_fn(move || {
            let line = rest?;
            let piece = text::prefix(line, MAX_LINE_BYTES);
            rest = Some(&line[piece.len()..]).filter(|rest| !rest.is_empty());
            Some(piece)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(query: Option<&str>, offset: Option<usize>, limit: Option<usize>) -> Args {
        Args {
            call_id: "c".to_owned(),
            query: query.map(str::to_owned),
            offset,
            limit,
        }
    }

    #[test]
    fn pages_are_numbered_bounded_and_say_how_to_read_on() {
        let lines: Vec<String> = (1..=1_000).map(|number| format!("line {number}")).collect();
        let text = lines.join("\n");
        let first = page(&text, &args(None, None, None));
        assert!(first.text.starts_with("1: line 1\n") && first.text.ends_with("200: line 200\n"));
        assert_eq!(
            first.note,
            "200 lines of 1000 lines; read on with offset 201"
        );
        let last = page(&text, &args(None, Some(990), Some(400)));
        assert_eq!(last.note, "11 lines of 1000 lines");
        let found = page(&text, &args(Some("LINE 77"), None, None));
        assert!(found.text.starts_with("77: line 77\n770: line 770\n"));
        assert_eq!(found.note, "11 matching lines of 1000 lines");
        assert_eq!(page(&text, &args(None, Some(5_000), None)).text, "");
        let wide = "é".repeat(10_000);
        let whole: String = page(&wide, &args(None, None, None))
            .text
            .lines()
            .map(|line| line.split_once(": ").unwrap().1)
            .collect();
        assert!(wide.starts_with(&whole) && whole.len() > 13_000);
        assert!(
            page(&wide, &args(None, Some(10), None))
                .text
                .starts_with("10: é")
        );
        let many = vec!["x".repeat(1_000); 50].join("\n");
        let page = page(&many, &args(None, None, None));
        assert!(page.text.len() <= MAX_BYTES && page.note.ends_with("read on with offset 16"));
    }
}
