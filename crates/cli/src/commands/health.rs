//! `fermix health`: whether everything works, as the daemon sees it.

use fermix_api::{Health, Request, RowStatus};

use crate::client::{ClientError, Daemon};
use crate::output::{self, Exit};
use crate::start::Start;

/// Prints the daemon's rows. Fails when one of them does.
pub fn run(as_json: bool, start: &Start) -> Exit {
    let runtime = match start.runtime() {
        Ok(runtime) => runtime,
        Err(error) => return output::failure(as_json, &error),
    };
    let daemon = Daemon::of(&start.home);
    let answer = runtime.block_on(daemon.request(&Request::Health {}));
    let health: Health = match answer {
        Ok(mut members) => {
            let health = members.remove("health").unwrap_or_default();
            match serde_json::from_value(health) {
                Ok(health) => health,
                Err(error) => {
                    let words = format!("the daemon's answer is not understood: {error}");
                    return output::failure(as_json, &words);
                }
            }
        }
        Err(ClientError::NotRunning) => return output::not_running(as_json),
        Err(error) => return output::failure(as_json, &error.to_string()),
    };
    if as_json {
        output::json(&health);
    } else {
        let rows: Vec<Vec<String>> = health
            .rows
            .iter()
            .map(|row| {
                let status = match row.status {
                    RowStatus::Ok => "ok",
                    RowStatus::Warn => "warn",
                    RowStatus::Fail => "FAIL",
                };
                vec![status.to_owned(), row.name.clone(), row.detail.clone()]
            })
            .collect();
        output::line(&output::table(&rows));
    }
    let fails = health.rows.iter().any(|row| row.status == RowStatus::Fail);
    if fails { Exit::Failed } else { Exit::Ok }
}
