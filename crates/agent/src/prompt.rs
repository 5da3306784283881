//! Assembles the system prompt: bounded sections, what never changes first.
//!
//! The first parts (persona, contract, catalog) are byte-identical from turn to turn, so that a
//! provider finds its prompt cache again; what a plugin, a memory write or midnight changes comes
//! after them. A guest's prompt is built from other parts: no byte of the owner's memory, name,
//! zone or plugins can reach it.

mod attached;
mod contract;
mod files;
mod notes;
pub mod scan;
mod surface;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fermix_capability::View;
use fermix_providers::SystemPart;
use fermix_types::{Trust, UnixMillis};

use crate::settings::AgentSettings;
use files::{Author, FileCache};
use surface::Surface;

/// How many runtime sections are remembered: a few kinds of caller times a few generations.
const MAX_REMEMBERED: usize = 16;

/// What the runtime section depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RuntimeKey {
    generation: u64,
    trust: Trust,
    offered: u64,
}

/// What a prompt depends on besides the files.
pub(crate) struct PromptFor<'a> {
    /// The turn's view.
    pub view: &'a View,
    /// The channel's name.
    pub channel: &'a str,
    /// Where relative paths start.
    pub folder: Option<&'a Path>,
    /// The present moment; only its day is used.
    pub now: UnixMillis,
    /// The model that is asked first.
    pub model: &'a str,
}

/// Builds prompts and remembers their parts.
pub(crate) struct Prompts {
    settings: Arc<AgentSettings>,
    files: FileCache,
    runtime: Mutex<VecDeque<(RuntimeKey, Arc<str>)>>,
}

impl Prompts {
    pub(crate) fn new(settings: Arc<AgentSettings>) -> Self {
        Self {
            settings,
            files: FileCache::default(),
            runtime: Mutex::default(),
        }
    }

    /// The system parts, in order. Blocking: it reads files.
    pub(crate) fn assemble(&self, wanted: &PromptFor<'_>) -> Vec<SystemPart> {
        let settings = &self.settings;
        let caller = wanted.view.caller();
        let is_owner = caller.trust() == Trust::Operator;
        let mut parts = Vec::new();
        let mut add = |text: String, stable: bool| {
            if !text.trim().is_empty() {
                parts.push(SystemPart { text, stable });
            }
        };
        add(self.persona(is_owner), true);
        add(self.runtime(wanted.view).to_string(), true);
        if is_owner {
            add(Surface::new(wanted.view).attached(), false);
            add(self.memory(), false);
        }
        add(notes::channel(wanted.channel).to_owned(), false);
        let zone = settings.timezone.as_deref().filter(|_| is_owner);
        add(notes::date(wanted.now, zone), false);
        if is_owner {
            add(notes::personalization(settings).unwrap_or_default(), false);
            add(wanted.folder.map(notes::folder).unwrap_or_default(), false);
        }
        add(
            notes::run_mode(caller).unwrap_or_default().to_owned(),
            false,
        );
        add(
            notes::overlay(wanted.model).unwrap_or_default().to_owned(),
            false,
        );
        parts
    }

    fn persona(&self, is_owner: bool) -> String {
        let names: &[&str] = match (is_owner, self.settings.guest_persona) {
            (true, _) => &["IDENTITY.md", "FERMIX.md", "SOUL.md"],
            (false, true) => &["IDENTITY.md", "FERMIX.md"],
            (false, false) => &[],
        };
        let written = self.read_all(&self.settings.bootstrap, names, Author::Owner);
        if !written.is_empty() {
            written.join("\n\n")
        } else if is_owner {
            notes::default_persona(&self.settings.name)
        } else {
            notes::neutral_persona().to_owned()
        }
    }

    fn memory(&self) -> String {
        let mut text = String::new();
        for (name, heading) in [
            ("USER.md", "## About the owner"),
            ("MEMORY.md", "## Memory"),
        ] {
            if let Some(content) = self
                .files
                .read(&self.settings.memory.join(name), Author::Agent)
            {
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(&format!("{heading}\n{content}"));
            }
        }
        text
    }

    fn read_all(&self, folder: &Path, names: &[&str], author: Author) -> Vec<Arc<str>> {
        names
            .iter()
            .filter_map(|name| self.files.read(&folder.join(name), author))
            .collect()
    }

    fn runtime(&self, view: &View) -> Arc<str> {
        let surface = Surface::new(view);
        let key = RuntimeKey {
            generation: view.snapshot().generation(),
            trust: view.caller().trust(),
            offered: surface.fingerprint(),
        };
        let known = self
            .remembered()
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, text)| Arc::clone(text));
        if let Some(text) = known {
            return text;
        }
        // Built outside the lock: two turns may build the same text, none waits for another.
        let mut text = contract::render(&surface);
        let catalog = surface.catalog();
        if !catalog.is_empty() {
            text.push('\n');
            text.push_str(&catalog);
        }
        let text: Arc<str> = text.trim_end().into();
        let mut remembered = self.remembered();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.pop_front();
        }
        remembered.push_back((key, Arc::clone(&text)));
        text
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, VecDeque<(RuntimeKey, Arc<str>)>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
