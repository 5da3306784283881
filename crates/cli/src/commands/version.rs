//! `fermix version`.

use serde_json::json;

use crate::output::{self, Exit};

/// Prints the version.
pub fn run(as_json: bool) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    if as_json {
        output::json(&json!({ "version": version }));
    } else {
        output::line(&format!("fermix {version}"));
    }
    Exit::Ok
}
