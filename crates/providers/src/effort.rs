//! Which effort a request really carries.

use fermix_types::Effort;

use crate::catalog::ModelFacts;
use crate::request::ProviderId;

/// An effort a provider does not have at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{provider} has no reasoning effort `{effort}`; use {accepted}")]
pub struct EffortBelowFloor {
    provider: ProviderId,
    effort: Effort,
    accepted: &'static str,
}

/// Refuses an effort below the provider's floor. Checked where the owner or a call names one.
pub fn check(provider: ProviderId, effort: Effort) -> Result<(), EffortBelowFloor> {
    if provider == ProviderId::Anthropic && effort == Effort::None {
        return Err(EffortBelowFloor {
            provider,
            effort,
            accepted: "low, medium, high, xhigh or max",
        });
    }
    Ok(())
}

/// The effort to send: the highest the model takes that is not above `wanted`, or its lowest.
/// `none` and models without efforts leave the field out.
pub fn for_model(facts: &ModelFacts, wanted: Option<Effort>) -> Option<Effort> {
    let wanted = wanted.filter(|effort| *effort != Effort::None)?;
    let fitting = facts.efforts.iter().rev().find(|effort| **effort <= wanted);
    fitting.or(facts.efforts.first()).copied()
}
