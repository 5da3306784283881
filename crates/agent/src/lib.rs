//! The agent: mailboxes, the turn loop, prompt assembly, work notes and streaming.
//!
//! [`Agent::submit`] takes a message; its conversation's lane runs one turn at a time: store the
//! message, assemble the prompt, loop over model and tools, deliver, store the answer.

mod agent;
mod calibration;
mod compaction;
mod history;
mod lifecycle;
mod mailbox;
mod note_tags;
pub mod prompt;
mod reply;
mod report;
mod settings;
mod spending;
mod traces;
mod turn;
mod work_note;

pub use agent::{Agent, AgentParts, ShutdownReport};
pub use compaction::CompactOutcome;
pub use mailbox::{LaneStatus, MailboxStatus, StopCounts};
pub use reply::{DeliveryError, ReplyPort, ReportOnly};
pub use report::{
    MAX_IMAGE_BYTES, MAX_IMAGES, MAX_MESSAGE, Submitted, TurnReport, TurnRequest, TurnStatus,
};
pub use settings::{AgentSettings, MAX_ITERATIONS};
pub use spending::OverBudget;
pub use turn::{TurnEvent, TurnTokens};
