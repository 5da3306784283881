//! The words every Fermix crate shares: ids, trust, policy classes, messages, tool calls and
//! tool results. No IO happens here.

pub mod clock;
pub mod effort;
pub mod ids;
pub mod message;
pub mod policy;
pub mod result;
pub mod secret_store;
pub mod text;
pub mod tool;
pub mod trace;
pub mod trust;

pub use clock::{Clock, UnixMillis};
pub use effort::Effort;
pub use ids::{ConversationKey, InvalidToolName, ToolName};
pub use message::{AssistantMessage, Image, Message, Replay, ToolCall, ToolMessage, UserMessage};
pub use policy::{Category, ClassSet, Kind, PolicyClass, UnknownName};
pub use result::{Enforcement, EnforcementDecision, ToolError, ToolOutput, ToolResult};
pub use secret_store::SecretStore;
pub use tool::ToolDefinition;
pub use trace::{TraceIds, TraceKind, TraceRow, TraceSink};
pub use trust::{Origin, SandboxMode, Trust};
