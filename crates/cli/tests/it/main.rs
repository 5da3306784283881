//! The `fermix` binary, driven as its users drive it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod commands;
mod doctor;
mod files;
mod interruption;
mod models;
mod offline;
mod support;
mod trust;
mod undo;
mod usage;
