//! `fermix config unset KEY`.

use fermix_config::ConfigFile;
use serde_json::json;

use super::refuse_unless_in_person;
use crate::output::{self, Exit};
use crate::start::Start;

/// Removes one value. A key that Fermix does not know can be removed too: that mends a file.
pub fn run(key: &str, as_json: bool, start: &Start) -> Exit {
    if let Some(refused) = refuse_unless_in_person(as_json, start) {
        return refused;
    }
    let removed = match ConfigFile::update(&start.home, |file| file.unset(key)) {
        Ok((removed, _)) => removed,
        Err(error) => return output::failure(as_json, &error.to_string()),
    };
    if as_json {
        output::json(&json!({ "status": "ok", "key": key, "changed": removed }));
    } else if removed {
        output::notice(&format!(
            "removed {key} from {}",
            start.home.config_file().display()
        ));
    } else {
        output::notice(&format!("{key} is not in the file"));
    }
    Exit::Ok
}
