//! Which model the helpers of a turn run on, and whether that pairing can work.

use std::str::FromStr;

use fermix_types::Effort;

use crate::providers::ProviderId;

/// `[fermix_core.routing]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Workers.
    pub subagent: RouteSetting,
    /// Scheduled runs.
    pub cron: RouteSetting,
}

/// One route. What is `None` is inherited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteSetting {
    /// Whose model it is. A model without a provider runs on the primary.
    pub provider: Option<ProviderId>,
    /// The model.
    pub model: Option<String>,
    /// How hard it thinks.
    pub reasoning_effort: Option<Effort>,
}

/// A pairing that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The model is another provider's.
    #[error(
        "`{route}_model` is `{model}`, a model of {owner}, but it would run on {provider}; set `{route}_provider` to `{owner}` or choose a model of {provider}"
    )]
    WrongOwner {
        /// `subagent` or `cron`.
        route: &'static str,
        /// The model.
        model: String,
        /// Whose it is.
        owner: &'static str,
        /// Where it would run.
        provider: ProviderId,
    },
    /// The provider has no such effort.
    #[error(
        "`{route}_reasoning_effort` is `none`, which anthropic does not have; use low, medium, high, xhigh or max"
    )]
    NoSuchEffort {
        /// `subagent` or `cron`.
        route: &'static str,
    },
    /// The slug has a line break or another control character.
    #[error("`{route}_model` has a control character; give the model's id alone")]
    ControlCharacter {
        /// `subagent` or `cron`.
        route: &'static str,
    },
}

/// Checks both routes together, as they stand after a change.
///
/// `known_owner` answers which provider a model id belongs to, by block name, or `None` for an id
/// the catalog does not know; an unknown id passes. `primary` is where a model without a provider
/// runs; with none there is nothing to compare with.
pub fn validate_routing(
    routing: &Routing,
    primary: Option<ProviderId>,
    known_owner: &dyn Fn(&str) -> Option<&'static str>,
) -> Result<(), RoutingError> {
    for (route, setting) in [("subagent", &routing.subagent), ("cron", &routing.cron)] {
        let runs_on = setting.provider.or(primary);
        if runs_on == Some(ProviderId::Anthropic) && setting.reasoning_effort == Some(Effort::None)
        {
            return Err(RoutingError::NoSuchEffort { route });
        }
        let Some(model) = &setting.model else {
            continue;
        };
        if model.chars().any(char::is_control) {
            return Err(RoutingError::ControlCharacter { route });
        }
        let (Some(provider), Some(owner)) = (runs_on, known_owner(model)) else {
            continue;
        };
        if !serves(provider, owner) {
            return Err(RoutingError::WrongOwner {
                route,
                model: model.clone(),
                owner,
                provider,
            });
        }
    }
    Ok(())
}

fn serves(provider: ProviderId, owner: &str) -> bool {
    let is_openai = |id| matches!(id, ProviderId::Openai | ProviderId::OpenaiCodex);
    // A server of the owner's own may call its models anything, and OpenAI sells one list of
    // models through two doors.
    provider == ProviderId::OpenaiCompatible
        || provider.as_str() == owner
        || (is_openai(provider) && ProviderId::from_str(owner).is_ok_and(is_openai))
}
