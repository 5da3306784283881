//! What is said without a tool: who this is, what it can do, and what it cannot.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fermix_types::text::shortened;

use super::near;
use super::toolbox::Toolbox;
use super::words::{Word, spoken};
use crate::advice::CONNECT;

/// The longest sentence about one tool, in bytes.
const MAX_SENTENCE: usize = 120;

pub(super) fn greeting() -> String {
    "Hello! I am Fermix's offline assistant. Ask me to read, find or search something, or ask \"what can you do\".".to_owned()
}

pub(super) fn thanks() -> String {
    "You are welcome.".to_owned()
}

pub(super) fn goodbye() -> String {
    "Goodbye!".to_owned()
}

/// The answer to "ok", "please" and their like.
pub(super) fn nod() -> String {
    "All right. Tell me what to do next, for example: read notes.txt".to_owned()
}

/// "Who are you?"
pub(super) fn identity(toolbox: &Toolbox<'_>) -> String {
    with_connection(
        format!(
            "I am Fermix's offline assistant, not a language model: no model is connected, so I follow fixed rules. {}",
            abilities(toolbox)
        ),
        toolbox,
    )
}

/// The answer to what needs somebody who thinks.
pub(super) fn judgement(toolbox: &Toolbox<'_>) -> String {
    with_connection(
        "That needs a language model, and none is connected. I am Fermix's offline assistant, not a language model: I \
         follow fixed rules and make up nothing. Ask \"what can you do\" for what I can do."
            .to_owned(),
        toolbox,
    )
}

/// The answer to what makes no sense here.
pub(super) fn unclear(words: &[Word], toolbox: &Toolbox<'_>) -> String {
    let nearest = near::sentence(words, toolbox)
        .map(|sentence| format!(" Did you mean: {}", shortened(&sentence, 200)))
        .unwrap_or_default();
    let said = shortened(&spoken(words), 200);
    format!(
        "I did not understand \"{said}\", so I did nothing.{nearest}\n\nAsk \"what can you do\" for the sentences I \
         understand."
    )
}

fn with_connection(text: String, toolbox: &Toolbox<'_>) -> String {
    if toolbox.is_owner() {
        format!("{text}\n\n{CONNECT}")
    } else {
        format!("{text} The owner of this assistant can connect one.")
    }
}

/// Said below a file that was shown when more was asked for.
pub(super) fn only_shown() -> &'static str {
    "That is the text itself. To summarise, explain or judge it, a language model is needed, and none is connected."
}

/// Said below a file when some of the words were not understood.
pub(super) fn left_over(words: &str) -> String {
    format!(
        "That is the whole of what I did: I did not understand \"{}\".",
        shortened(words, 200)
    )
}

/// Said when the tool for a request is not on offer. The same words whatever the reason.
pub(super) fn unavailable(what: &str, toolbox: &Toolbox<'_>) -> String {
    format!(
        "I cannot {what} in this conversation. {}",
        abilities(toolbox)
    )
}

fn abilities(toolbox: &Toolbox<'_>) -> String {
    let known = [
        (&["file_read"][..], "read files (`read notes.txt`)"),
        (
            &["glob_search"],
            "list and find them (`find all toml files`)",
        ),
        (
            &["content_search"],
            "search inside them (`search for \"text\" in src`)",
        ),
        (
            &["file_write"],
            "write quoted text to one (`write \"text\" to notes.txt`)",
        ),
        (
            &["file_edit"],
            "replace quoted text (`replace \"a\" with \"b\" in notes.txt`)",
        ),
        (&["shell"], "run a quoted command (``run `ls -la` ``)"),
        (&["tool_help"], "explain a tool (`help for NAME`)"),
    ];
    let able: Vec<&str> = known
        .iter()
        .filter(|(tools, _)| tools.iter().all(|tool| toolbox.has(tool)))
        .map(|(_, words)| *words)
        .collect();
    match able.as_slice() {
        [] => "I have no tools here, so all I can do is say so.".to_owned(),
        [only] => format!("What I can do here: {only}."),
        [rest @ .., last] => format!("What I can do here: {}, and {last}.", rest.join(", ")),
    }
}

/// "What can you do?": every tool on offer under its heading.
pub(super) fn help(toolbox: &Toolbox<'_>) -> String {
    let mut text = format!(
        "I am Fermix's offline assistant, not a language model. I follow fixed rules and call real tools. {}",
        abilities(toolbox)
    );
    let mut order: Vec<&str> = Vec::new();
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for tool in toolbox.all() {
        let name = tool.name.as_str();
        let heading = toolbox.heading(name).unwrap_or_else(|| family(name));
        if !order.contains(&heading) {
            order.push(heading);
        }
        let sentence = first_sentence(&tool.description);
        groups
            .entry(heading)
            .or_default()
            .push(format!("- `{name}`: {sentence}"));
    }
    if !order.is_empty() {
        text.push_str("\n\nThe tools here:");
    }
    for heading in order {
        let _ = write!(text, "\n\n{heading}\n{}", groups[heading].join("\n"));
    }
    if toolbox.has_more() {
        text.push_str("\n\nPlugins and MCP servers add more; name one of their tools, or say in a few words what it should do.");
    }
    text.push_str("\n\nAnything that needs judgement needs a language model.");
    if toolbox.is_owner() {
        let _ = write!(text, " {CONNECT}");
    }
    text
}

/// A heading for a tool that the catalog does not list.
fn family(name: &str) -> &'static str {
    match name {
        "file_read" | "file_write" | "file_edit" | "glob_search" | "content_search" => {
            "File & Code"
        }
        "shell" | "tool_help" | "tool_search" | "tool_describe" | "tool_call" => "System",
        _ => "Other",
    }
}

fn first_sentence(description: &str) -> String {
    let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line
        .match_indices(". ")
        .map(|(at, _)| at + 1)
        .find(|at| *at > 8);
    shortened(&line[..end.unwrap_or(line.len())], MAX_SENTENCE)
}
