//! What a turn offers, as the prompt may speak of it. Everything here comes from the view, never
//! from the registry, so the prompt cannot name a tool that the turn does not have.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use fermix_capability::{Capability, View};
use fermix_types::{Category, Kind, text};

/// The longest routing sentence in the catalog, in bytes.
const MAX_SENTENCE: usize = 180;

/// The catalog's groups, in order.
const GROUPS: [(Category, &str); 14] = [
    (Category::File, "File & Code"),
    (Category::Web, "Web"),
    (Category::Git, "Git"),
    (Category::Scheduling, "Scheduling"),
    (Category::Memory, "Memory"),
    (Category::Delegation, "Delegation"),
    (Category::SkillAdmin, "Skill Admin"),
    (Category::Config, "Configuration"),
    (Category::Channel, "Channel"),
    (Category::System, "System"),
    (Category::Media, "Media"),
    (Category::Computer, "Computer"),
    (Category::Harness, "Coding Agents"),
    (Category::Plugin, "Plugin"),
];

/// A view with the questions the prompt asks of it.
pub(crate) struct Surface<'a>(pub(super) &'a View);

impl<'a> Surface<'a> {
    pub(crate) fn new(view: &'a View) -> Self {
        Self(view)
    }

    /// Whether the turn's tool list has `name`.
    pub(crate) fn offers(&self, name: &str) -> bool {
        self.0
            .advertised()
            .binary_search_by(|entry| entry.name().as_str().cmp(name))
            .is_ok()
    }

    /// Changes with the names on offer.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for entry in self.0.advertised() {
            entry.name().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// `## Built-in Capability Catalog`; empty when nothing is on offer.
    pub(crate) fn catalog(&self) -> String {
        let builtins: Vec<_> = self
            .0
            .advertised()
            .iter()
            .filter(|entry| is_builtin(entry))
            .collect();
        if builtins.is_empty() {
            return String::new();
        }
        let mut text = "## Built-in Capability Catalog\n".to_owned();
        for (category, label) in GROUPS {
            let mut members = builtins
                .iter()
                .filter(|entry| entry.category() == category)
                .peekable();
            if members.peek().is_none() {
                continue;
            }
            let _ = writeln!(text, "### {label}");
            for entry in members {
                let sentence = self.fitting(&one_line(entry.routing_sentence()));
                let _ = write!(text, "`{}`", entry.name());
                if !sentence.is_empty() {
                    let _ = write!(text, " — {}", text::shortened(&sentence, MAX_SENTENCE));
                }
                text.push('\n');
            }
        }
        text
    }

    /// The parts of `sentence` that send the model to no built-in tool this turn lacks.
    fn fitting(&self, sentence: &str) -> String {
        let is_lacking = |name: &str| {
            let known = self.0.snapshot().find(name);
            !self.offers(name) && known.is_some_and(|entry| is_builtin(entry))
        };
        let mut kept = String::new();
        let mut rest = sentence;
        while !rest.is_empty() {
            let end = ["; ", ". "]
                .iter()
                .filter_map(|stop| rest.find(stop).map(|at| at + stop.len()))
                .min()
                .unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            if !part.split('`').skip(1).step_by(2).any(is_lacking) {
                kept.push_str(part);
            }
            rest = after;
        }
        let kept = kept.trim_end();
        match kept.strip_suffix(';') {
            Some(cut) => format!("{cut}."),
            None => kept.to_owned(),
        }
    }
}

pub(super) fn is_builtin(entry: &Capability) -> bool {
    entry.kind() == Kind::Builtin
        && entry.category() != Category::Plugin
        && !entry.metadata().is_plugin_owned()
}

pub(super) fn one_line(sentence: &str) -> String {
    sentence.split_whitespace().collect::<Vec<_>>().join(" ")
}
