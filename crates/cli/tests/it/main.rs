//! The `fermix` binary, driven as its users drive it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod commands;
mod files;
mod interruption;
mod keyring;
mod models;
mod offline;
mod secrets;
mod support;
mod trust;
