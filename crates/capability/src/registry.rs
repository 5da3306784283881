//! The one list of everything the model can do.
//!
//! Readers take an immutable [`Snapshot`] and never lock. Writers, one at a time, build the next
//! snapshot and swap it in, so no reader ever sees half a family.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use fermix_types::{Kind, ToolName};
use serde_json::{Map, Value};

use crate::caller::Caller;
use crate::capability::{Capability, RegistrationError};
use crate::filter::Filter;
use crate::surface::Surfaces;
use crate::view::View;

/// One complete, immutable state of the registry.
#[derive(Debug, Default)]
pub struct Snapshot {
    generation: u64,
    by_name: HashMap<ToolName, usize>,
    sorted: Vec<Arc<Capability>>,
    surfaces: Surfaces,
}

impl Snapshot {
    fn new(generation: u64, mut capabilities: Vec<Arc<Capability>>) -> Self {
        capabilities.sort_by(|a, b| a.name().cmp(b.name()));
        let by_name = capabilities
            .iter()
            .enumerate()
            .map(|(index, entry)| (entry.name().clone(), index))
            .collect();
        Self {
            generation,
            by_name,
            sorted: capabilities,
            surfaces: Surfaces::default(),
        }
    }

    /// The lists that views of this snapshot share.
    pub(crate) fn surfaces(&self) -> &Surfaces {
        &self.surfaces
    }

    /// Grows with every change; the key of everything derived from a snapshot.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Everything, sorted by name.
    pub fn all(&self) -> &[Arc<Capability>] {
        &self.sorted
    }

    /// The position of a name in [`Snapshot::all`].
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// An entry by name. Not for answering a model or a guest: that is [`View::find`].
    pub fn find(&self, name: &str) -> Option<&Arc<Capability>> {
        self.position(name).map(|index| &self.sorted[index])
    }

    /// The entries that `filter` keeps, sorted by name.
    pub fn list<'a>(&'a self, filter: Filter<'a>) -> impl Iterator<Item = &'a Arc<Capability>> {
        self.sorted
            .iter()
            .filter(move |capability| filter.keeps(capability))
    }
}

/// What [`Registry::replace_family`] did, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FamilyChange {
    /// New names.
    pub added: Vec<ToolName>,
    /// Names that are gone.
    pub removed: Vec<ToolName>,
    /// Names that were there before and have a new entry.
    pub changed: Vec<ToolName>,
    /// Entries that were left out because their name belongs to another family or came twice, or
    /// because they are not of the family themselves.
    pub skipped: Vec<ToolName>,
}

/// Whether the schemas of plugin and MCP tools are left out of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// Only their names go out; the bridge tools fetch the rest.
    On,
    /// Every schema goes out.
    Off,
}

/// The registry.
pub struct Registry {
    current: ArcSwap<Snapshot>,
    writer: Mutex<()>,
    deferral: Deferral,
}

impl Registry {
    /// An empty registry.
    pub fn new(deferral: Deferral) -> Self {
        Self {
            current: ArcSwap::from_pointee(Snapshot::default()),
            writer: Mutex::new(()),
            deferral,
        }
    }

    /// Whether schemas are deferred.
    pub fn deferral(&self) -> Deferral {
        self.deferral
    }

    /// The present state. It stays whole for as long as it is held.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// What `caller` may see and call, for one turn.
    pub fn view(&self, caller: &Arc<Caller>) -> View {
        View::new(self.snapshot(), Arc::clone(caller), self.deferral)
    }

    /// Everything registered, hidden entries included. For inspection by the owner, never for a
    /// model.
    pub fn all_for_inspection(&self) -> Vec<Arc<Capability>> {
        self.snapshot().all().to_vec()
    }

    /// An entry by name, without any filter. Internal: never answer a model or a guest from it.
    pub fn find(&self, name: &str) -> Option<Arc<Capability>> {
        self.current.load().find(name).cloned()
    }

    /// Adds one capability.
    pub fn register(&self, capability: Capability) -> Result<(), RegistrationError> {
        self.register_all([capability])
    }

    /// Adds all of them or, when a name is taken, none.
    pub fn register_all(
        &self,
        capabilities: impl IntoIterator<Item = Capability>,
    ) -> Result<(), RegistrationError> {
        self.change(|entries| {
            let mut names: std::collections::HashSet<_> =
                entries.iter().map(|entry| entry.name().clone()).collect();
            for capability in capabilities {
                if !names.insert(capability.name().clone()) {
                    return Err(RegistrationError::DuplicateName(capability.name().clone()));
                }
                entries.push(Arc::new(capability));
            }
            Ok(())
        })
    }

    /// Removes one capability; a name that is not there is no error.
    pub fn unregister(&self, name: &str) {
        self.remove_where(|entry| entry.name().as_str() == name);
    }

    /// Removes everything of `kind` whose tags contain every member of `wanted`, in one swap.
    pub fn unregister_kind(&self, kind: Kind, wanted: &Map<String, Value>) {
        self.remove_where(|entry| entry.kind() == kind && entry.metadata().matches(wanted));
    }

    /// Replaces the family of `kind` and `wanted` by `members`, in one swap. A member whose name
    /// belongs to another family, or that is not of this one, is skipped and reported.
    pub fn replace_family(
        &self,
        kind: Kind,
        wanted: &Map<String, Value>,
        members: impl IntoIterator<Item = Capability>,
    ) -> FamilyChange {
        let mut change = FamilyChange::default();
        let swapped: Result<(), std::convert::Infallible> = self.change(|entries| {
            let (old, mut kept): (Vec<_>, Vec<_>) = std::mem::take(entries)
                .into_iter()
                .partition(|entry| entry.kind() == kind && entry.metadata().matches(wanted));
            let old: HashMap<_, _> = old
                .into_iter()
                .map(|entry| (entry.name().clone(), entry))
                .collect();
            let mut taken: std::collections::HashSet<_> =
                kept.iter().map(|entry| entry.name().clone()).collect();
            for member in members {
                let name = member.name().clone();
                // A stranger would stay behind when the family is next replaced.
                let is_member = member.kind() == kind && member.metadata().matches(wanted);
                if !is_member {
                    change.skipped.push(name);
                    continue;
                }
                if !taken.insert(name.clone()) {
                    change.skipped.push(name);
                    continue;
                }
                if old.contains_key(&name) {
                    &mut change.changed
                } else {
                    &mut change.added
                }
                .push(name);
                kept.push(Arc::new(member));
            }
            change.removed = old
                .into_keys()
                .filter(|name| !taken.contains(name))
                .collect();
            *entries = kept;
            Ok(())
        });
        let Ok(()) = swapped;
        for names in [
            &mut change.added,
            &mut change.removed,
            &mut change.changed,
            &mut change.skipped,
        ] {
            names.sort();
        }
        change
    }

    /// Accepted for every kind and does nothing: families are synchronised by their owners.
    pub fn refresh(&self, _kind: Kind) {}

    fn remove_where(&self, doomed: impl Fn(&Capability) -> bool) {
        let removed: Result<(), std::convert::Infallible> = self.change(|entries| {
            entries.retain(|entry| !doomed(entry));
            Ok(())
        });
        let Ok(()) = removed;
    }

    fn change<E>(
        &self,
        edit: impl FnOnce(&mut Vec<Arc<Capability>>) -> Result<(), E>,
    ) -> Result<(), E> {
        // The lock guards no data, so a panicking editor leaves nothing half done behind it.
        let _writing = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current.load();
        let mut entries = before.all().to_vec();
        edit(&mut entries)?;
        self.current
            .store(Arc::new(Snapshot::new(before.generation() + 1, entries)));
        Ok(())
    }
}
