//! What the owner is asked: one store of confirmation tokens for everything that waits for a yes.
//!
//! Changes of the sandbox, grants of folders and single commands are parked here under a token
//! until the owner answers from where they were asked, or the time is up.

pub mod commands;
mod confirmations;
mod scope;

pub use confirmations::{ConfirmError, Confirmations, MAX_LIVE, Parked, TOKEN_TTL};
pub use scope::sandbox_scope;
