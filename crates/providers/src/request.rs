//! What goes to a model and comes back, before any wire gives it a form.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use fermix_types::{AssistantMessage, Effort, Message, ToolDefinition};
use tokio_util::sync::CancellationToken;

use crate::error::ProviderError;

/// A vendor, or the model server the owner runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProviderId {
    /// ChatGPT sign-in.
    OpenaiCodex,
    /// OpenAI's API.
    Openai,
    /// Anthropic's API.
    Anthropic,
    /// xAI's API.
    Xai,
    /// OpenRouter.
    Openrouter,
    /// Mistral's API.
    Mistral,
    /// A local Ollama.
    Ollama,
    /// Any server that speaks Chat Completions.
    OpenaiCompatible,
    /// The embedded provider that is not a language model.
    Offline,
}

impl ProviderId {
    /// Every provider, in fallback order.
    pub const ALL: [Self; 9] = [
        Self::OpenaiCodex,
        Self::Openai,
        Self::Anthropic,
        Self::Xai,
        Self::Openrouter,
        Self::Mistral,
        Self::Ollama,
        Self::OpenaiCompatible,
        Self::Offline,
    ];

    /// The name used in configuration and traces.
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
            Self::Offline => "offline",
        }
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A provider name that is not in the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown provider `{name}`; accepted: {accepted}")]
pub struct UnknownProvider {
    name: String,
    accepted: String,
}

impl FromStr for ProviderId {
    type Err = UnknownProvider;

    fn from_str(name: &str) -> Result<Self, UnknownProvider> {
        Self::ALL
            .into_iter()
            .find(|id| id.as_str() == name)
            .ok_or_else(|| UnknownProvider {
                name: name.to_owned(),
                accepted: Self::ALL.map(Self::as_str).join(", "),
            })
    }
}

/// One request to a model. The conversation is whole every time; nothing is kept server-side.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The model's id; the route that is asked puts its own here.
    pub model: String,
    /// The leading system run, stable parts first.
    pub system: Vec<SystemPart>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// What the model may call; empty for a call without tools.
    pub tools: Arc<[ToolDefinition]>,
    /// Whether it may call any of them now.
    pub calls: Calls,
    /// Overlays the route's effort; absent means the route's own.
    pub effort: Option<Effort>,
    /// An upper bound for the answer, in tokens; absent means what the model can.
    pub max_output_tokens: Option<u32>,
    /// Sent only where the model takes one.
    pub temperature: Option<f32>,
    /// Names the conversation, so that a provider finds its prompt cache again.
    pub cache_key: String,
}

/// Whether the model may call tools in this answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// It may.
    #[default]
    Allowed,
    /// It must answer in words. The tools go along only where the wire refuses a conversation with
    /// calls in it and no tools.
    Forbidden,
}

/// A piece of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemPart {
    /// The text.
    pub text: String,
    /// Whether the text is the same on every turn, so that caching it pays.
    pub stable: bool,
}

impl ChatRequest {
    /// Whether anything in the conversation is an image.
    pub fn has_images(&self) -> bool {
        self.messages.iter().any(|message| match message {
            Message::User(user) => !user.images.is_empty(),
            Message::Tool(tool) => !tool.images.is_empty(),
            Message::Assistant(_) => false,
        })
    }

    /// The system parts as one text, joined by blank lines.
    pub(crate) fn instructions(&self) -> String {
        let parts: Vec<&str> = self
            .system
            .iter()
            .map(|part| part.text.as_str())
            .filter(|text| !text.trim().is_empty())
            .collect();
        parts.join("\n\n")
    }
}

/// What a model sends while it is still answering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelEvent {
    /// More of the answer.
    TextDelta(String),
    /// More of the model's thoughts.
    ReasoningDelta(String),
    /// A piece of text is complete.
    TextDone,
    /// A piece of thought is complete.
    ReasoningDone,
}

/// Takes the events of a call. Previewing only: the response is authoritative.
pub trait EventSink: Send {
    /// Takes one event.
    fn emit(&mut self, event: ModelEvent);

    /// Whether anybody sees the events. A call that nobody has seen may be made again.
    fn is_visible(&self) -> bool {
        true
    }
}

/// Takes events and shows them to nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unseen;

impl EventSink for Unseen {
    fn emit(&mut self, _event: ModelEvent) {}

    fn is_visible(&self) -> bool {
        false
    }
}

/// A model's answer. A test's own adapter fills in what it cares about and takes the rest from
/// [`Default`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatResponse {
    /// What it said and asked for.
    pub message: AssistantMessage,
    /// What it cost.
    pub usage: Usage,
    /// The model that answered, in the provider's words.
    pub model: String,
    /// Whether the answer ended at a length limit rather than where the model wanted: its text is
    /// a beginning, and the arguments of its last call may be.
    pub truncated: bool,
    /// The provider's word for why it broke the answer off although there was more to say, for
    /// example `refusal` or `content_filter`: what arrived is a beginning.
    pub declined: Option<String>,
}

/// Token counts as the provider reported them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Everything that was read, cached tokens included.
    pub prompt_tokens: u64,
    /// Everything that was written, thoughts included.
    pub completion_tokens: u64,
    /// Both.
    pub total_tokens: u64,
    /// Read from a cache; absent when the provider said nothing, and a reported 0 is a fact.
    pub cached_input_tokens: Option<u64>,
    /// Written to a cache; absent when the provider said nothing.
    pub cache_creation_input_tokens: Option<u64>,
}

/// One provider's way of being asked.
#[async_trait]
pub trait Adapter: Send + Sync {
    /// Makes one call: no retries, no other route. Cancelling drops the request.
    async fn chat(
        &self,
        request: &ChatRequest,
        events: &mut dyn EventSink,
        cancel: &CancellationToken,
    ) -> Result<ChatResponse, ProviderError>;
}
