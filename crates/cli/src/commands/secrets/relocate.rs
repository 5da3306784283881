//! `fermix secrets move --to STORE`.

use fermix_config::secrets::all;
use fermix_config::{ConfigFile, EditError, SecretPlace};
use fermix_types::SecretStore;
use serde_json::json;

use super::{attendance, in_person, vault};
use crate::output::{self, Exit};
use crate::start::Start;

/// Moves every stored secret to `to`. All are read before the first is written, and each is
/// removed from where it was when `config.toml` says where it is now.
pub(super) fn run(to: SecretStore, as_json: bool, start: &Start) -> Result<Exit, String> {
    in_person(start)?;
    let from = to.other();
    let vault = vault(start)?;
    let file = ConfigFile::open(&start.home).map_err(|error| error.to_string())?;
    let mut moving = Vec::new();
    for secret in all() {
        let place = file
            .secret_place(secret)
            .map_err(|error| error.to_string())?;
        if place == SecretPlace::Stored(from) {
            moving.push(secret);
        }
    }
    let runtime = start.runtime()?;
    let mut left = Vec::new();
    runtime.block_on(async {
        let mut values = Vec::new();
        for secret in &moving {
            let value = vault.read(from, secret.item()).await;
            let value = value.map_err(|error| format!("nothing was moved: {error}"))?;
            values.push(value);
        }
        for (secret, value) in moving.iter().zip(&values) {
            let written = vault.write(to, secret.item(), value, attendance()).await;
            written.map_err(|error| format!("nothing was moved: {error}"))?;
        }
        ConfigFile::update(&start.home, |file| {
            for secret in &moving {
                // Somebody may have stored another one in the meantime.
                if file.secret_place(*secret)? == SecretPlace::Stored(from) {
                    file.point_to_store(*secret, to)?;
                }
            }
            Ok::<_, EditError>(())
        })
        .map_err(|error| format!("nothing was moved: {error}"))?;
        for secret in &moving {
            if let Err(error) = vault.remove(from, secret.item(), attendance()).await {
                left.push((secret.name(), error));
            }
        }
        Ok::<_, String>(())
    })?;
    let names: Vec<&str> = moving.iter().map(|secret| secret.name()).collect();
    if as_json {
        let left: Vec<_> = left
            .iter()
            .map(|(name, error)| json!({ "name": name, "reason": error.to_string() }))
            .collect();
        output::json(&json!({
            "status": if left.is_empty() { "ok" } else { "error" },
            "moved": names, "to": to, "left_behind": left,
        }));
    } else if names.is_empty() {
        output::notice(&format!("no secret is in the {from} store"));
    } else {
        output::notice(&format!("moved to the {to} store: {}", names.join(", ")));
        for (name, error) in &left {
            output::notice(&format!(
                "the old copy of the key of {name} is still in the {from} store: {error}"
            ));
        }
    }
    Ok(match left.is_empty() {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}
