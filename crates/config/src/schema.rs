//! The table of every key: its type, default, accepted values, and how it is put into [`Config`].

mod kind;
mod markdown;
mod rows;
mod suggest;
mod value;

use fermix_types::ToolName;

use crate::providers::ProviderId;
use crate::settings::Config;

pub(crate) use kind::Rejected;
pub use markdown::render_markdown;
pub(crate) use suggest::{Advice, advise, dotted_name};
pub use value::SettingValue;
pub(crate) use value::{Value, put};

use kind::Kind;

type Setter = fn(&mut Config, &[String], Value) -> Result<(), Rejected>;

/// One key of `config.toml`.
pub struct KeyDoc {
    path: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
    variable: Option<&'static str>,
    alias_of: Option<&'static str>,
    set: Setter,
}

impl KeyDoc {
    /// The dotted path. A part in angle brackets stands for a name of the owner's choice.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The type in words.
    pub fn type_text(&self) -> String {
        self.kind.type_text()
    }

    /// The value when the key is absent, as TOML, or `unset`.
    pub fn default(&self) -> &'static str {
        self.default
    }

    /// The accepted values of a closed list; empty when the list is open.
    pub fn accepted(&self) -> Vec<&'static str> {
        self.kind.accepted()
    }

    /// Whether the value is never shown and never written by `config set`.
    pub fn secret(&self) -> bool {
        self.item().is_some()
    }

    /// The name of the secret in a store, when the key is a secret.
    pub(crate) fn item(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Secret { item } => Some(item),
            _ => None,
        }
    }

    /// What the key does.
    pub fn doc(&self) -> &'static str {
        self.doc
    }

    /// The environment variable that wins over the file.
    pub fn variable(&self) -> Option<&'static str> {
        self.variable
    }

    /// The key this one is another spelling of.
    pub fn alias_of(&self) -> Option<&'static str> {
        self.alias_of
    }

    /// A value the key accepts, as TOML.
    pub fn example(&self) -> &'static str {
        self.kind.example()
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(crate) fn apply(
        &self,
        config: &mut Config,
        names: &[String],
        value: Value,
    ) -> Result<(), Rejected> {
        (self.set)(config, names, value)
    }

    /// The path with the names filled in, of the key this one stands for.
    pub(crate) fn canonical(&self, names: &[String]) -> String {
        let mut names = names.iter();
        let mut parts = Vec::new();
        for part in self.alias_of.unwrap_or(self.path).split('.') {
            let name = if is_wildcard(part) {
                names.next()
            } else {
                None
            };
            parts.push(name.map_or_else(|| part.to_owned(), |name| quoted(name)));
        }
        parts.join(".")
    }
}

/// Every key, grouped by section.
pub fn keys() -> impl Iterator<Item = &'static KeyDoc> + Clone {
    rows::GROUPS.iter().copied().flatten()
}

/// What a path of the file names.
pub(crate) enum Found {
    /// A key, with the names that stand where the table has a part in angle brackets.
    Key(&'static KeyDoc, Vec<String>),
    /// A section.
    Section,
    /// Nothing, with the nearest name that could stand there and why the name is refused, when
    /// there is more to say than that it is unknown.
    Nothing {
        suggestion: Option<String>,
        reason: Option<String>,
    },
}

/// Looks up a path.
pub(crate) fn look_up(path: &[String]) -> Found {
    let mut is_section = false;
    for row in keys() {
        let mut parts = row.path.split('.');
        let mut names = Vec::new();
        let matches = path.iter().all(|given| match parts.next() {
            Some(part) if is_wildcard(part) => {
                names.push(given.clone());
                name_fits(part, given)
            }
            Some(part) => part == given,
            None => false,
        });
        match (matches, parts.next()) {
            (true, None) => return Found::Key(row, names),
            (true, Some(_)) => is_section = true,
            (false, _) => {}
        }
    }
    if is_section {
        Found::Section
    } else {
        nothing(path)
    }
}

fn nothing(path: &[String]) -> Found {
    let Some((given, parents)) = path.split_last() else {
        return Found::Nothing {
            suggestion: None,
            reason: None,
        };
    };
    let mut candidates: Vec<&str> = Vec::new();
    let mut reason = None;
    for row in keys() {
        let mut parts = row.path.split('.');
        let under_parents = parents.iter().all(|parent| match parts.next() {
            Some(part) if is_wildcard(part) => name_fits(part, parent),
            Some(part) => part == parent,
            None => false,
        });
        let Some(part) = parts.next().filter(|_| under_parents) else {
            continue;
        };
        match part {
            CHANNEL => {
                candidates.extend(CHANNELS);
                reason = Some(format!(
                    "no such channel; accepted: {}",
                    CHANNELS.join(", ")
                ));
            }
            part if is_wildcard(part) => {}
            part => candidates.push(part),
        }
    }
    if parents == ["fermix_core", "providers"] {
        reason = Some(format!(
            "no such provider; accepted: {}",
            ProviderId::NAMES.join(", ")
        ));
    }
    Found::Nothing {
        suggestion: nearest(given, &candidates),
        reason,
    }
}

/// The candidate that differs from `given` by a slip of the fingers, if there is one.
pub(crate) fn nearest(given: &str, candidates: &[&str]) -> Option<String> {
    let slips = (given.chars().count() / 3).clamp(1, 3);
    candidates
        .iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&given.to_lowercase(), candidate),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= slips)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| (*candidate).to_owned())
}

/// A key part as TOML writes it, with quotes when it needs them.
pub(crate) fn quoted(part: &str) -> String {
    toml_edit::Key::new(part).display_repr().into_owned()
}

/// A path as TOML writes it.
pub(crate) fn dotted(path: &[String]) -> String {
    path.iter()
        .map(|part| quoted(part))
        .collect::<Vec<_>>()
        .join(".")
}

const CHANNEL: &str = "<channel>";
const MODEL: &str = "<model>";
const VARIABLE: &str = "<NAME>";
const COMMAND: &str = "<command>";

/// The chat platforms that have an adapter or will get one.
const CHANNELS: [&str; 5] = ["discord", "signal", "slack", "telegram", "whatsapp"];

fn is_wildcard(part: &str) -> bool {
    part.starts_with('<')
}

fn name_fits(wildcard: &str, given: &str) -> bool {
    match wildcard {
        CHANNEL => CHANNELS.contains(&given),
        MODEL => !given.trim().is_empty() && !given.chars().any(char::is_control),
        // A section called like one of the section's own keys would be ambiguous.
        VARIABLE => {
            kind::is_variable(given) && !["mode", "allow", "deny", "sources"].contains(&given)
        }
        COMMAND => {
            ToolName::new(given).is_ok()
                && !["profile", "presets", "enabled_presets", "explicit"].contains(&given)
        }
        _ => false,
    }
}
