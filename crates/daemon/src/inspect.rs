//! The registry as the owner looks at it: everything, or exactly what one caller would have.

use std::path::Path;
use std::sync::Arc;

use fermix_capability::{Caller, Capability, Deferral, JobGrant, Ports, Registry};
use fermix_channels::{LocalPeer, admit_local};
use fermix_config::{Config, Environment, Home, Overrides};
use fermix_types::{Category, Kind, PolicyClass, ToolName, Trust};
use serde::Serialize;
use serde_json::Value;

use crate::assemble::Parts;
use crate::engine::Engine;

/// A caller that the command line can stand in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandIn {
    /// The owner on the command line.
    Operator,
    /// A stranger whom a channel lets in.
    Guest,
    /// A temporary helper of an owner's turn.
    Worker,
    /// A scheduled job that the owner created, with nothing named in its row.
    Job,
}

impl StandIn {
    /// The caller. An operator who is not here in person is a detached run.
    pub fn caller(self, peer: LocalPeer) -> Arc<Caller> {
        let reply = Ports {
            reply: true,
            ..Ports::default()
        };
        Arc::new(match self {
            Self::Operator => admit_local(peer, reply),
            Self::Guest => Caller::guest(reply),
            Self::Worker => admit_local(peer, reply).worker(),
            Self::Job => Caller::job(
                Trust::Operator,
                JobGrant {
                    job_id: "command-line".into(),
                    ..JobGrant::default()
                },
            ),
        })
    }
}

/// One capability, as the machine-readable listings print it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What the model calls.
    pub name: ToolName,
    /// Who put it there.
    pub kind: Kind,
    /// What calling it does.
    pub policy_class: PolicyClass,
    /// Where it belongs.
    pub category: Category,
    /// Whether its result is the owner's own data.
    pub owner_only: bool,
    /// Whether it is configured but out of every view.
    pub hidden: bool,
    /// Whether its schema is fetched on demand.
    pub deferred: bool,
    /// `builtin`, `plugin:<name>` or `mcp:<server>`.
    pub source: String,
    /// What the model reads.
    pub description: Arc<str>,
    /// One routing sentence.
    pub when_to_use: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

impl Row {
    fn new(entry: &Capability, deferral: Deferral) -> Self {
        let metadata = entry.metadata();
        Self {
            name: entry.name().clone(),
            kind: entry.kind(),
            policy_class: entry.class(),
            category: entry.category(),
            owner_only: entry.is_owner_only(),
            hidden: entry.is_hidden(),
            deferred: deferral == Deferral::On && entry.is_deferrable(),
            source: match (metadata.tag("plugin"), metadata.tag("server")) {
                (Some(plugin), _) => format!("plugin:{plugin}"),
                (None, Some(server)) => format!("mcp:{server}"),
                (None, None) => entry.kind().to_string(),
            },
            description: Arc::clone(entry.description()),
            when_to_use: entry.routing_sentence().to_owned(),
            parameters: entry.schema().value().clone(),
        }
    }
}

/// The reference page of every built-in tool, from a registry built in `home` for the user whose
/// home folder is `os_home`.
pub fn tools_reference(home: &Path, os_home: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let environment = Environment::from_pairs([("HOME", os_home)]);
    let home = Home::resolve(Some(home), &environment)?;
    let engine = Engine::build(Parts {
        config: Config::load(&home, &environment, &Overrides::default())?,
        executable: home.root().join("fermix"),
        launch_dir: None,
        extra_roots: Vec::new(),
        redactor: Arc::default(),
        home,
        environment,
    })?;
    Ok(fermix_tools::docs::render_markdown(
        &engine.registry().all_for_inspection(),
    ))
}

/// Everything registered, hidden and owner-only entries included, sorted by name.
pub fn everything(registry: &Registry, kind: Option<Kind>) -> Vec<Row> {
    registry
        .all_for_inspection()
        .iter()
        .filter(|entry| kind.is_none_or(|kind| kind == entry.kind()))
        .map(|entry| Row::new(entry, registry.deferral()))
        .collect()
}

/// Exactly what `caller` would be offered, directly or through search, sorted by name.
pub fn view_of(registry: &Registry, caller: &Arc<Caller>) -> Vec<Row> {
    let view = registry.view(caller);
    let mut rows: Vec<Row> = view
        .advertised()
        .iter()
        .chain(view.deferred())
        .map(|entry| Row::new(entry, registry.deferral()))
        .collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}
