//! The composition root: builds everything from a home, an environment and a configuration, and
//! knows no business rule of its own.

mod assemble;
pub mod clock;
pub mod desk;
pub mod doctor;
pub mod engine;
pub mod events;
pub mod helpers;
pub mod images;
pub mod inspect;
mod lazy_store;
pub mod locks;
pub mod logs;
mod notify;
mod owner;
pub mod policy;
pub mod presence;
mod routes;
pub mod run;
pub mod secrets;
mod server;
mod socket;
pub mod traces;
mod undoing;
mod usage;

pub use assemble::{BuildError, Parts, problems};
pub use engine::{Answer, Engine, Question};
pub use fermix_agent::{TurnEvent, TurnReport, TurnStatus};
pub use fermix_approvals as approvals;
pub use fermix_capability::approval::Choice;
pub use fermix_capability::dispatch::CallOutcome;
pub use fermix_capability::{ApprovalPort, ApprovalPrompt, PromptOrigin};
pub use fermix_channels::{LocalPeer, commands};
pub use fermix_store::{UsageBy, UsageRow};
pub use server::OwnerRequests;
pub use undoing::Undone;
pub use usage::DayBudget;
