//! The daemon, driven over its socket and through the binary.

mod lives;
mod messages;
mod peers;
pub mod running;
mod verbs;
