//! Approval of single calls: commands, calls of a turn that has read outside content, and
//! capabilities that act in somebody's name.
//!
//! [`CallApprovals`] is the guard the dispatcher asks before anything runs. It never widens: it lets a
//! call through that would run without it, or stops it. A yes binds to the whole command, its folder
//! and the names of its variables; what cannot be asked, is denied or expires has run nothing.

mod access;
mod asking;
mod guard;
mod harmless;
mod remembered;
mod run_later;
mod script;
mod subject;
mod tainted;
mod visible;

pub use guard::{ApprovalRules, CallApprovals, outcome};
pub use remembered::{ApprovedCommand, ApprovedCommands, MAX_REMEMBERED, RememberError};
