//! `fermix secrets …`: keys in the keyring or in encrypted files, out of `config.toml`.

mod list;
pub mod migrate;
mod prompt;
mod relocate;
mod set;
mod unset;

use std::io::IsTerminal as _;
use std::sync::Arc;

use fermix_config::secrets::{SecretDoc, find};
use fermix_daemon::LocalPeer;
use fermix_daemon::secrets::{self, Attendance, Vault};

use crate::args::SecretsVerb;
use crate::output::{self, Exit};
use crate::start::Start;

/// Runs one verb of the group.
pub fn run(verb: SecretsVerb, start: &Start) -> Exit {
    let (as_json, done) = match verb {
        SecretsVerb::Set { name, stdin, json } => (json, set::run(&name, stdin, json, start)),
        SecretsVerb::List { json } => (json, list::run(json, start)),
        SecretsVerb::Unset { name, json } => (json, unset::run(&name, json, start)),
        SecretsVerb::Migrate { json } => (json, migrate::run(json, start)),
        SecretsVerb::Move { to, json } => (json, relocate::run(to, json, start)),
    };
    done.unwrap_or_else(|error| output::failure(as_json, &start.redactor.redact(&error)))
}

/// The agent's own commands may not change what the owner signs in with (spec/06 §3.4).
fn in_person(start: &Start) -> Result<(), String> {
    match start.peer() {
        LocalPeer::InPerson => Ok(()),
        LocalPeer::StartedByFermix => Err(
            "secrets are not changed from a process that Fermix started; run this command in your \
             own terminal"
                .to_owned(),
        ),
    }
}

fn named(name: &str) -> Result<SecretDoc, String> {
    find(name).map_err(|error| error.to_string())
}

fn vault(start: &Start) -> Result<Vault, String> {
    let config = start.config()?;
    let redactor = Arc::clone(&start.redactor);
    Ok(secrets::vault(&start.home, &config, redactor))
}

/// Whether somebody is there to answer the desktop's unlock dialog.
pub fn attendance() -> Attendance {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        Attendance::Person
    } else {
        Attendance::Nobody
    }
}
