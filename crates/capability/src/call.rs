//! What a running call knows about its turn.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use fermix_types::{ConversationKey, ToolName, TraceIds};
use tokio_util::sync::CancellationToken;

use crate::approval::{ApprovalPort, PromptOrigin};
use crate::untrusted::{FrameId, OutsideSources};
use crate::view::View;

/// What holds for every call of a turn. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TurnScope {
    /// What the caller may see and call.
    pub view: Arc<View>,
    /// Joins trace rows.
    pub ids: TraceIds,
    /// The conversation, for tools that keep something per conversation.
    pub conversation: Option<ConversationKey>,
    /// The folder a trusted local request came from.
    pub cwd: Option<PathBuf>,
    /// Environment of a trusted local session, for commands.
    pub session_env: Arc<[(String, String)]>,
    /// Cancelled by `/stop`, a client that leaves, or the end of the turn.
    pub cancel: CancellationToken,
    /// Which outside sources this turn has read.
    pub outside_sources: OutsideSources,
    /// Who answers prompts of this turn; absent when nobody is there to ask.
    pub origin: Option<PromptOrigin>,
    /// The way to their eyes.
    pub approval: Option<Arc<dyn ApprovalPort>>,
    /// Names this turn's frames, so that no payload can close one.
    pub frame: FrameId,
}

/// What one call is handed.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The turn.
    pub turn: TurnScope,
    /// The model's id for the call.
    pub call_id: String,
    /// The capability that runs.
    pub tool: ToolName,
    /// Cancelled with the turn, and when the deadline passes.
    pub cancel: CancellationToken,
    /// When the dispatcher stops waiting.
    pub deadline: Instant,
    /// The most text the model is shown, in bytes.
    pub max_output: usize,
}

impl CallContext {
    /// Whether a present owner asked for this.
    pub fn is_attended(&self) -> bool {
        self.turn.view.caller().is_attended_owner()
    }
}
