//! `fermix secrets set NAME`.

use std::io::{IsTerminal as _, Read as _};

use fermix_config::secrets::SecretDoc;
use fermix_config::{ApiKey, ConfigFile, SecretPlace};
use fermix_daemon::secrets::{Choice, SecretString};
use serde_json::json;
use zeroize::Zeroizing;

use super::{attendance, in_person, named, prompt, vault};
use crate::output::{self, Exit};
use crate::start::Start;

/// The most that is read from standard input, in bytes. A longer value is refused by its check.
const MAX_STDIN: u64 = 64 * 1024;

/// Asks for the value, stores it, and makes `config.toml` say where it is.
pub(super) fn run(name: &str, stdin: bool, as_json: bool, start: &Start) -> Result<Exit, String> {
    in_person(start)?;
    let secret = named(name)?;
    let vault = vault(start)?;
    // Asked before the person types: a file that cannot be changed must not cost a key.
    let mut rehearsal = ConfigFile::open(&start.home).map_err(|error| error.to_string())?;
    let place = rehearsal
        .secret_place(secret)
        .map_err(|error| error.to_string())?;
    let runtime = start.runtime()?;
    let Choice { store, notice } = match place {
        // A secret that is replaced stays where it is.
        SecretPlace::Stored(store) => Choice {
            store,
            notice: None,
        },
        SecretPlace::Absent | SecretPlace::Plain => {
            runtime.block_on(vault.choose(start.config()?.secret_store))
        }
    };
    rehearsal
        .point_to_store(secret, store)
        .and_then(|()| rehearsal.config().map_err(Into::into))
        .map_err(|error| error.to_string())?;
    let value = value(secret, stdin)?;
    let value = ApiKey::new(&value).map_err(|error| error.to_string())?;
    let value = SecretString::from(value.expose());
    runtime
        .block_on(vault.write(store, secret.item(), &value, attendance()))
        .map_err(|error| error.to_string())?;
    ConfigFile::update(&start.home, |file| file.point_to_store(secret, store)).map_err(|error| {
        format!(
            "the {store} store has the secret now, but config.toml does not say so ({error}); run this command again"
        )
    })?;
    let overlaid = secret
        .variable()
        .filter(|variable| start.environment.get_os(variable).is_some());
    if as_json {
        output::json(&json!({
            "status": "ok", "name": secret.name(), "key": secret.key(), "store": store,
            "notice": notice, "environment": overlaid,
        }));
        return Ok(Exit::Ok);
    }
    if let Some(notice) = notice {
        output::notice(&notice);
    }
    output::notice(&format!(
        "stored the key of {} in the {store} store; {} says `{}`",
        secret.name(),
        start.home.config_file().display(),
        store.sentinel()
    ));
    if let Some(variable) = overlaid {
        output::notice(&format!(
            "the environment variable {variable} is set here and wins over the stored key; unset it to use that"
        ));
    }
    Ok(Exit::Ok)
}

fn value(secret: SecretDoc, stdin: bool) -> Result<Zeroizing<String>, String> {
    if !stdin {
        return prompt::masked(&format!("Key of {} (not shown): ", secret.name()));
    }
    if std::io::stdin().is_terminal() {
        return Err("--stdin reads a pipe, and standard input is a terminal; leave it out and type the value, or pipe the value in".to_owned());
    }
    // With room for all of it: growing would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_STDIN as usize + 1));
    std::io::stdin()
        .take(MAX_STDIN + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    std::str::from_utf8(&bytes)
        .map(|text| Zeroizing::new(text.to_owned()))
        .map_err(|_| "standard input is not text; pipe the value alone".to_owned())
}
