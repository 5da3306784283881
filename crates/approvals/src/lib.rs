//! What the owner is asked: one store of confirmation tokens for everything that waits for a yes.
//!
//! Changes of the sandbox, grants of folders and single commands are parked here under a token
//! until the owner answers from where they were asked, or the time is up. [`PolicyDesk`] is the one
//! place that changes the sandbox: the command line, the daemon's socket and chats all go through
//! its operations.

pub mod commands;
mod confirmations;
pub mod policy;
mod scope;
pub mod shown;
mod waiting;

pub use confirmations::{ConfirmError, Confirmations, MAX_LIVE, Parked, TOKEN_TTL};
pub use policy::{Operation, Outcome, PolicyDesk, PolicyError, PolicyParts, State};
pub use scope::sandbox_scope;
pub use waiting::{Answer, Monotonic, Prompts, Waiting, answer, render};
