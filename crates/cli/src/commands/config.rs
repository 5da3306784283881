//! `fermix config …`: read, change and check `config.toml`.

mod get;
mod path;
mod set;
mod unset;
mod validate;

use fermix_daemon::LocalPeer;

use crate::args::ConfigVerb;
use crate::output::{self, Exit};
use crate::start::Start;

/// Runs one verb of the group.
pub fn run(verb: ConfigVerb, start: &Start) -> Exit {
    match verb {
        ConfigVerb::Get { key, json } => get::run(key.as_deref(), json, start),
        ConfigVerb::Set { key, value, json } => set::run(&key, &value, json, start),
        ConfigVerb::Unset { key, json } => unset::run(&key, json, start),
        ConfigVerb::Validate { json } => validate::run(json, start),
        ConfigVerb::Path { json } => path::run(json, start),
    }
}

/// The agent's own commands may not change the file: the configuration is the owner's word
/// (spec/06 §3.4).
fn refuse_unless_in_person(as_json: bool, start: &Start) -> Option<Exit> {
    (start.peer() == LocalPeer::StartedByFermix).then(|| {
        output::failure(
            as_json,
            "the configuration is not changed from a process that Fermix started; run this \
             command in your own terminal",
        )
    })
}
