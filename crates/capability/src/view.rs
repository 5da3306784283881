//! What one caller may see and call, fixed for the length of a turn.
//!
//! The provider's tool list, the prompt's names, discovery and dispatch all read the same view.
//! What is not in it does not exist.

use std::collections::HashMap;
use std::sync::Arc;

use fermix_types::{ToolDefinition, ToolName};

use crate::bridge::TOOL_CALL;
use crate::caller::Caller;
use crate::capability::Capability;
use crate::filter::Filter;
use crate::registry::{Deferral, Snapshot};
use crate::schema::PreparedSchema;
use crate::surface::{Marks, Surface};

/// One caller's view of one snapshot.
#[derive(Debug)]
pub struct View {
    snapshot: Arc<Snapshot>,
    caller: Arc<Caller>,
    dispatchable: Marks,
    surface: Arc<Surface>,
    /// Copies with this turn's parameters; they stand in for the snapshot's entries.
    refreshed: HashMap<ToolName, Arc<Capability>>,
    /// What exists for this run alone.
    local: Option<Arc<Capability>>,
}

impl View {
    pub(crate) fn new(snapshot: Arc<Snapshot>, caller: Arc<Caller>, deferral: Deferral) -> Self {
        let filter = Filter::for_caller(&caller);
        // With an allowlist the caller has chosen the exact surface, so everything is inline.
        let defers = deferral == Deferral::On && caller.allowed_tools().is_none();
        let mut dispatchable = Marks::none(snapshot.all().len());
        let mut advertised = dispatchable.clone();
        let mut deferred = dispatchable.clone();
        let mut refreshed = HashMap::new();
        for (position, entry) in snapshot.all().iter().enumerate() {
            if !filter.keeps(entry) {
                continue;
            }
            dispatchable.set(position);
            if entry.gate().permit(entry.name(), &caller).is_err() {
                continue;
            }
            if defers && entry.is_deferrable() {
                deferred.set(position);
                continue;
            }
            if entry
                .advertise_when
                .as_ref()
                .is_some_and(|offered| !offered(&caller))
            {
                continue;
            }
            advertised.set(position);
            if let Some(copy) = refresh(entry, &caller) {
                refreshed.insert(copy.name().clone(), copy);
            }
        }
        let build = || {
            let stand_in = |entry: &Arc<Capability>| {
                Arc::clone(refreshed.get(entry.name().as_str()).unwrap_or(entry))
            };
            Surface::new(
                advertised.of(snapshot.all()).map(stand_in).collect(),
                deferred.of(snapshot.all()).cloned().collect(),
            )
        };
        let surface = if refreshed.is_empty() {
            snapshot.surfaces().get(&advertised, &deferred, build)
        } else {
            Arc::new(build())
        };
        Self {
            snapshot,
            caller,
            dispatchable,
            surface,
            refreshed,
            local: None,
        }
    }

    /// This view with one capability more, which exists for one run and is in no registry. It is
    /// shown, found and called like any other. `None` when its caller may not see it, or when the
    /// name is taken.
    pub fn with_local(&self, local: Arc<Capability>) -> Option<Self> {
        let name = local.name().as_str();
        let may_see = Filter::for_caller(&self.caller).keeps(&local)
            && local.gate().permit(local.name(), &self.caller).is_ok();
        if !may_see || self.local.is_some() || self.snapshot.find(name).is_some() {
            return None;
        }
        let mut advertised = self.surface.advertised.clone();
        let place = advertised.partition_point(|entry| entry.name().as_str() < name);
        advertised.insert(place, Arc::clone(&local));
        Some(Self {
            snapshot: Arc::clone(&self.snapshot),
            caller: Arc::clone(&self.caller),
            dispatchable: self.dispatchable.clone(),
            surface: Arc::new(Surface::new(advertised, self.surface.deferred.clone())),
            refreshed: self.refreshed.clone(),
            local: Some(local),
        })
    }

    /// On whose behalf.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// The state of the registry this view was taken from.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// A capability the caller may dispatch, with this turn's parameters. Its gate is still the
    /// dispatcher's to check.
    pub fn find(&self, name: &str) -> Option<&Arc<Capability>> {
        if let Some(local) = &self.local
            && local.name().as_str() == name
        {
            return Some(local);
        }
        let position = self
            .snapshot
            .position(name)
            .filter(|position| self.dispatchable.has(*position))?;
        Some(
            self.refreshed
                .get(name)
                .unwrap_or(&self.snapshot.all()[position]),
        )
    }

    /// Whether the caller may use the bridge. A list of names speaks of what is behind the bridge,
    /// not of the bridge.
    pub(crate) fn has_bridge(&self) -> bool {
        let filter = Filter {
            allowed_tools: None,
            ..Filter::for_caller(&self.caller)
        };
        self.snapshot
            .find(TOOL_CALL)
            .is_some_and(|bridge| filter.keeps(bridge))
    }

    /// Whether the caller has a list of names and `name` is not on it. Asked before existence, so
    /// the answer tells nothing about the registry.
    pub fn is_outside_allowlist(&self, name: &str) -> bool {
        self.caller
            .allowed_tools()
            .is_some_and(|names| !names.contains(name))
    }

    /// Everything the caller may dispatch and whose gate it passes, sorted by name: the ceiling of
    /// every discovery answer.
    pub fn reachable(&self) -> impl Iterator<Item = &Arc<Capability>> {
        self.dispatchable()
            .filter(|entry| entry.gate().permit(entry.name(), &self.caller).is_ok())
            .map(|entry| self.refreshed.get(entry.name().as_str()).unwrap_or(entry))
    }

    /// Everything the caller may dispatch, gates aside, sorted by name.
    pub fn dispatchable(&self) -> impl Iterator<Item = &Arc<Capability>> {
        self.dispatchable.of(self.snapshot.all())
    }

    /// What the provider is told about, sorted by name.
    pub fn advertised(&self) -> &[Arc<Capability>] {
        &self.surface.advertised
    }

    /// What is found through the bridges, sorted by name.
    pub fn deferred(&self) -> &[Arc<Capability>] {
        &self.surface.deferred
    }

    /// The provider's tool list, sorted by name.
    pub fn definitions(&self) -> &Arc<[ToolDefinition]> {
        &self.surface.definitions
    }
}

/// The entry with this turn's parameters, when it has any. Parameters that are no schema keep the
/// registered ones: a tool never loses its checks.
fn refresh(entry: &Arc<Capability>, caller: &Caller) -> Option<Arc<Capability>> {
    let parameters = entry.dynamic_parameters.as_ref()?(caller)?;
    match PreparedSchema::new(parameters) {
        Ok(schema) => Some(Arc::new(entry.with_schema(schema))),
        Err(error) => {
            tracing::warn!(tool = %entry.name(), %error, "dynamic parameters are not a schema");
            None
        }
    }
}
