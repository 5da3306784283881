//! Behaviour of the configuration as its users see it: text in, settings or sentences out.

#![expect(
    clippy::unwrap_used,
    reason = "a failed step of a test is a failed test"
)]

mod crash;
mod edits;
mod home;
mod questions;
mod random;
mod read;
mod secrets;
mod support;
mod table;
