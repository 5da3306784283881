//! Approvals, driven through the dispatcher with stand-ins for the tools that will need them.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its files has to stop"
)]

mod access;
