//! The short parts of the prompt: who is asked, where the answer is read, which day it is.

use std::path::Path;

use fermix_capability::{Caller, Run};
use fermix_types::{Trust, UnixMillis, text};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::settings::AgentSettings;

/// The longest setting that is copied into the prompt, in bytes.
const MAX_SETTING: usize = 500;

/// The persona when the owner wrote none.
pub(crate) fn default_persona(name: &str) -> String {
    let name = setting(name);
    format!(
        "You are {name}, a personal agent that lives on its owner's machine and acts there for them.\n\
         Be direct and brief. Do what is asked, no more. Ask only when a wrong guess would cost something; otherwise \
         choose, and say what you chose. Be careful with what cannot be undone: name it first. Never reveal secrets."
    )
}

/// The persona guests meet unless the owner shares theirs.
pub(crate) fn neutral_persona() -> &'static str {
    "You are an assistant that answers on behalf of its owner, to somebody who is not the owner.\n\
     Be helpful and brief. You know nothing of the owner's files, memory or accounts, and say so when asked."
}

/// How the answer is shown. Depends on the channel's name alone.
pub(crate) fn channel(name: &str) -> &'static str {
    match name {
        "cli" => {
            "## Channel\nYour answer is printed in a terminal: plain text, short lines, light Markdown at most."
        }
        "telegram" | "whatsapp" | "signal" | "imessage" => {
            "## Channel\nYour answer is a chat message on a phone: short paragraphs, no tables, no headings."
        }
        "discord" | "slack" | "teams" | "matrix" => {
            "## Channel\nYour answer is a chat message: Markdown with short paragraphs and fenced code, no tables."
        }
        "email" => {
            "## Channel\nYour answer is an e-mail: whole sentences, no Markdown that only renders elsewhere."
        }
        "voice" => {
            "## Channel\nYour answer is spoken: a few plain sentences, no lists, no code, no addresses read out."
        }
        "scheduled_job" => {
            "## Channel\nYour answer is delivered later as one message: complete, brief, readable on its own."
        }
        _ => "## Channel\nYour answer is a message: Markdown with short paragraphs.",
    }
}

/// Today's date. Never a time of day: it would change the prompt on every turn.
pub(crate) fn date(now: UnixMillis, zone: Option<&str>) -> String {
    let day = Timestamp::from_millisecond(now.0)
        .unwrap_or_default()
        .to_zoned(TimeZone::UTC)
        .strftime("%A, %Y-%m-%d")
        .to_string();
    match zone {
        Some(zone) => format!(
            "## Date\nToday is {day} (UTC). The owner's time zone is {}.",
            setting(zone)
        ),
        None => format!("## Date\nToday is {day} (UTC)."),
    }
}

/// What the agent knows of its owner from setup. Only for the owner's own turns.
pub(crate) fn personalization(settings: &AgentSettings) -> Option<String> {
    let name = settings
        .user_name
        .as_deref()
        .map(setting)
        .filter(|name| !name.is_empty());
    let style = settings
        .communication_style
        .as_deref()
        .map(setting)
        .filter(|style| !style.is_empty());
    if name.is_none() && style.is_none() {
        return None;
    }
    let mut note = "## Owner".to_owned();
    if let Some(name) = name {
        note.push_str(&format!("\nThe owner is called {name}."));
    }
    if let Some(style) = style {
        note.push_str(&format!("\nHow the owner wants to be talked to: {style}"));
    }
    Some(note)
}

/// Where relative paths start. It comes after the stable parts, since it changes with the folder.
pub(crate) fn folder(folder: &Path) -> String {
    let shown: String = folder
        .to_string_lossy()
        .chars()
        .filter(|character| !character.is_control())
        .take(MAX_SETTING)
        .collect();
    format!("Relative paths start in `{shown}`.")
}

/// What is special about the run.
pub(crate) fn run_mode(caller: &Caller) -> Option<&'static str> {
    if caller.trust() == Trust::Guest {
        return Some(
            "## Who is asking\nA guest, not the owner. Do not act in the owner's name and do not speak about the owner.",
        );
    }
    match caller.run() {
        Run::Message => None,
        Run::Voice => Some("## This run\nA live call: the owner hears you now."),
        Run::Job(_) => Some(
            "## This run\nA scheduled run. Nobody is there to answer a question: decide, do the work, report.",
        ),
        Run::Worker => Some(
            "## This run\nYou are a worker of another run. Answer the one question you were given, with sources.",
        ),
        Run::Continuation => Some(
            "## This run\nWork that was started earlier has ended and its outcome follows. Tell the owner what it means.",
        ),
        Run::Detached => Some("## This run\nNobody attends this run: decide, do the work, report."),
    }
}

/// What a family of models needs to hear, at the end so that everything before it stays the same.
pub(crate) fn overlay(model: &str) -> Option<&'static str> {
    let model = model.to_ascii_lowercase();
    let name = model.rsplit('/').next().unwrap_or(&model);
    (name.starts_with("gpt-5") || name.contains("codex")).then_some(
        "## Working style\n\
         Keep going until the request is done or you are blocked; do not stop to announce a plan or to ask for \
         permission you already have. Use the tools by their given names only. Between calls write at most one short \
         sentence. The last message is the answer alone, without a report of your steps.",
    )
}

/// A setting on one line, bounded.
fn setting(value: &str) -> String {
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    text::prefix(&line, MAX_SETTING).to_owned()
}
