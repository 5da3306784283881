//! `fermix secrets migrate`: keys that stand in `config.toml` as plain text go into a store.

use std::sync::Arc;

use fermix_config::secrets::SecretDoc;
use fermix_config::{Config, ConfigFile};
use fermix_daemon::secrets::{self, Migration};
use serde_json::json;

use super::{attendance, in_person};
use crate::output::{self, Exit};
use crate::start::Start;

pub(super) fn run(as_json: bool, start: &Start) -> Result<Exit, String> {
    in_person(start)?;
    let mut file = ConfigFile::open_locked(&start.home).map_err(|error| error.to_string())?;
    let config = file.config().map_err(|error| error.to_string())?;
    let migration = move_plain(&mut file, &config, start)?;
    file.save().map_err(|error| error.to_string())?;
    let names = |secrets: &[SecretDoc]| -> Vec<&str> {
        secrets.iter().map(|secret| secret.name()).collect()
    };
    if as_json {
        let kept: Vec<_> = migration
            .kept
            .iter()
            .map(|(secret, error)| json!({ "name": secret.name(), "reason": error.to_string() }))
            .collect();
        output::json(&json!({
            "status": if kept.is_empty() { "ok" } else { "error" },
            "moved": names(&migration.moved), "store": migration.store,
            "notice": migration.notice, "kept": kept,
        }));
    } else if migration.moved.is_empty() && migration.kept.is_empty() {
        output::notice("no key stands in config.toml as plain text");
    } else {
        tell(&migration);
    }
    Ok(match migration.kept.is_empty() {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}

/// Moves the plain-text secrets of `file`, which is saved by the caller.
pub fn move_plain(
    file: &mut ConfigFile,
    config: &Config,
    start: &Start,
) -> Result<Migration, String> {
    let plain = file.plain_secrets().map_err(|error| error.to_string())?;
    if plain.is_empty() {
        return Ok(Migration::default());
    }
    let vault = secrets::vault(&start.home, config, Arc::clone(&start.redactor));
    let moving = secrets::migrate(file, &vault, config.secret_store, attendance());
    start
        .runtime()?
        .block_on(moving)
        .map_err(|error| error.to_string())
}

/// Says on standard error what was moved and what was not.
pub fn tell(migration: &Migration) {
    if let Some(notice) = &migration.notice {
        output::notice(notice);
    }
    if let Some(store) = migration.store {
        for secret in &migration.moved {
            output::notice(&format!(
                "moved the key of {} from plain text to the {store} store",
                secret.name()
            ));
        }
    }
    for (secret, error) in &migration.kept {
        output::notice(&format!(
            "the key of {} stays in config.toml as plain text: {error}",
            secret.name()
        ));
    }
}
