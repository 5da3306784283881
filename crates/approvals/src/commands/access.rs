//! The access gate: capabilities that act in somebody's name pass it at every call.

use fermix_capability::guard::Refusal;
use fermix_capability::{Capability, TurnScope};
use fermix_types::Trust;

/// What the gate says. Its conditions, in order:
/// 1. delegated work never passes,
/// 2. a scheduled run of the owner passes when its own row names the tool,
/// 3. any other run that the owner does not attend never passes,
/// 4. after reading what somebody else could have written, or where others are present, the owner
///    is asked,
/// 5. everything else passes.
pub(super) enum Access {
    Given(&'static str),
    /// The owner decides; why they are asked.
    Held(String),
    Refused(Refusal),
}

pub(super) fn gate(turn: &TurnScope, capability: &Capability) -> Access {
    let caller = turn.view.caller();
    let name = capability.name();
    let refused = |label, words: String| {
        Access::Refused(Refusal::new("access_gate", "refused", words).labelled(label))
    };
    if !caller.is_top_level() {
        return refused(
            "refused_delegated",
            format!("{name} does not run in delegated runs; report what you would do with it"),
        );
    }
    if caller.is_within_job() && caller.trust() == Trust::Operator {
        return if caller.job_names(name.as_str()) {
            Access::Given("scheduled")
        } else {
            refused(
                "refused_scheduled",
                format!("{name} only runs in a scheduled job whose own allowed_tools names it"),
            )
        };
    }
    if !caller.is_attended_owner() {
        return refused(
            "refused_unattended",
            format!("{name} only runs on a turn that the owner attends"),
        );
    }
    if has_read_others(turn, capability) {
        return Access::Held(
            "this turn has read text that somebody else could have written".to_owned(),
        );
    }
    let is_private = turn.approval.as_ref().is_some_and(|port| port.is_private());
    if !is_private {
        return Access::Held("others may be in this conversation".to_owned());
    }
    Access::Given("direct")
}

/// Whether the turn has read anything from outside but the capability's own provider.
fn has_read_others(turn: &TurnScope, capability: &Capability) -> bool {
    let read = turn.outside_sources.snapshot();
    // Tainted without a source means that nobody knows what was read.
    if read.is_empty() || turn.outside_sources.is_incomplete() {
        return turn.outside_sources.is_tainted();
    }
    let own = fermix_capability::OutsideSource::describing(capability);
    read.iter().any(|source| Some(source) != own.as_ref())
}
