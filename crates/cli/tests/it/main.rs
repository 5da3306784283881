//! The `fermix` binary, driven as its users drive it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod commands;
mod confinement;
mod files;
mod interruption;
mod models;
mod offline;
mod support;
mod trust;
