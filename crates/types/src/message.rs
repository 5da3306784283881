//! What goes between the user, the model and the tools, independent of any provider's wire.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An image's bytes with its media type.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// For example `image/png`.
    pub mime_type: String,
    /// The encoded image, not base64.
    #[serde(with = "base64_bytes")]
    pub data: Bytes,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({}, {} bytes)", self.mime_type, self.data.len())
    }
}

impl Image {
    /// The bytes as standard base64 with padding.
    pub fn base64(&self) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(&self.data)
    }
}

mod base64_bytes {
    use base64::Engine as _;
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(data: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64::engine::general_purpose::STANDARD.encode(data))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        base64::engine::general_purpose::STANDARD
            .decode(text)
            .map(Bytes::from)
            .map_err(serde::de::Error::custom)
    }
}

/// One entry of a conversation as a provider is shown it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// The person, or machinery speaking in their place.
    User(UserMessage),
    /// The model.
    Assistant(AssistantMessage),
    /// A tool's answer to one call of the assistant message before it.
    Tool(ToolMessage),
}

/// What the person said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// May be empty when there is an image.
    pub text: String,
    /// In the order they were attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

/// What the model said and asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// May be empty when there are calls.
    pub text: String,
    /// In the order the model made them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// What the adapter needs to replay this message verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

/// A provider's own form of an assistant message, opaque to everyone but its adapter. No secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// The provider that produced it; another provider ignores it.
    pub provider: String,
    /// Items or blocks as they came over the wire.
    pub items: Vec<Value>,
}

/// One request of the model to run a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within a run; joins the call with its result.
    pub call_id: String,
    /// As the model wrote it; it may name nothing.
    pub name: String,
    /// JSON text as the model wrote it; it may not parse.
    pub arguments: String,
}

/// A tool's answer as the model reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolMessage {
    /// The call this answers.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The wire text: framed, prefixed and cut already.
    pub text: String,
    /// Images the tool returned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Whether the text reports a failure.
    #[serde(default)]
    pub is_error: bool,
}
