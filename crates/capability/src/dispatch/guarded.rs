//! Asks the guard about a call that would run next.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use super::{Answer, outcome};
use crate::call::TurnScope;
use crate::capability::{Arguments, Capability};
use crate::guard::{CallGuard, GuardedCall, Ruling};

/// Whether the call may run.
pub(super) enum Leave {
    /// It may; the label for the trace.
    Given(Option<&'static str>),
    /// It may not, and this is its answer.
    Refused(Box<Answer>),
}

/// Waits for the guard, and for nothing longer than the turn. A guard that panics has said no.
pub(super) async fn leave(
    guard: Option<&dyn CallGuard>,
    turn: &TurnScope,
    capability: &Capability,
    arguments: &Arguments,
) -> Leave {
    let Some(guard) = guard else {
        return Leave::Given(None);
    };
    let call = GuardedCall {
        turn,
        capability,
        arguments,
    };
    let ruling = tokio::select! {
        biased;
        () = turn.cancel.cancelled() => {
            return Leave::Refused(Box::new(Answer::refusal(
                "Error: stopped before it started".to_owned(),
                outcome::CANCELLED,
            )));
        }
        ruling = AssertUnwindSafe(guard.rule(call)).catch_unwind() => ruling,
    };
    match ruling {
        Ok(Ruling::Run(access)) => Leave::Given(access),
        Ok(Ruling::Refuse(refusal)) => Leave::Refused(Box::new(Answer {
            access: refusal.access,
            enforcement: refusal.enforcement,
            ..Answer::refusal(format!("Error: {}", refusal.words), refusal.outcome)
        })),
        Err(_) => {
            tracing::error!(tool = %capability.name(), "the guard of calls panicked; the call did not run");
            Leave::Refused(Box::new(Answer::refusal(
                "Error: the check before this call failed, so it did not run".to_owned(),
                outcome::GUARD_FAILED,
            )))
        }
    }
}
