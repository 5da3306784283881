//! `fermix reload`: the daemon reads config.toml again.

use fermix_api::Request;
use serde_json::{Map, Value};

use crate::client::{ClientError, Daemon};
use crate::output::{self, Exit};
use crate::start::Start;

/// Reloads, and says what holds now and what waits for a restart.
pub fn run(as_json: bool, start: &Start) -> Exit {
    let runtime = match start.runtime() {
        Ok(runtime) => runtime,
        Err(error) => return output::failure(as_json, &error),
    };
    let daemon = Daemon::of(&start.home);
    let reload = match runtime.block_on(daemon.request(&Request::Reload {})) {
        Ok(mut members) => members.remove("reload").unwrap_or_default(),
        Err(ClientError::NotRunning) => return output::not_running(as_json),
        Err(error) => return output::failure(as_json, &error.to_string()),
    };
    for warning in names(&reload, "warnings") {
        output::notice(&format!("warning: {warning}"));
    }
    if as_json {
        output::json(&Map::from_iter([
            ("status".to_owned(), Value::from("ok")),
            ("reload".to_owned(), reload),
        ]));
        return Exit::Ok;
    }
    let (applied, waiting) = (names(&reload, "applied"), names(&reload, "needs_restart"));
    output::line(&match applied.is_empty() {
        true => "nothing new to put in force".to_owned(),
        false => format!("in force now: {}", applied.join(", ")),
    });
    if !waiting.is_empty() {
        output::line(&format!("after a restart: {}", waiting.join(", ")));
    }
    Exit::Ok
}

fn names<'a>(reload: &'a Value, list: &str) -> Vec<&'a str> {
    let names = reload[list].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}
