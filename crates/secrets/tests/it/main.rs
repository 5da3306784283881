//! `auth.json` through its public door.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod auth_json;
