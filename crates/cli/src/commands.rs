//! The verbs, one file each.

pub mod ask;
pub mod capabilities;
pub mod chat;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod grant;
pub mod health;
pub mod help;
pub mod logs;
pub mod reload;
pub mod revoke;
pub mod run;
pub mod sandbox;
pub mod secrets;
pub mod status;
pub mod stop;
pub mod tools;
pub mod traces;
pub mod undo;
pub mod usage;
pub mod version;
