//! The agent through its own door, against the fake model and tools that behave badly.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod compacting;
mod context;
mod damaged;
mod delivering;
mod guests;
mod lane;
mod looping;
mod once;
mod replay;
mod stopping;
mod stored;
mod tools;
mod world;
