//! Which capabilities remain for whom. All steps only remove; their order is fixed so that a trace
//! can say which one removed an entry: kind, policy, owner-only, allowlist, name exclusion,
//! category exclusion, hidden.

use std::collections::BTreeSet;

use fermix_types::{Category, ClassSet, Kind, Trust};

use crate::caller::Caller;
use crate::capability::Capability;

/// The step that removed a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedBy {
    /// Not of the wanted kind.
    Kind,
    /// Its class is not allowed.
    Policy,
    /// It returns the owner's data and the caller is a guest.
    OwnerOnly,
    /// The caller has a list of names and this one is not on it.
    Allowlist,
    /// Taken away by name.
    ExcludedName,
    /// Taken away with its category.
    ExcludedCategory,
    /// Configured but hidden.
    Hidden,
}

/// What to keep. The default keeps everything that is not hidden, for inspection; callers on
/// behalf of a model use [`Filter::for_caller`], which always carries trust.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    /// Only this kind.
    pub kind: Option<Kind>,
    /// Only these classes.
    pub classes: Option<ClassSet>,
    /// Drop what returns the owner's data.
    pub hide_owner_only: bool,
    /// Only these names; an empty set keeps nothing.
    pub allowed_tools: Option<&'a BTreeSet<String>>,
    /// Not these names.
    pub excluded_names: Option<&'a BTreeSet<String>>,
    /// Not these categories.
    pub excluded_categories: &'a [Category],
    /// Keep hidden entries too.
    pub include_hidden: bool,
}

impl<'a> Filter<'a> {
    /// Exactly what `caller` may dispatch.
    pub fn for_caller(caller: &'a Caller) -> Self {
        Self {
            kind: None,
            classes: Some(caller.classes()),
            hide_owner_only: caller.trust() == Trust::Guest,
            allowed_tools: caller.allowed_tools(),
            excluded_names: Some(caller.excluded_names()),
            excluded_categories: caller.excluded_categories(),
            include_hidden: false,
        }
    }

    /// The first step that removes `capability`, if any does.
    pub fn removal(&self, capability: &Capability) -> Option<RemovedBy> {
        let name = capability.name().as_str();
        if self.kind.is_some_and(|kind| kind != capability.kind()) {
            Some(RemovedBy::Kind)
        } else if self
            .classes
            .is_some_and(|classes| !classes.contains(capability.class()))
        {
            Some(RemovedBy::Policy)
        } else if self.hide_owner_only && capability.is_owner_only() {
            Some(RemovedBy::OwnerOnly)
        } else if self
            .allowed_tools
            .is_some_and(|names| !names.contains(name))
        {
            Some(RemovedBy::Allowlist)
        } else if self
            .excluded_names
            .is_some_and(|names| !names.is_empty() && names.contains(name))
        {
            Some(RemovedBy::ExcludedName)
        } else if self.excluded_categories.contains(&capability.category()) {
            Some(RemovedBy::ExcludedCategory)
        } else if capability.is_hidden() && !self.include_hidden {
            Some(RemovedBy::Hidden)
        } else {
            None
        }
    }

    /// Whether `capability` remains.
    pub fn keeps(&self, capability: &Capability) -> bool {
        self.removal(capability).is_none()
    }
}
