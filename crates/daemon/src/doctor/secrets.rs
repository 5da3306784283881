//! Where keys are kept, and whether the places can be used. No value is read.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use fermix_api::HealthRow;
use fermix_config::Config;
use fermix_secrets::{AuthFile, Redactor, StoreState};
use fermix_types::SecretStore;
use serde_json::json;

use super::rows::Configured;
use super::{Patient, fail, ok, warn, with_facts};
use crate::secrets;

/// The row's name.
const NAME: &str = "secrets";

pub(super) fn row(patient: &Patient, configured: &Configured) -> HealthRow {
    let Ok(config) = &configured.config else {
        return fail(NAME, "unknown, because config.toml cannot be used");
    };
    let mut problems = modes(patient);
    let (plain, stored) = secrets::places(config);
    let facts = json!({
        "plain_text": plain,
        "stored": stored.iter().map(|store| store.as_str()).collect::<Vec<_>>(),
    });
    let named: BTreeSet<&str> = stored.iter().map(|store| store.as_str()).collect();
    match states(patient, config, &stored) {
        Ok(states) => problems.extend(states),
        Err(error) => problems.push(error),
    }
    let row = if !problems.is_empty() {
        fail(NAME, problems.join("; "))
    } else if !plain.is_empty() {
        warn(
            NAME,
            format!(
                "config.toml holds the plain text of {}; run `fermix secrets migrate`",
                plain.join(", ")
            ),
        )
    } else if stored.is_empty() {
        ok(NAME, "none are stored")
    } else {
        let names: Vec<&str> = named.into_iter().collect();
        ok(NAME, format!("{} in {}", stored.len(), names.join(" and ")))
    };
    with_facts(row, facts)
}

/// Files of secrets that others could read.
fn modes(patient: &Patient) -> Vec<String> {
    let mut problems = Vec::new();
    let auth = patient.home.auth_file();
    let private = [(auth, 0o177, "600"), (patient.home.secrets(), 0o077, "700")];
    for (path, others, right) in private {
        if let Ok(found) = fs::metadata(&path)
            && found.permissions().mode() & others & 0o777 != 0
        {
            let shown = path.display();
            problems.push(format!(
                "`{shown}` can be read by others; run `chmod {right} {shown}`"
            ));
        }
    }
    let auth = patient.home.auth_file();
    if auth.exists()
        && let Err(error) = AuthFile::open(&auth).document()
    {
        problems.push(error.to_string());
    }
    let kept = fs::read_dir(patient.home.secrets());
    for file in kept.into_iter().flatten().flatten() {
        let is_private = file
            .metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o177 == 0);
        if !is_private {
            let shown = file.path();
            problems.push(format!(
                "`{0}` is no file of yours alone, so it is not read; look who has had it, then run `chmod 600 {0}`",
                shown.display()
            ));
        }
    }
    problems
}

/// What is wrong with the stores that secrets are kept in.
fn states(
    patient: &Patient,
    config: &Config,
    stored: &[SecretStore],
) -> Result<Vec<String>, String> {
    if stored.is_empty() {
        return Ok(Vec::new());
    }
    let vault = secrets::vault(&patient.home, config, Arc::<Redactor>::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the stores cannot be asked: {error}"))?;
    let mut problems = Vec::new();
    for store in SecretStore::ALL.iter().copied() {
        if !stored.contains(&store) {
            continue;
        }
        match runtime.block_on(vault.state(store)) {
            StoreState::Ready => {}
            StoreState::Locked => problems.push(format!("the {} is locked", store.as_str())),
            StoreState::Unavailable(why) => {
                problems.push(format!("the {} cannot be used: {why}", store.as_str()));
            }
        }
    }
    Ok(problems)
}
