//! The verbs, one file each.

pub mod ask;
pub mod capabilities;
pub mod completions;
pub mod config;
pub mod help;
pub mod secrets;
pub mod tools;
pub mod traces;
pub mod version;
