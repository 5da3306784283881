//! The composition root: builds everything from a home, an environment and a configuration, and
//! knows no business rule of its own.

mod assemble;
pub mod clock;
pub mod desk;
pub mod engine;
pub mod events;
pub mod helpers;
pub mod images;
pub mod inspect;
pub mod locks;
pub mod logs;
mod notify;
pub mod presence;
mod routes;
pub mod run;
mod server;
mod socket;
pub mod traces;

pub use assemble::{BuildError, Parts, problems};
pub use engine::{Answer, Engine, Question};
pub use fermix_agent::{TurnEvent, TurnReport, TurnStatus};
pub use fermix_capability::dispatch::CallOutcome;
pub use fermix_capability::{ApprovalPort, ApprovalPrompt, PromptOrigin};
pub use fermix_channels::{LocalPeer, commands};
pub use server::OwnerRequests;
