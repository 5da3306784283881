//! `fermix doctor`: is this installation sound, and what is to be done where it is not.
//!
//! Each row looks at one thing and stands alone: a row that crashes is a failed row. Nothing is
//! changed, no secret is read and no connection opened, unless the person asks for the full look.
//! What cannot be found out is never reported as fine.

mod denials;
mod probe;
mod rows;
mod running;
mod secrets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use fermix_api::{HealthRow, RowStatus};
use fermix_config::{Environment, Home};
use serde_json::{Map, Value};

/// What doctor looks at.
pub struct Patient {
    /// The home.
    pub home: Home,
    /// The environment of this process.
    pub environment: Environment,
    /// This program's own file.
    pub executable: PathBuf,
    /// The folder doctor was started in.
    pub launch_dir: Option<PathBuf>,
}

/// Looks at everything. Blocks for as long as the slowest row takes.
pub fn examine(patient: &Patient, look: Look) -> Vec<HealthRow> {
    let config = rows::Configured::new(patient);
    let offline: [(&'static str, &dyn Fn() -> HealthRow); 8] = [
        ("home", &|| rows::home(patient)),
        ("config", &|| rows::config(&config)),
        ("daemon", &|| running::daemon(patient)),
        ("store", &|| rows::store(&patient.home.database())),
        ("secrets", &|| secrets::row(patient, &config)),
        ("sandbox", &|| rows::sandbox(patient, &config)),
        ("providers", &|| rows::providers(&config)),
        ("discovery", &|| rows::discovery(&config)),
    ];
    let mut found: Vec<HealthRow> = offline
        .into_iter()
        .map(|(name, row)| guarded(name, row))
        .collect();
    if look == Look::Full {
        found.push(guarded("provider_probe", &|| probe::provider(&config)));
    }
    found
}

/// Whether the database at `path` can be opened and is whole. Blocks for as long as reading it takes.
pub(crate) fn database(path: &std::path::Path) -> HealthRow {
    rows::store(path)
}

/// How closely doctor looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Opens no connection.
    Offline,
    /// Asks the provider too, for one token.
    Full,
}

/// A row that throws is a failed row.
fn guarded(name: &str, row: &dyn Fn() -> HealthRow) -> HealthRow {
    catch_unwind(AssertUnwindSafe(row)).unwrap_or_else(|_| {
        fail(
            name,
            "this check itself crashed, so nothing is known; the log has the details",
        )
    })
}

fn row(name: &str, status: RowStatus, detail: impl Into<String>) -> HealthRow {
    HealthRow {
        name: name.to_owned(),
        status,
        detail: detail.into(),
        facts: Map::new(),
    }
}

fn ok(name: &str, detail: impl Into<String>) -> HealthRow {
    row(name, RowStatus::Ok, detail)
}

fn warn(name: &str, detail: impl Into<String>) -> HealthRow {
    row(name, RowStatus::Warn, detail)
}

fn fail(name: &str, detail: impl Into<String>) -> HealthRow {
    row(name, RowStatus::Fail, detail)
}

/// Facts for programs, beside the sentence for people.
fn with_facts(mut row: HealthRow, facts: Value) -> HealthRow {
    if let Value::Object(facts) = facts {
        row.facts = facts;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_crashes_is_a_failed_row() {
        let row = guarded("store", &|| panic!("a defect"));
        assert_eq!((row.name.as_str(), row.status), ("store", RowStatus::Fail));
        assert!(row.detail.contains("crashed"));
    }
}
