//! The lists a model is shown, shared by all views of one snapshot that show the same.
//!
//! Most turns of one owner see the same tools, so the lists are put together once for each
//! different selection and not once for each turn.

use std::sync::Arc;

use arc_swap::ArcSwap;
use fermix_types::ToolDefinition;

use crate::capability::Capability;

/// How many selections of one snapshot are kept.
const KEPT_SURFACES: usize = 8;

/// What one selection shows.
#[derive(Debug)]
pub(crate) struct Surface {
    pub(crate) advertised: Vec<Arc<Capability>>,
    pub(crate) deferred: Vec<Arc<Capability>>,
    pub(crate) definitions: Arc<[ToolDefinition]>,
}

impl Surface {
    pub(crate) fn new(advertised: Vec<Arc<Capability>>, deferred: Vec<Arc<Capability>>) -> Self {
        let definitions = advertised
            .iter()
            .map(|entry| ToolDefinition {
                name: entry.name().clone(),
                description: Arc::clone(entry.description()),
                parameters: Arc::clone(entry.schema().wire_text()),
            })
            .collect();
        Self {
            advertised,
            deferred,
            definitions,
        }
    }
}

#[derive(Debug)]
struct Kept {
    advertised: Marks,
    deferred: Marks,
    surface: Arc<Surface>,
}

/// The surfaces of one snapshot so far. Readers never wait: when two add one at the same time, one
/// of the two additions may be lost, and the next reader makes it again.
#[derive(Debug, Default)]
pub(crate) struct Surfaces(ArcSwap<Vec<Arc<Kept>>>);

impl Surfaces {
    /// The surface of a selection; built when it is not there yet.
    pub(crate) fn get(
        &self,
        advertised: &Marks,
        deferred: &Marks,
        build: impl FnOnce() -> Surface,
    ) -> Arc<Surface> {
        let kept = self.0.load();
        let known = kept
            .iter()
            .find(|each| each.advertised == *advertised && each.deferred == *deferred);
        if let Some(known) = known {
            return Arc::clone(&known.surface);
        }
        let surface = Arc::new(build());
        let newest = Kept {
            advertised: advertised.clone(),
            deferred: deferred.clone(),
            surface: Arc::clone(&surface),
        };
        let next = std::iter::once(Arc::new(newest))
            .chain(kept.iter().take(KEPT_SURFACES - 1).cloned())
            .collect();
        self.0.store(Arc::new(next));
        surface
    }
}

/// A selection of the entries of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marks(Box<[u64]>);

impl Marks {
    /// Nothing out of `count`.
    pub(crate) fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)].into())
    }

    pub(crate) fn set(&mut self, position: usize) {
        self.0[position / 64] |= 1 << (position % 64);
    }

    pub(crate) fn has(&self, position: usize) -> bool {
        self.0[position / 64] & (1 << (position % 64)) != 0
    }

    /// The selected ones among `all`, in their order.
    pub(crate) fn of<'a, T>(&self, all: &'a [T]) -> impl Iterator<Item = &'a T> {
        all.iter()
            .enumerate()
            .filter(|(position, _)| self.has(*position))
            .map(|(_, each)| each)
    }
}
