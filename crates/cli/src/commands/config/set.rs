//! `fermix config set KEY VALUE`.

use fermix_config::ConfigFile;
use fermix_daemon::secrets::Migration;
use serde_json::json;

use super::refuse_unless_in_person;
use crate::commands::secrets::migrate;
use crate::output::{self, Exit};
use crate::start::Start;

/// Changes one value and nothing else, except that keys in plain text go to a store.
pub fn run(key: &str, value: &str, as_json: bool, start: &Start) -> Exit {
    if let Some(refused) = refuse_unless_in_person(as_json, start) {
        return refused;
    }
    let mut file = match ConfigFile::open_locked(&start.home) {
        Ok(file) => file,
        Err(error) => return output::failure(as_json, &error.to_string()),
    };
    if let Err(error) = file.set(key, value) {
        return output::failure(as_json, &error.to_string());
    }
    // A configuration that is invalid as a whole is refused by the save, with its own words.
    let mut migration = Migration::default();
    if let Ok(config) = file.config() {
        let problems = start.problems(&config);
        if !problems.is_empty() {
            return output::failure(as_json, &problems.join("\n"));
        }
        migration = match migrate::move_plain(&mut file, &config, start) {
            Ok(migration) => migration,
            Err(error) => return output::failure(as_json, &error),
        };
    }
    match file.save() {
        Ok(changed) if as_json => {
            output::json(&json!({ "status": "ok", "key": key, "changed": changed }));
        }
        Ok(true) => output::notice(&format!("set {key} in {}", file.path().display())),
        Ok(false) => output::notice(&format!("{key} already has this value")),
        Err(error) => return output::failure(as_json, &error.to_string()),
    }
    migrate::tell(&migration);
    Exit::Ok
}
