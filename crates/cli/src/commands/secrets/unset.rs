//! `fermix secrets unset NAME`.

use fermix_config::{ConfigFile, SecretPlace};
use serde_json::json;

use super::{attendance, in_person, named, vault};
use crate::output::{self, Exit};
use crate::start::Start;

/// Removes the secret from its store, then from `config.toml`. A store that fails leaves both.
pub(super) fn run(name: &str, as_json: bool, start: &Start) -> Result<Exit, String> {
    in_person(start)?;
    let secret = named(name)?;
    let file = ConfigFile::open(&start.home).map_err(|error| error.to_string())?;
    let place = file
        .secret_place(secret)
        .map_err(|error| error.to_string())?;
    if let SecretPlace::Stored(store) = place {
        let vault = vault(start)?;
        start
            .runtime()?
            .block_on(vault.remove(store, secret.item(), attendance()))
            .map_err(|error| error.to_string())?;
    }
    let (changed, _) = ConfigFile::update(&start.home, |file| file.unset(secret.key()))
        .map_err(|error| error.to_string())?;
    if as_json {
        output::json(&json!({ "status": "ok", "name": secret.name(), "changed": changed }));
    } else if changed {
        output::notice(&format!(
            "removed the key of {}; revoke it at the provider as well if it should not work any more",
            secret.name()
        ));
    } else {
        output::notice(&format!("the key of {} was not set", secret.name()));
    }
    Ok(Exit::Ok)
}
