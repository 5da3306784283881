//! `auth.json` and the stores through their public doors.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod auth_json;
mod auth_update;
mod file_store;
mod harden;
