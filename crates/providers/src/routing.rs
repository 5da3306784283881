//! Which model a worker or a scheduled run gets.
//!
//! Each field by itself, first found wins:
//! 1. the argument of the call,
//! 2. `[fermix_core.routing]`,
//! 3. what the run that starts it has.
//!
//! A model without a provider runs on the primary: a slug left over from another vendor must not
//! move work there. An effort alone changes neither the model nor the fallbacks.

use std::sync::Arc;

use fermix_config::RouteSetting;
use fermix_types::Effort;

use crate::effort::{self, EffortBelowFloor};
use crate::providers::{Providers, Route};
use crate::request::ProviderId;

/// What was chosen for a route; what is absent is chosen elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The provider.
    pub provider: Option<ProviderId>,
    /// The model's id.
    pub model: Option<String>,
    /// The effort.
    pub effort: Option<Effort>,
}

impl From<&RouteSetting> for Choice {
    fn from(setting: &RouteSetting) -> Self {
        Self {
            provider: setting.provider.map(ProviderId::from),
            model: setting.model.clone(),
            effort: setting.reasoning_effort,
        }
    }
}

/// A choice that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The provider is not configured.
    #[error("provider `{provider}` is not configured; configured: {configured}")]
    NotConfigured {
        /// The provider.
        provider: ProviderId,
        /// Those that are, separated by commas.
        configured: String,
    },
    /// The model is another provider's.
    #[error(
        "`{model}` is a model of {owner}, not of {provider}; name `{owner}` as the provider or choose another model"
    )]
    WrongOwner {
        /// The model.
        model: String,
        /// Whose it is.
        owner: ProviderId,
        /// Where it would run.
        provider: ProviderId,
    },
    /// The slug has a line break or another control character, or is empty.
    #[error("a model's id is one line of text without control characters; give the id alone")]
    BadModel,
    /// The provider names no model and has none of its own.
    #[error("`{provider}` has no default model; name one")]
    NoModel {
        /// The provider.
        provider: ProviderId,
    },
    /// The provider has no such effort.
    #[error(transparent)]
    Effort(#[from] EffortBelowFloor),
}

impl Providers {
    /// The routes of a run started by one that has `inherited`. A named provider or model makes
    /// one route without fallbacks; nobody asked for another model than that one.
    pub fn resolve(
        &self,
        call: &Choice,
        routing: &Choice,
        inherited: &Arc<[Route]>,
    ) -> Result<Arc<[Route]>, RoutingError> {
        let provider = call.provider.or(routing.provider);
        let model = call.model.as_ref().or(routing.model.as_ref());
        let effort = call.effort.or(routing.effort);
        if provider.is_none() && model.is_none() {
            let Some(effort) = effort else {
                return Ok(inherited.clone());
            };
            if let Some(first) = inherited.first() {
                effort::check(first.provider, effort)?;
            }
            return Ok(inherited
                .iter()
                .map(|route| Route {
                    effort: Some(effort),
                    ..route.clone()
                })
                .collect());
        }
        let route = self.route(provider, model.map(String::as_str))?;
        if let Some(effort) = effort {
            effort::check(route.provider, effort)?;
        }
        let inherited_effort = inherited
            .first()
            .filter(|first| first.provider == route.provider);
        let effort = effort
            .or(inherited_effort.and_then(|first| first.effort))
            .or(route.effort);
        Ok(Arc::new([Route { effort, ..route }]))
    }

    /// One route: a model of a provider, the provider's default model, or a model of the primary.
    pub fn route(
        &self,
        provider: Option<ProviderId>,
        model: Option<&str>,
    ) -> Result<Route, RoutingError> {
        let wanted = provider.or_else(|| self.configured.first().map(|primary| primary.id));
        let entry = self
            .configured
            .iter()
            .find(|entry| Some(entry.id) == wanted)
            .ok_or_else(|| {
                let names: Vec<&str> = self
                    .configured
                    .iter()
                    .map(|entry| entry.id.as_str())
                    .collect();
                RoutingError::NotConfigured {
                    provider: wanted.unwrap_or(ProviderId::Offline),
                    configured: if names.is_empty() {
                        "none".to_owned()
                    } else {
                        names.join(", ")
                    },
                }
            })?;
        let Some(model) = model.or(entry.default_model.as_deref()) else {
            return Err(RoutingError::NoModel { provider: entry.id });
        };
        let model = model.trim_matches(' ');
        if model.is_empty() || model.chars().any(char::is_control) {
            return Err(RoutingError::BadModel);
        }
        let owners = self.catalog.owners_of(model);
        // A server of the owner's may call its models anything.
        if let Some(owner) = owners.first()
            && entry.id != ProviderId::OpenaiCompatible
            && !owners.contains(&entry.id)
        {
            return Err(RoutingError::WrongOwner {
                model: model.to_owned(),
                owner: *owner,
                provider: entry.id,
            });
        }
        Ok(self.route_of(entry, model.to_owned()))
    }
}
