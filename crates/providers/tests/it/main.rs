//! The providers through their public door, against the fake model server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod catalog;
mod failover;
mod golden;
mod sentences;
mod stream;
mod support;
