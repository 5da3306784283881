//! What there is to call, under the caller's ceiling (spec/01 §10).
//!
//! Every answer is computed from the caller's view. What the view does not hold is unknown, in the
//! same words whether it is hidden, forbidden or not there at all.

mod describe;

use std::sync::{Arc, Mutex, PoisonError};

use fermix_search::{Index, strong_single};
use fermix_types::ToolError;
use fermix_types::text::shortened;
use serde_json::{Value, json};

use crate::capability::Capability;
use crate::untrusted::{FrameId, OutsideSource, OutsideSources, frame};
use crate::validate::MAX_REPEATED_SCHEMA;
use crate::view::View;

/// The most matches one search gives.
pub const MAX_MATCHES: usize = 20;
/// How much of a description a match shows, in characters.
const MAX_DESCRIPTION_CHARS: usize = 400;
/// How many indexes are kept. One for each kind of caller that is active at the same time.
const KEPT_INDEXES: usize = 4;

/// Answers the discovery tools. Cheap to share; keeps a few indexes.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Latest use last.
    indexes: Mutex<Vec<Arc<Indexed>>>,
}

/// An index and exactly the entries it was built from. The entries are the key: they are what one
/// generation of the registry leaves under one ceiling.
#[derive(Debug)]
struct Indexed {
    entries: Vec<Arc<Capability>>,
    index: Index,
}

impl Indexed {
    fn is_of(&self, entries: &[Arc<Capability>]) -> bool {
        self.entries.len() == entries.len()
            && self
                .entries
                .iter()
                .zip(entries)
                .all(|(mine, theirs)| Arc::ptr_eq(mine, theirs))
    }
}

/// One found capability.
#[derive(Clone, Debug)]
pub struct Match {
    /// The capability.
    pub capability: Arc<Capability>,
    /// How well it fits, best first.
    pub score: f32,
    /// Whether it is the only strong match of the search.
    pub strong: bool,
}

/// The answer to a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// How many capabilities the caller could have found.
    pub total_available: usize,
    /// Best first.
    pub matches: Vec<Match>,
}

impl Catalog {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// The capabilities with deferred schemas that fit `query`, best first. `limit` is kept
    /// between 1 and [`MAX_MATCHES`].
    pub fn search(&self, view: &View, query: &str, limit: usize) -> Found {
        let inline: Vec<Arc<Capability>>;
        let entries = if view.caller().allowed_tools().is_none() {
            view.deferred()
        } else {
            // A caller with its own list of names has everything inline; what would be deferred
            // for others is what it may find.
            inline = view
                .advertised()
                .iter()
                .filter(|entry| entry.is_deferrable())
                .cloned()
                .collect();
            &inline
        };
        let indexed = self.index(entries);
        let hits = indexed.index.search(query, limit.clamp(1, MAX_MATCHES));
        let strong = strong_single(&hits).map(|hit| hit.document);
        Found {
            total_available: entries.len(),
            matches: hits
                .iter()
                .map(|hit| Match {
                    capability: Arc::clone(&indexed.entries[hit.document]),
                    score: hit.score,
                    strong: strong == Some(hit.document),
                })
                .collect(),
        }
    }

    fn index(&self, entries: &[Arc<Capability>]) -> Arc<Indexed> {
        let known = self.reuse(entries);
        known.unwrap_or_else(|| {
            // Built outside the lock: two callers may build the same index, and nobody waits.
            let built = Arc::new(Indexed {
                index: Index::from_entries(entries.iter().map(|entry| entry.search_entry())),
                entries: entries.to_vec(),
            });
            let mut kept = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= KEPT_INDEXES {
                kept.remove(0);
            }
            kept.push(Arc::clone(&built));
            built
        })
    }

    fn reuse(&self, entries: &[Arc<Capability>]) -> Option<Arc<Indexed>> {
        let mut kept = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().rposition(|indexed| indexed.is_of(entries))?;
        let found = kept.remove(place);
        kept.push(Arc::clone(&found));
        Some(found)
    }

    /// Everything the caller may know about one capability, as text: for `tool_describe`. Text of
    /// third parties stands in a frame named by `frame`, and whose it is goes to `read`.
    pub fn describe(
        &self,
        view: &View,
        name: &str,
        frame: &FrameId,
        read: &OutsideSources,
    ) -> Result<String, ToolError> {
        let capability = reachable(view, name)?;
        remember(&capability, read);
        Ok(describe::text(&capability, frame))
    }

    /// The same for `tool_help`, which adds where a built-in comes from.
    pub fn help(
        &self,
        view: &View,
        name: &str,
        frame: &FrameId,
        read: &OutsideSources,
    ) -> Result<String, ToolError> {
        let capability = reachable(view, name)?;
        remember(&capability, read);
        let mut text = describe::text(&capability, frame);
        if !capability.is_third_party() {
            text.push_str(
                "\n\nThis tool is built in and needs no installation. Skills are configured separately.",
            );
        }
        Ok(text)
    }
}

impl Found {
    /// The answer of `tool_search`: `{query, total_available, matches}`. What third parties wrote
    /// stands in frames named by `id`, and whose it is goes to `read`.
    pub fn to_json(&self, query: &str, id: &FrameId, read: &OutsideSources) -> Value {
        for found in &self.matches {
            remember(&found.capability, read);
        }
        let matches: Vec<Value> = self.matches.iter().map(|found| found.to_json(id)).collect();
        json!({
            "query": query,
            "total_available": self.total_available,
            "matches": matches,
        })
    }
}

impl Match {
    fn to_json(&self, id: &FrameId) -> Value {
        let capability = &self.capability;
        let is_framed = capability.is_third_party();
        // The answer is one JSON value, so a frame stands inside each text that needs one.
        let shown = |text: &str| {
            if is_framed {
                frame(capability.name().as_str(), text, id)
            } else {
                text.to_owned()
            }
        };
        let description = capability.description();
        let description = match description.char_indices().nth(MAX_DESCRIPTION_CHARS) {
            Some((cut, _)) => shown(&format!("{}…", &description[..cut])),
            None => shown(description),
        };
        let schema = capability.schema();
        let required: Vec<String> = schema
            .required()
            .map(|name| {
                if is_plain_name(name) {
                    name.to_owned()
                } else {
                    shown(name)
                }
            })
            .collect();
        let mut found = json!({
            "name": capability.name(),
            "plugin": capability.provider(),
            "description": description,
            "required": required,
        });
        let schema = schema.wire_text().get();
        if self.strong && schema.len() <= MAX_REPEATED_SCHEMA {
            found["schema"] = Value::String(shown(schema));
        }
        found
    }
}

/// Whether a parameter's name is a word and cannot be a sentence.
fn is_plain_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$'))
}

/// A turn that was shown a third party's words has read them.
fn remember(capability: &Capability, read: &OutsideSources) {
    if let Some(author) = OutsideSource::describing(capability) {
        read.add(author);
    }
}

/// A capability the caller may dispatch and whose gate it passes.
fn reachable(view: &View, name: &str) -> Result<Arc<Capability>, ToolError> {
    let found = view
        .find(name)
        .filter(|entry| entry.gate().permit(entry.name(), view.caller()).is_ok());
    if let Some(capability) = found {
        return Ok(Arc::clone(capability));
    }
    let shown = shortened(name, 128);
    let near =
        fermix_search::near_name(&shown, view.reachable().map(|entry| entry.name().as_str()));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(ToolError::new(
        "unknown_capability",
        format!("Unknown capability: {shown}{hint}"),
    ))
}
