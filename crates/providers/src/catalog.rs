//! What is known about each model, as data that the owner can correct.
//!
//! Facts of one model, first found wins:
//! 1. `[fermix_core.models.<id>]` of the configuration,
//! 2. the model's own entry in `catalog.toml`,
//! 3. the longest family prefix in `catalog.toml`,
//! 4. a window of 100,000 tokens, answers of 8,192, no images, no effort.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use fermix_config::ModelOverride;
use fermix_types::Effort;
use serde::Deserialize;

use crate::request::ProviderId;

/// The window of a model nobody knows, in tokens.
pub const UNKNOWN_CONTEXT_WINDOW: u64 = 100_000;
/// The longest answer of a model nobody knows, in tokens.
pub const UNKNOWN_MAX_OUTPUT: u64 = 8_192;

/// Everything a request to one model depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFacts {
    /// What people call it.
    pub label: String,
    /// What a prompt may hold, in tokens.
    pub context_window: u64,
    /// The longest answer, in tokens.
    pub max_output: u64,
    /// Whether it takes images.
    pub vision: bool,
    /// Whether it takes sampling parameters.
    pub temperature: bool,
    /// Whether it gives sealed reasoning on the Responses wire.
    pub reasoning: bool,
    /// How its thinking is switched on.
    pub thinking: Thinking,
    /// The efforts it takes, lowest first; empty when it takes none.
    pub efforts: Vec<Effort>,
}

/// How a model's thinking is switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// There is no switch.
    #[default]
    None,
    /// The model decides how much, once told that it may.
    Adaptive,
}

/// The catalog with the owner's corrections. Nothing is parsed before the first question.
#[derive(Debug, Default)]
pub struct Catalog {
    parsed: OnceLock<Parsed>,
    overrides: BTreeMap<String, ModelOverride>,
}

#[derive(Debug)]
struct Parsed {
    models: HashMap<String, Entry>,
    /// Longest prefix first.
    families: Vec<(String, Entry)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Vec<Entry>,
    family: Vec<Entry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    id: Option<String>,
    prefix: Option<String>,
    label: Option<String>,
    providers: Vec<String>,
    default: Vec<String>,
    context_window: Option<u64>,
    max_output: Option<u64>,
    vision: Option<bool>,
    temperature: Option<bool>,
    reasoning: Option<bool>,
    thinking: Option<Thinking>,
    efforts: Option<Vec<Effort>>,
}

impl Catalog {
    /// The catalog with `overrides` from the configuration.
    pub fn new(overrides: BTreeMap<String, ModelOverride>) -> Self {
        Self {
            parsed: OnceLock::new(),
            overrides,
        }
    }

    /// The facts of a model, known or not.
    pub fn facts(&self, provider: ProviderId, model: &str) -> ModelFacts {
        let parsed = self.parsed();
        let exact = parsed
            .entry(model)
            .filter(|entry| entry.is_served_by(provider));
        let family = parsed
            .families
            .iter()
            .find(|(prefix, entry)| {
                model.starts_with(prefix.as_str()) && entry.is_served_by(provider)
            })
            .map(|(_, entry)| entry);
        let nothing = Entry::default();
        let (exact, family) = (exact.unwrap_or(&nothing), family.unwrap_or(&nothing));
        // A model this file does not know takes a temperature where every model of the wire does.
        let temperature = exact
            .temperature
            .or(family.temperature)
            .unwrap_or(provider != ProviderId::Anthropic);
        let mut facts = ModelFacts {
            label: exact.label.clone().unwrap_or_else(|| model.to_owned()),
            context_window: exact
                .context_window
                .or(family.context_window)
                .unwrap_or(UNKNOWN_CONTEXT_WINDOW),
            max_output: exact
                .max_output
                .or(family.max_output)
                .unwrap_or(UNKNOWN_MAX_OUTPUT),
            vision: exact.vision.or(family.vision).unwrap_or(false),
            temperature,
            reasoning: exact.reasoning.or(family.reasoning).unwrap_or(false),
            thinking: exact.thinking.or(family.thinking).unwrap_or_default(),
            efforts: exact
                .efforts
                .clone()
                .or_else(|| family.efforts.clone())
                .unwrap_or_default(),
        };
        if let Some(correction) = self.overrides.get(model) {
            facts.correct(correction);
        }
        facts
    }

    /// The model a provider runs when none is named.
    pub fn default_model(&self, provider: ProviderId) -> Option<&str> {
        let models = self.parsed().models.values();
        let mut ids =
            models.filter(|entry| entry.default.iter().any(|name| name == provider.as_str()));
        ids.find_map(|entry| entry.id.as_deref())
    }

    /// The first provider, in fallback order, that a known model belongs to.
    pub fn owner_of(&self, model: &str) -> Option<&'static str> {
        self.owners_of(model).first().map(|owner| owner.as_str())
    }

    /// Every provider a known model belongs to; empty for a model nobody knows.
    pub fn owners_of(&self, model: &str) -> Vec<ProviderId> {
        let Some(entry) = self.parsed().entry(model) else {
            return Vec::new();
        };
        ProviderId::ALL
            .into_iter()
            .filter(|provider| entry.is_served_by(*provider))
            .collect()
    }

    fn parsed(&self) -> &Parsed {
        self.parsed.get_or_init(|| {
            let file: File = toml::from_str(include_str!("catalog.toml"))
                .expect("a test parses the embedded catalog");
            let models = file
                .model
                .into_iter()
                .filter_map(|entry| Some((entry.id.clone()?, entry)))
                .collect();
            let mut families: Vec<_> = file
                .family
                .into_iter()
                .filter_map(|entry| Some((entry.prefix.clone()?, entry)))
                .collect();
            families.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
            Parsed { models, families }
        })
    }
}

impl Parsed {
    fn entry(&self, model: &str) -> Option<&Entry> {
        self.models
            .get(model)
            .or_else(|| self.models.get(undated(model)?))
    }
}

impl Entry {
    fn is_served_by(&self, provider: ProviderId) -> bool {
        // A server of the owner's may serve anything under its usual name.
        provider == ProviderId::OpenaiCompatible
            || self.providers.iter().any(|name| name == provider.as_str())
    }
}

impl ModelFacts {
    fn correct(&mut self, correction: &ModelOverride) {
        self.context_window = correction.context_window.unwrap_or(self.context_window);
        self.max_output = correction.max_output.unwrap_or(self.max_output);
        self.vision = correction.vision.unwrap_or(self.vision);
        if let Some(ceiling) = correction.effort_ceiling {
            if self.efforts.is_empty() {
                self.efforts = Effort::ALL
                    .iter()
                    .copied()
                    .filter(|effort| *effort != Effort::None)
                    .collect();
            }
            self.efforts.retain(|effort| *effort <= ceiling);
        }
    }
}

/// `model` without a release date or `-latest`, if it ends in one.
fn undated(model: &str) -> Option<&str> {
    let ends_in = |shape: &str| {
        let start = model.len().checked_sub(shape.len())?;
        let tail = model.get(start..)?;
        let fits = tail.bytes().zip(shape.bytes()).all(|(byte, wanted)| {
            if wanted == b'0' {
                byte.is_ascii_digit()
            } else {
                byte == wanted
            }
        });
        fits.then(|| &model[..start])
    };
    ["-latest", "-0000-00-00", "-00000000"]
        .into_iter()
        .find_map(ends_in)
}

#[cfg(test)]
mod tests;
