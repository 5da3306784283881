//! Tools without a grammar of their own: found by name or by what they are about.

use fermix_search::{Document, Index, strong_single, tokens};
use fermix_types::ToolDefinition;

use super::fill::{Filled, fill};
use super::intent::Intent;
use super::toolbox::{Property, Schema, Toolbox, Type};
use super::values::{is_url, is_value};
use super::words::Word;

/// Tools the grammar serves, or that serve the discovery of others.
const OWN: [&str; 10] = [
    "file_read",
    "file_write",
    "file_edit",
    "glob_search",
    "content_search",
    "shell",
    "tool_help",
    "tool_search",
    "tool_call",
    "tool_describe",
];
/// Parts of names that say a tool only looks.
const LOOKING: [&str; 20] = [
    "get", "list", "search", "find", "read", "show", "lookup", "fetch", "query", "status",
    "describe", "view", "check", "count", "recall", "history", "info", "forecast", "summary",
    "stats",
];
/// Parts of names that say a tool acts, whatever else its name says.
const ACTING: [&str; 31] = [
    "send",
    "create",
    "delete",
    "remove",
    "update",
    "write",
    "set",
    "add",
    "post",
    "put",
    "run",
    "exec",
    "execute",
    "start",
    "stop",
    "cancel",
    "move",
    "rename",
    "edit",
    "upload",
    "install",
    "uninstall",
    "pay",
    "buy",
    "book",
    "reply",
    "store",
    "enable",
    "disable",
    "import",
    "push",
];
/// Words that make an action depend on something, or put it off. They need judgement.
const CONDITIONS: [&str; 18] = [
    "if", "unless", "when", "whenever", "tomorrow", "today", "tonight", "after", "before", "every",
    "until", "later", "wenn", "falls", "morgen", "si", "demain", "once",
];
const QUESTIONS: [&str; 26] = [
    "can", "may", "what", "why", "how", "who", "when", "where", "which", "is", "are", "does", "do",
    "did", "should", "would", "could", "was", "were", "whose", "wer", "wie", "warum", "weshalb",
    "pourquoi", "comment",
];
/// Requests that no tool fulfils without somebody who writes or thinks.
const CREATIVE: [&str; 22] = [
    "explain",
    "summarise",
    "summarize",
    "describe",
    "translate",
    "compose",
    "draft",
    "think",
    "imagine",
    "tell",
    "compare",
    "discuss",
    "write",
    "rewrite",
    "improve",
    "fix",
    "refactor",
    "review",
    "analyse",
    "analyze",
    "solve",
    "suggest",
];

/// "Use TOOL with …", or a sentence that begins with a tool's name.
pub(super) fn named(words: &[Word], toolbox: &Toolbox<'_>) -> Option<Intent> {
    let calls = words[0].is_one_of(&["use", "call", "invoke", "benutze", "utilise"]);
    let may_call = calls || words[0].is_one_of(&["run", "execute"]);
    let start = if may_call {
        1 + words[1..]
            .iter()
            .take_while(|word| word.is_one_of(&["the", "tool"]))
            .count()
    } else {
        0
    };
    let name = words.get(start)?;
    let arguments = &words[start + 1..];
    if let Some(tool) = toolbox.find(&name.text) {
        let exact = calls || (name.text.contains('_') && !name.is_quoted());
        return exact.then(|| called(tool.name.as_str(), &Schema::of(tool), arguments, true));
    }
    let looks_like_one = name.text.contains('_') && !name.text.contains(['.', '/', ':']);
    (calls && looks_like_one).then(|| {
        if toolbox.has_more() {
            Intent::FindTool(words.to_vec())
        } else {
            Intent::Declined(format!(
                "There is no tool called `{}` here. Ask \"what can you do\" for those there are.",
                shown(&name.text)
            ))
        }
    })
}

/// The one tool on offer that a sentence clearly means.
pub(super) fn ranked(words: &[Word], toolbox: &Toolbox<'_>) -> Intent {
    // All tools are ranked, so that one which merely shares a word does not stand out.
    let candidates: Vec<&ToolDefinition> = toolbox.all().iter().collect();
    let query = query_of(words);
    let schemas: Vec<String> = candidates
        .iter()
        .map(|tool| parameter_words(&Schema::of(tool)))
        .collect();
    let index = Index::build(
        candidates
            .iter()
            .zip(&schemas)
            .map(|(tool, parameters)| Document {
                name: tool.name.as_str(),
                provider: None,
                description: &tool.description,
                parameters,
            }),
    );
    let hits = index.search(&query, 3);
    if let Some(hit) = strong_single(&hits) {
        let tool = candidates[hit.document];
        let is_own = OWN.contains(&tool.name.as_str());
        if !is_own && let Some(intent) = meant(tool.name.as_str(), &Schema::of(tool), words) {
            return intent;
        }
        return beyond(words);
    }
    let is_wish =
        !words[0].is_quoted() && !words[0].is_one_of(&QUESTIONS) && !words[0].is_one_of(&CREATIVE);
    if is_wish && words.len() > 1 && toolbox.has_more() {
        Intent::FindTool(words.to_vec())
    } else {
        beyond(words)
    }
}

/// What is left of a sentence that no rule and no tool fits: something to think about, or nothing
/// that makes sense here.
pub(super) fn beyond(words: &[Word]) -> Intent {
    // Numbers are counted or not, but never judged.
    let counts = words[0].is("how")
        && words
            .get(1)
            .is_some_and(|word| word.is_one_of(&["many", "often", "much", "big", "large"]));
    let opens = !counts && (words[0].is_one_of(&QUESTIONS) || words[0].is_one_of(&CREATIVE));
    let weighs = words.iter().any(|word| {
        word.is_one_of(&[
            "better", "best", "should", "why", "poem", "story", "joke", "meaning",
        ])
    });
    let address = words
        .iter()
        .map(|word| word.text.as_str())
        .find(|text| is_url(text));
    if let Some(address) = address.filter(|_| !opens && !weighs) {
        let is_plain = address
            .chars()
            .all(|each| each.is_ascii_alphanumeric() || "/:.-_~%=,".contains(each));
        let command = if is_plain {
            format!(" A quoted command may: run `curl -sL {address}`")
        } else {
            String::new()
        };
        return Intent::Declined(format!(
            "I have no tool here that opens web addresses, so I did nothing.{command}"
        ));
    }
    if words.len() > 1 && (opens || weighs) {
        Intent::Judgement
    } else {
        Intent::Unclear(words.to_vec())
    }
}

/// The call to the tool `name` that `words` clearly mean, or the question for what is missing;
/// `None` when they only resemble it.
pub(super) fn meant(name: &str, schema: &Schema, words: &[Word]) -> Option<Intent> {
    let names_it = words.iter().any(|word| word.text == name);
    if names_it {
        let at = words.iter().position(|word| word.text == name)?;
        return Some(called(name, schema, &words[at + 1..], true));
    }
    if !acts(name) {
        let filled = fill(words, schema, true);
        return (filled.missing.is_empty()).then(|| Intent::Tool {
            name: name.to_owned(),
            arguments: filled.arguments,
        });
    }
    // An action takes an imperative that is the tool's own word.
    let verb = words[0].lower.as_str();
    let imperative = !words[0].is_quoted() && tokens(name).iter().any(|part| part == verb);
    imperative.then(|| called(name, schema, &words[1..], false))
}

/// The call with the arguments that `words` give, or what is missing for it.
fn called(name: &str, schema: &Schema, words: &[Word], is_named: bool) -> Intent {
    let filled = fill(words, schema, !acts(name) && !is_named);
    let conditional = acts(name)
        .then(|| {
            filled
                .unused
                .iter()
                .find(|word| CONDITIONS.contains(&word.as_str()))
        })
        .flatten();
    if let Some(condition) = conditional {
        return Intent::Declined(format!(
            "I call `{name}` only when everything is spelled out, and \"{condition}\" needs judgement (dates have to be \
             written like 2027-01-31). {}",
            form(name, schema)
        ));
    }
    if !filled.missing.is_empty() || (acts(name) && !filled.left_over.is_empty()) {
        return Intent::Declined(question(name, schema, &filled));
    }
    Intent::Tool {
        name: name.to_owned(),
        arguments: filled.arguments,
    }
}

/// Whether a tool has to be taken for one that changes something. A name that does not say so is.
pub(super) fn acts(name: &str) -> bool {
    let parts = tokens(name);
    let has = |wanted: &[&str]| parts.iter().any(|part| wanted.contains(&part.as_str()));
    has(&ACTING) || !has(&LOOKING)
}

fn question(name: &str, schema: &Schema, filled: &Filled) -> String {
    let missing: Vec<String> = filled
        .missing
        .iter()
        .map(|property| format!("`{}`", property.name))
        .collect();
    let what = if missing.is_empty() {
        let left: Vec<String> = filled
            .left_over
            .iter()
            .take(3)
            .map(|text| format!("\"{}\"", shown(text)))
            .collect();
        format!(
            "I cannot tell which part of `{name}` {} is meant for",
            left.join(" and ")
        )
    } else {
        format!("To call `{name}` I still need {}", missing.join(", "))
    };
    format!("{what}. {}", form(name, schema))
}

/// How to say it so that it is understood.
fn form(name: &str, schema: &Schema) -> String {
    let parts: Vec<String> = schema
        .properties
        .iter()
        .filter(|property| property.required)
        .take(6)
        .map(|property| format!("{}: {}", property.name, example(property)))
        .collect();
    if parts.is_empty() {
        format!("Say it like this: use {name}")
    } else {
        format!("Say it like this: use {name} with {}", parts.join(", "))
    }
}

fn example(property: &Property) -> &str {
    match property.value {
        Type::Integer | Type::Number => "1",
        Type::Boolean => "true",
        Type::Text | Type::Texts | Type::Structure => {
            property.choices.first().map_or("\"…\"", String::as_str)
        }
    }
}

/// The words a search is made with: what was quoted is content, not a description.
pub(super) fn query_of(words: &[Word]) -> String {
    let plain: Vec<&str> = words
        .iter()
        .filter(|word| !word.is_quoted() && !is_value(&word.text))
        .map(|word| word.text.as_str())
        .take(40)
        .collect();
    let query = plain.join(" ");
    query[..query.floor_char_boundary(300)].trim().to_owned()
}

fn parameter_words(schema: &Schema) -> String {
    let parts: Vec<&str> = schema
        .properties
        .iter()
        .flat_map(|property| [property.name.as_str(), property.description.as_str()])
        .collect();
    parts.join(" ")
}

fn shown(text: &str) -> String {
    fermix_types::text::shortened(text, 80)
}
