//! `fermix secrets list`.

use fermix_config::secrets::{SecretDoc, all};
use fermix_config::{ConfigFile, SecretPlace};
use serde_json::json;

use crate::output::{self, Exit};
use crate::start::Start;

/// Prints each secret with the place it comes from. No store is asked: a page that lists secrets
/// must not wait for a keyring, nor have it read them.
pub(super) fn run(as_json: bool, start: &Start) -> Result<Exit, String> {
    let file = ConfigFile::open(&start.home).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for secret in all() {
        rows.push((secret, place(secret, &file, start)?));
    }
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(secret, place)| {
                json!({
                    "name": secret.name(), "key": secret.key(), "variable": secret.variable(),
                    "store": place, "present": place.is_some(),
                })
            })
            .collect();
        output::json(&rows);
        return Ok(Exit::Ok);
    }
    let mut lines = vec![["NAME", "STORE", "KEY"].map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|(secret, place)| {
        let place = place.unwrap_or("not set");
        [secret.name(), place, secret.key()]
            .map(str::to_owned)
            .to_vec()
    }));
    output::line(&output::table(&lines));
    Ok(Exit::Ok)
}

/// Where the value in use comes from. The environment wins over the file.
fn place(
    secret: SecretDoc,
    file: &ConfigFile,
    start: &Start,
) -> Result<Option<&'static str>, String> {
    let is_overlaid = secret
        .variable()
        .is_some_and(|variable| start.environment.get_os(variable).is_some());
    if is_overlaid {
        return Ok(Some("environment"));
    }
    let place = file
        .secret_place(secret)
        .map_err(|error| error.to_string())?;
    Ok(match place {
        SecretPlace::Absent => None,
        SecretPlace::Plain => Some("plain text"),
        SecretPlace::Stored(store) => Some(store.as_str()),
    })
}
