//! Putting a changed configuration in force while turns run.

use std::sync::{Arc, PoisonError};

use fermix_approvals::commands::ApprovalRules;
use fermix_config::{Config, Overrides};
use serde::Serialize;

use super::Engine;
use crate::assemble::{self, BuildError, Parts};

/// What a reload came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reloaded {
    /// What holds for the turns that begin from now on.
    pub applied: Vec<&'static str>,
    /// What changed in the file and waits for a restart.
    pub needs_restart: Vec<&'static str>,
    /// What the owner should know although the configuration works.
    pub warnings: Vec<String>,
}

impl Engine {
    /// Reads config.toml again. On any problem nothing changes. Turns that run keep the providers
    /// they began with; each of their next tool calls follows the new sandbox. Blocks for as long
    /// as the disk.
    pub fn reload(&self) -> Result<Reloaded, BuildError> {
        let before = self.parts();
        let config = Config::load(&before.home, &before.environment, &Overrides::default())
            .map_err(|error| BuildError::Settings(error.to_string()))?;
        let after = Parts {
            config,
            ..(*before).clone()
        };
        let problems = assemble::problems(&after)?;
        if !problems.is_empty() {
            return Err(BuildError::Settings(problems.join("\n")));
        }
        let (old, new) = (&before.config, &after.config);
        crate::secrets::announce(new, &after.redactor)?;
        let providers = self.assembled.providers.prepare(new.clone())?;

        // Nothing was changed up to here, and what follows fails only in its first step.
        self.assembled
            .policy
            .reload(new.sandbox.clone())
            .map_err(|error| BuildError::Settings(error.to_string()))?;
        self.assembled.approvals.reconfigure(ApprovalRules::of(new));
        self.assembled.providers.replace(providers);
        if let Some(agent) = self.agent_so_far() {
            agent.use_providers(self.assembled.providers.get()?);
        }
        let mut routing = self
            .assembled
            .routing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        routing.clone_from(&new.routing);
        drop(routing);

        let providers_changed = old.providers != new.providers || old.models != new.models;
        let changes = [
            ("sandbox", old.sandbox != new.sandbox),
            ("providers", providers_changed),
            ("routing", old.routing != new.routing),
        ];
        let warnings = new.warnings.clone();
        self.parts.store(Arc::new(after));
        Ok(Reloaded {
            applied: changes
                .into_iter()
                .filter_map(|(name, changed)| changed.then_some(name))
                .collect(),
            needs_restart: self.waits_for_restart(),
            warnings,
        })
    }

    /// Whether config.toml says something else than what is in force.
    pub(crate) fn is_outdated(&self) -> Result<bool, String> {
        let parts = self.parts();
        Config::load(&parts.home, &parts.environment, &Overrides::default())
            .map(|config| {
                // What the owner changed through Fermix is in force already.
                let mut in_force = parts.config.clone();
                in_force.sandbox = self.assembled.policy.in_force();
                config != in_force
            })
            .map_err(|error| error.to_string())
    }
}
