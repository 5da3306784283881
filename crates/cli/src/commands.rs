//! The verbs, one file each.

pub mod ask;
pub mod capabilities;
pub mod chat;
pub mod completions;
pub mod config;
pub mod help;
pub mod tools;
pub mod traces;
pub mod version;
