//! Commands, help, and tools without a grammar of their own.

use fermix_types::text::shortened;
use serde_json::{Map, Value, json};

use super::{Desk, Done, Work, optional};
use crate::offline::choose::{beyond, meant, query_of};
use crate::offline::intent::Intent;
use crate::offline::ledger::Call;
use crate::offline::near;
use crate::offline::render::{block, code, error_words, json, unframed, without_notes};
use crate::offline::reply;
use crate::offline::toolbox::Schema;
use crate::offline::words::Word;

/// How many found tools are named.
const MAX_NAMED: usize = 5;

/// Runs a command.
pub(super) fn run(command: &str, folder: Option<&str>, desk: &mut Desk<'_, '_>) -> Work {
    if !desk.toolbox.has("shell") {
        return desk.unavailable("run commands");
    }
    let ran = desk.ledger.ask(desk.call(
        "shell",
        &[
            ("command", json!(command)),
            ("working_dir", optional(folder)),
        ],
    ))?;
    desk.ledger.has_changed_things();
    let command = code(command);
    if ran.is_error {
        let words = error_words(ran.text);
        let (first, rest) = words.split_once('\n').unwrap_or((&words, ""));
        let (rest, notes) = without_notes(rest);
        let ended = ended(first);
        let printed = if rest.trim().is_empty() {
            " and printed nothing.".to_owned()
        } else {
            format!(" and printed:\n\n{}", block(rest, desk.room).0)
        };
        let output = match &ended {
            Some(_) => printed,
            // The command did not run, and the words say why.
            None if rest.trim().is_empty() => String::new(),
            None => format!("\n\n{}", block(rest, desk.room).0),
        };
        let how = ended.unwrap_or_else(|| format!("did not run: {first}"));
        let notes: String = notes
            .iter()
            .map(|note| format!("\n\nNote: {note}."))
            .collect();
        return Ok(Done::failed(format!("{command} {how}{output}{notes}")));
    }
    let (output, notes) = without_notes(ran.text);
    let mut text = if output.trim().is_empty() {
        format!("{command} succeeded and printed nothing.")
    } else {
        let (shown, cut) = block(output, desk.room);
        let cut = if cut.is_some() {
            "\n\nThe rest of the output is left out here."
        } else {
            ""
        };
        format!("{command} printed:\n\n{shown}{cut}")
    };
    for note in notes
        .iter()
        .filter(|note| !note.contains("printed nothing"))
    {
        text.push_str(&format!("\n\nNote: {note}."));
    }
    Ok(Done::said(text))
}

/// How a command ended, in words for a person; `None` when it did not even start.
fn ended(headline: &str) -> Option<String> {
    let words = headline.trim_end_matches(':');
    if let Some(code) = words.strip_prefix("Command failed (exit code ") {
        return Some(format!(
            "failed with exit code {}",
            code.trim_end_matches(')')
        ));
    }
    if let Some(milliseconds) = words
        .strip_prefix("Command timed out after ")
        .and_then(|rest| rest.strip_suffix("ms"))
        .and_then(|number| number.parse::<u64>().ok())
    {
        return Some(format!(
            "was stopped because it took longer than {}",
            match milliseconds {
                1000 => "1 second".to_owned(),
                other if other % 1000 == 0 => format!("{} seconds", other / 1000),
                other => format!("{other} ms"),
            }
        ));
    }
    let words = words.strip_prefix("Command ")?;
    Some(words.trim_end_matches('.').to_owned())
}

/// How to use one tool, in the words of `tool_help`.
pub(super) fn tool_help(name: &str, desk: &mut Desk<'_, '_>) -> Work {
    if !desk.toolbox.has("tool_help") {
        return desk.unavailable("explain tools");
    }
    let help = desk
        .ledger
        .ask(desk.call("tool_help", &[("name", json!(name))]))?;
    if help.is_error {
        let words = error_words(help.text);
        if !words.starts_with("Unknown capability") {
            return Ok(Done::failed(format!(
                "I could not look up {}: {words}",
                code(name)
            )));
        }
        // The tool knows more names than are on offer here.
        let suggested = words
            .split_once("did you mean `")
            .and_then(|(_, rest)| rest.split_once('`'))
            .map(|(suggested, _)| suggested);
        let names = desk.toolbox.all().iter().map(|tool| tool.name.as_str());
        let alike: Vec<&str> = if let Some(suggested) = suggested {
            vec![suggested]
        } else {
            let near = near::names(name, names.clone(), MAX_NAMED);
            if near.is_empty() {
                let wanted = name.to_lowercase();
                names
                    .filter(|tool| wanted.len() > 2 && tool.contains(&wanted))
                    .take(MAX_NAMED)
                    .collect()
            } else {
                near
            }
        };
        let meant = if alike.is_empty() {
            String::new()
        } else {
            let alike: Vec<String> = alike.into_iter().map(code).collect();
            format!(" Did you mean {}?", alike.join(" or "))
        };
        return Ok(Done::failed(format!(
            "There is no tool {} here.{meant} Ask \"what can you do\" for a list.",
            code(name)
        )));
    }
    let (text, _) = unframed(help.text);
    // The schema at the end says the same once more, for machines.
    let text = text
        .split_once("\n## Schema\n")
        .map_or(text.as_str(), |(prose, _)| prose);
    Ok(Done::said(shortened(text.trim(), desk.room)))
}

/// Calls a tool and shows what it gave.
pub(super) fn tool(name: &str, arguments: &Map<String, Value>, desk: &mut Desk<'_, '_>) -> Work {
    if !desk.toolbox.has(name) {
        return desk.unavailable("do that");
    }
    shown(name, Call::new(name, arguments.clone()), desk)
}

fn shown(name: &str, call: Call, desk: &mut Desk<'_, '_>) -> Work {
    let result = desk.ledger.ask(call)?;
    desk.ledger.has_changed_things();
    if result.is_error {
        return Ok(Done::failed(format!(
            "{} did not succeed: {}",
            code(name),
            error_words(result.text)
        )));
    }
    let (text, was_outside) = unframed(result.text);
    if text.trim().is_empty() {
        return Ok(Done::said(format!(
            "{} succeeded and returned nothing.",
            code(name)
        )));
    }
    let (block, cut) = block(&text, desk.room);
    let whose = if was_outside {
        " (text from outside, shown as it came)"
    } else {
        ""
    };
    let cut = if cut.is_some() {
        "\n\nThe rest is left out here."
    } else {
        ""
    };
    Ok(Done::said(format!(
        "{} returned{whose}:\n\n{block}{cut}",
        code(name)
    )))
}

/// Searches the tools that are not on offer by themselves, and calls the one that clearly fits.
pub(super) fn find_tool(words: &[Word], desk: &mut Desk<'_, '_>) -> Work {
    let query = query_of(words);
    let beyond = match beyond(words) {
        Intent::Judgement => reply::judgement(desk.toolbox),
        _ => reply::unclear(words, desk.toolbox),
    };
    if !desk.toolbox.has("tool_search") || query.is_empty() {
        return Ok(Done::failed(beyond));
    }
    let search = desk.ledger.ask(desk.call(
        "tool_search",
        &[("query", json!(query)), ("limit", json!(MAX_NAMED))],
    ))?;
    let found = if search.is_error {
        None
    } else {
        json(search.text)
    };
    let matches = found
        .as_ref()
        .and_then(|found| found.get("matches")?.as_array())
        .map(Vec::as_slice)
        .unwrap_or_default();
    // The search repeats a schema only for the one tool that clearly fits.
    let clear = matches.iter().find_map(|found| {
        let schema = repeated_schema(found.get("schema")?)?;
        Some((tool_name(found)?, Schema::read(&schema)))
    });
    if let Some((name, schema)) = clear {
        match meant(name, &schema, words) {
            Some(Intent::Tool { arguments, .. }) => {
                let call = if desk.toolbox.has("tool_call") {
                    let mut bridged = Map::new();
                    bridged.insert("name".to_owned(), json!(name));
                    bridged.insert("arguments".to_owned(), Value::Object(arguments));
                    Call::new("tool_call", bridged)
                } else {
                    Call::new(name, arguments)
                };
                return shown(name, call, desk);
            }
            Some(Intent::Declined(words)) => return Ok(Done::failed(words)),
            _ => {}
        }
    }
    let names: Vec<String> = matches
        .iter()
        .filter_map(tool_name)
        .take(MAX_NAMED)
        .map(code)
        .collect();
    Ok(Done::failed(if names.is_empty() {
        beyond
    } else {
        format!(
            "{beyond}\n\nThese tools come close: {}. Say \"help for NAME\" to see what one needs, then \"use NAME with …\".",
            names.join(", ")
        )
    }))
}

/// A schema as the search repeats it: our own as it is, anybody else's as text inside a frame.
fn repeated_schema(repeated: &Value) -> Option<Value> {
    match repeated {
        Value::Object(_) => Some(repeated.clone()),
        Value::String(framed) => {
            let text = framed.get(framed.find('{')?..=framed.rfind('}')?)?;
            serde_json::from_str(text).ok()
        }
        _ => None,
    }
}

/// The name of a found tool, when it is one.
fn tool_name(found: &Value) -> Option<&str> {
    let name = found.get("name")?.as_str()?;
    let fits = !name.is_empty()
        && name.len() <= 128
        && name
            .chars()
            .all(|each| each.is_ascii_alphanumeric() || matches!(each, '_' | '-' | '.'));
    fits.then_some(name)
}
