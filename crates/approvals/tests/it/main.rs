//! The policy desk over real files and a real sandbox.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod changes;
mod chats;
mod directories;
mod support;
