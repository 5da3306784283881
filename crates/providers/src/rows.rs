//! The table of providers, in fallback order.

use crate::request::ProviderId;

/// One provider that is reached over HTTP.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name.
    pub id: ProviderId,
    /// The vendor's own address. A provider without one needs `base_url`.
    pub address: Option<&'static str>,
    /// How it knows us.
    pub auth: Auth,
    /// Whether `reasoning_effort` means anything to it.
    pub effort: bool,
}

/// How a provider knows us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The tokens of a sign-in, in `auth.json`.
    SignIn,
    /// A key, from the configuration or this environment variable.
    Key(&'static str),
    /// A key if there is one; the server decides whether it wants it.
    OptionalKey(&'static str),
    /// Nothing.
    None,
}

const fn row(id: ProviderId, address: Option<&'static str>, auth: Auth, effort: bool) -> Row {
    Row {
        id,
        address,
        auth,
        effort,
    }
}

/// Every provider but the embedded one.
pub const ROWS: [Row; 8] = [
    row(
        ProviderId::OpenaiCodex,
        Some("https://chatgpt.com/backend-api/codex"),
        Auth::SignIn,
        true,
    ),
    row(
        ProviderId::Openai,
        Some("https://api.openai.com/v1"),
        Auth::Key("OPENAI_API_KEY"),
        true,
    ),
    row(
        ProviderId::Anthropic,
        Some("https://api.anthropic.com/v1"),
        Auth::Key("ANTHROPIC_API_KEY"),
        true,
    ),
    row(
        ProviderId::Xai,
        Some("https://api.x.ai/v1"),
        Auth::Key("XAI_API_KEY"),
        true,
    ),
    row(
        ProviderId::Openrouter,
        Some("https://openrouter.ai/api/v1"),
        Auth::Key("OPENROUTER_API_KEY"),
        false,
    ),
    row(
        ProviderId::Mistral,
        Some("https://api.mistral.ai/v1"),
        Auth::Key("MISTRAL_API_KEY"),
        false,
    ),
    row(
        ProviderId::Ollama,
        Some("http://localhost:11434/v1"),
        Auth::None,
        false,
    ),
    row(
        ProviderId::OpenaiCompatible,
        None,
        Auth::OptionalKey("OPENAI_COMPATIBLE_API_KEY"),
        false,
    ),
];
