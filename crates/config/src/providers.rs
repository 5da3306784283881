//! The providers' blocks of the file.

use std::fmt;
use std::str::FromStr;

use fermix_types::{Effort, UnknownName};
use serde::{Deserialize, Serialize};

use crate::api_key::KeySetting;

/// A provider that has a block in the file, in fallback order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderId {
    /// ChatGPT sign-in.
    OpenaiCodex,
    /// OpenAI with a key.
    Openai,
    /// Anthropic with a key.
    Anthropic,
    /// xAI with a key.
    Xai,
    /// OpenRouter with a key.
    Openrouter,
    /// Mistral with a key.
    Mistral,
    /// A local Ollama server.
    Ollama,
    /// Any server that speaks Chat Completions.
    OpenaiCompatible,
}

impl ProviderId {
    /// Every provider in fallback order.
    pub const ALL: [Self; 8] = [
        Self::OpenaiCodex,
        Self::Openai,
        Self::Anthropic,
        Self::Xai,
        Self::Openrouter,
        Self::Mistral,
        Self::Ollama,
        Self::OpenaiCompatible,
    ];

    /// The names in the order of [`Self::ALL`].
    pub(crate) const NAMES: [&'static str; 8] = {
        let mut names = [""; 8];
        let mut index = 0;
        while index < names.len() {
            names[index] = Self::ALL[index].as_str();
            index += 1;
        }
        names
    };

    /// The name of the block.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenaiCodex => "openai_codex",
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Xai => "xai",
            Self::Openrouter => "openrouter",
            Self::Mistral => "mistral",
            Self::Ollama => "ollama",
            Self::OpenaiCompatible => "openai_compatible",
        }
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProviderId {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|id| id.as_str() == text)
            .ok_or_else(|| UnknownName {
                what: "provider",
                name: text.to_owned(),
                accepted: Self::NAMES.join(", "),
            })
    }
}

/// What the file and the environment say about one provider. A block accepts only the keys its
/// provider has; the others stay `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Whether this provider is asked first. At most one is.
    pub primary: bool,
    /// The model that is asked unless another is named.
    pub default_model: Option<String>,
    /// The key, or where it is kept.
    pub api_key: Option<KeySetting>,
    /// Where requests go instead of the provider's own address.
    pub base_url: Option<String>,
    /// How hard the model thinks.
    pub reasoning_effort: Option<Effort>,
    /// Whether faster, dearer service is asked for (`openai_codex`).
    pub fast: bool,
    /// The model's window in tokens (`openai_compatible`).
    pub context_window: Option<u64>,
    /// Whether the model takes images (`openai_compatible`).
    pub vision: Option<bool>,
    /// Whether the model can call tools (`openai_compatible`).
    pub tools: Option<bool>,
}

/// The blocks of all providers; a missing block is the default one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderBlocks([ProviderSettings; 8]);

impl ProviderBlocks {
    /// The block of `id`.
    pub fn get(&self, id: ProviderId) -> &ProviderSettings {
        &self.0[id as usize]
    }

    /// All blocks in fallback order.
    pub fn iter(&self) -> impl Iterator<Item = (ProviderId, &ProviderSettings)> {
        ProviderId::ALL.into_iter().zip(&self.0)
    }

    pub(crate) fn get_mut(&mut self, id: ProviderId) -> &mut ProviderSettings {
        &mut self.0[id as usize]
    }
}
