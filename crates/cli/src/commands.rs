//! The verbs, one file each.

pub mod ask;
pub mod capabilities;
pub mod completions;
pub mod config;
pub mod grant;
pub mod help;
pub mod revoke;
pub mod sandbox;
pub mod tools;
pub mod traces;
pub mod version;
