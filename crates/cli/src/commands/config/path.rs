//! `fermix config path`.

use serde_json::json;

use crate::output::{self, Exit};
use crate::start::Start;

/// Prints where the file is, whether or not it exists.
pub fn run(as_json: bool, start: &Start) -> Exit {
    let path = start.home.config_file();
    if as_json {
        output::json(&json!({ "path": path, "exists": path.exists() }));
    } else {
        output::line(&path.display().to_string());
    }
    Exit::Ok
}
