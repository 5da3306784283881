//! The built-in tools, driven through the dispatcher on throw-away homes.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its files has to stop"
)]

mod discovery;
mod documents;
mod edit;
mod git_places;
mod git_read;
mod git_support;
mod git_trap;
mod git_write;
mod glob;
mod inventory;
mod read;
mod routing;
mod search;
mod shell;
mod world;
mod write;
