//! The built-in tools, driven through the dispatcher on throw-away homes.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its files has to stop"
)]

mod approval;
mod directory;
mod discovery;
mod documents;
mod edit;
mod git_places;
mod git_read;
mod git_support;
mod git_trap;
mod git_undo;
mod git_write;
mod glob;
mod harmless;
mod inventory;
mod presets;
mod read;
mod routing;
mod search;
mod shell;
mod undo;
mod world;
mod write;
