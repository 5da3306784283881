//! The `fermix` binary, driven as its users drive it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod asked;
mod chat;
mod client;
mod commands;
mod confinement;
mod daemon;
mod doctor;
mod fake_daemon;
mod files;
mod interruption;
mod keyring;
mod models;
mod offline;
mod policy;
mod secrets;
mod support;
mod terminal;
mod trust;
mod undo;
mod usage;
