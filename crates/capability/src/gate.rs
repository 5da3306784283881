//! Extra conditions on the run that calls a capability, beyond trust and policy.
//!
//! [`Gate::permit`] is the one function: the view calls it to decide what is offered, the
//! dispatcher calls it again before anything runs. Forgetting either half is not possible for a
//! tool, since tools only name their gate.

use fermix_types::{ToolName, Trust};

use crate::caller::{Caller, Run};

/// The condition a capability puts on its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gate {
    /// None.
    #[default]
    Open,
    /// Changes the owner's dates: an attended, top-level owner turn.
    AttendedOwner,
    /// Reads the owner's dates: the same, or a job the owner created.
    OwnerRead,
    /// Starts or watches coding agents.
    Harness,
    /// Creates or changes jobs: not from a job, unless its row names the tool.
    JobMutation,
    /// Asks the owner to widen the sandbox.
    DirectoryAccess,
    /// Spawns workers: not from a worker.
    TopLevel,
    /// Acts on the chat the message came from.
    LiveReply,
    /// Drives the desktop: an attended origin.
    Desktop,
}

/// What a run is told that may not ask for folders, whichever condition it misses.
pub const DIRECTORY_ACCESS_REFUSED: &str =
    "directory access requests need an attended owner conversation";

/// Why a gate said no, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Gate {
    /// The name used in traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::AttendedOwner => "attended_owner",
            Self::OwnerRead => "owner_read",
            Self::Harness => "harness",
            Self::JobMutation => "job_mutation",
            Self::DirectoryAccess => "directory_access",
            Self::TopLevel => "top_level",
            Self::LiveReply => "live_reply",
            Self::Desktop => "desktop",
        }
    }

    /// Decides whether `caller` passes. `tool` is named in the refusal, and looked up in a job's
    /// own row.
    pub fn permit(self, tool: &ToolName, caller: &Caller) -> Result<(), Refusal> {
        match self {
            Self::Open => Ok(()),
            Self::AttendedOwner => require(caller.is_attended_owner(), || {
                format!(
                    "{tool} only runs on an attended, top-level owner turn, not in scheduled, delegated, \
                     background or continued runs"
                )
            }),
            Self::OwnerRead => require(caller.is_owner_read(), || {
                format!(
                    "{tool} only runs on an attended, top-level owner turn or an operator-created scheduled run, \
                     not in delegated, background or continued runs"
                )
            }),
            Self::Harness => harness(tool, caller),
            Self::JobMutation => require(
                !caller.is_within_job() || caller.job_names(tool.as_str()),
                || {
                    format!(
                        "{tool} does not run in a scheduled job unless the job's own allowed_tools names it; ask the owner \
                     to add it there"
                    )
                },
            ),
            // One sentence for every miss: it must not reveal whether an approval path exists.
            Self::DirectoryAccess => require(
                caller.is_attended_owner()
                    && *caller.run() == Run::Message
                    && caller.ports().reply
                    && caller.ports().approval,
                || DIRECTORY_ACCESS_REFUSED.to_owned(),
            ),
            Self::TopLevel => require(caller.subagent_depth().is_top(), || {
                format!(
                    "{tool} only runs at the top level, and this run is delegated (depth {}); do the work yourself and report",
                    caller.subagent_depth().levels()
                )
            }),
            Self::LiveReply => require(caller.ports().reply, || {
                format!("{tool} requires a channel reply context")
            }),
            Self::Desktop => require(
                caller.trust() == Trust::Operator
                    && matches!(caller.run(), Run::Message | Run::Voice | Run::Continuation)
                    && caller.is_top_level(),
                || {
                    format!(
                        "{tool} only runs from a chat, command line or voice turn that the owner attends"
                    )
                },
            ),
        }
    }
}

fn harness(tool: &ToolName, caller: &Caller) -> Result<(), Refusal> {
    require(caller.trust() == Trust::Operator, || {
        format!("{tool} only runs for the owner")
    })?;
    require(caller.is_top_level(), || {
        format!("{tool} does not run in delegated runs")
    })?;
    match caller.run() {
        Run::Job(_) => require(caller.job_names(tool.as_str()), || {
            format!("{tool} only runs in a scheduled job whose own allowed_tools names it")
        }),
        Run::Voice => Err(Refusal(format!("{tool} does not run in voice calls"))),
        Run::Message | Run::Continuation => {
            require(caller.ports().reply && caller.ports().late_outcome, || {
                format!("{tool} needs a channel that can carry an outcome after the turn")
            })
        }
        Run::Worker | Run::Detached => {
            Err(Refusal(format!("{tool} only runs on a live owner turn")))
        }
    }
}

fn require(holds: bool, words: impl FnOnce() -> String) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal(words())) }
}
