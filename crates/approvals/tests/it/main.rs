//! The policy desk over real files and a real sandbox; approvals through the dispatcher.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod access;
mod changes;
mod chats;
mod directories;
mod support;
