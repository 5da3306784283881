//! `fermix status`: whether the daemon runs.

use std::time::Duration;

use fermix_api::{Request, Status};
use serde_json::{Map, Value};

use crate::client::{ClientError, Daemon};
use crate::output::{self, Exit};
use crate::start::Start;

/// Prints version, process and age; with `full`, what runs.
pub fn run(full: bool, as_json: bool, start: &Start) -> Exit {
    let runtime = match start.runtime() {
        Ok(runtime) => runtime,
        Err(error) => return output::failure(as_json, &error),
    };
    let (status, overview) = match runtime.block_on(ask(full, &Daemon::of(&start.home))) {
        Ok(answers) => answers,
        Err(ClientError::NotRunning) => return output::not_running(as_json),
        Err(error) => return output::failure(as_json, &error.to_string()),
    };
    let ours = env!("CARGO_PKG_VERSION");
    if status.version != ours {
        output::notice(&format!(
            "the daemon is version {} and this program is {ours}; restart the daemon",
            status.version
        ));
    }
    if as_json {
        let mut members = Map::from_iter([
            ("status".to_owned(), Value::from("ok")),
            ("version".to_owned(), status.version.into()),
            ("uptime_ms".to_owned(), status.uptime_ms.into()),
            ("pid".to_owned(), status.pid.into()),
        ]);
        members.extend(overview.map(|overview| ("overview".to_owned(), overview)));
        output::json(&members);
        return Exit::Ok;
    }
    output::line(&format!(
        "running: version {}, process {}, up {}",
        status.version,
        status.pid,
        age(Duration::from_millis(status.uptime_ms))
    ));
    for (name, value) in overview.iter().filter_map(Value::as_object).flatten() {
        // Conversations are lines of their own.
        if !value.is_array() {
            output::line(&format!("{}: {value}", name.replace('_', " ")));
        }
    }
    for conversation in overview
        .iter()
        .filter_map(|overview| overview["conversations"].as_array())
        .flatten()
    {
        let running = if conversation["is_running"] == true {
            "running"
        } else {
            "starting"
        };
        output::line(&format!(
            "{} {}: {running}, {} waiting",
            conversation["channel"].as_str().unwrap_or_default(),
            conversation["chat_id"].as_str().unwrap_or_default(),
            conversation["waiting"]
        ));
    }
    Exit::Ok
}

async fn ask(full: bool, daemon: &Daemon) -> Result<(Status, Option<Value>), ClientError> {
    let members = daemon.request(&Request::Status {}).await?;
    let status = serde_json::from_value(Value::Object(members)).map_err(|error| {
        ClientError::Broken(format!("the daemon's answer is not understood: {error}"))
    })?;
    if !full {
        return Ok((status, None));
    }
    let mut members = daemon.request(&Request::Overview {}).await?;
    Ok((status, members.remove("overview")))
}

/// As people say it: the two largest units.
fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let units = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let first = units
        .iter()
        .position(|(count, _)| *count > 0)
        .unwrap_or(units.len() - 1);
    let said: Vec<String> = units[first..]
        .iter()
        .take(2)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_their_two_largest_units() {
        let said = |seconds| age(Duration::from_secs(seconds));
        assert_eq!(said(0), "0 s");
        assert_eq!(said(61), "1 min 1 s");
        assert_eq!(said(7_260), "2 h 1 min");
        assert_eq!(said(90_000), "1 d 1 h");
    }
}
