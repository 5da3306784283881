//! `fermix doctor`: is this installation sound.

use fermix_api::{HealthRow, RowStatus};
use fermix_daemon::doctor::{Look, Patient, examine};

use crate::args::DoctorArgs;
use crate::output::{self, Exit};
use crate::start::Start;

/// Prints the rows. Fails when a row failed.
pub fn run(args: &DoctorArgs, start: &Start) -> Exit {
    let patient = Patient {
        home: start.home.clone(),
        environment: start.environment.clone(),
        executable: start.executable.clone(),
        launch_dir: start.cwd.clone(),
    };
    let look = if args.full { Look::Full } else { Look::Offline };
    let rows = examine(&patient, look);
    if args.json {
        output::json(&rows);
    } else {
        output::line(&output::table(&cells(&rows)));
    }
    if rows.iter().any(|row| row.status == RowStatus::Fail) {
        Exit::Failed
    } else {
        Exit::Ok
    }
}

/// One line a row: its state, its name, what is to be known.
pub fn cells(rows: &[HealthRow]) -> Vec<Vec<String>> {
    rows.iter()
        .map(|row| {
            let state = match row.status {
                RowStatus::Ok => "ok",
                RowStatus::Warn => "warn",
                RowStatus::Fail => "FAIL",
            };
            vec![state.to_owned(), row.name.clone(), row.detail.clone()]
        })
        .collect()
}
