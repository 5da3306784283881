//! One pipeline for every call of every caller.
//!
//! [`Dispatcher::prepare`] decides, in this order: take the bridge apart, the run's list of names,
//! the caller's view, the gate, the argument text, the schema. [`Dispatcher::run`] asks the
//! [`CallGuard`] about what is left of it, and runs it. Whatever happens, a call has one answer and one trace row.

mod decide;
mod execute;
mod guarded;
mod record;
mod render;
mod signature;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bridge::{self, TOOL_CALL, Unwrapped};
use crate::call::TurnScope;
use crate::capability::{Arguments, Capability};
use crate::gate::Gate;
use crate::guard::CallGuard;
use crate::screen::{ResultScreen, screened};
use crate::untrusted::OutsideSource;
use fermix_types::{Category, Enforcement, Image, ToolCall, TraceSink};

pub use execute::CLEANUP_GRACE;
pub use record::outcome;
pub use render::{INTERNAL_ERROR_TAG, MAX_OUTPUT_BYTES};

use execute::Ended;
use guarded::Leave;
use record::{MAX_PREVIEW_BYTES, Record};

/// How long a name in an answer may get, in bytes. Real names have at most 64.
const MAX_NAME_BYTES: usize = 128;

/// A call that was decided on and has not run.
#[derive(Debug)]
pub struct Prepared {
    call_id: String,
    name: String,
    signature: String,
    preview: String,
    capability: Option<Arc<Capability>>,
    touched_path: Option<String>,
    plan: Plan,
}

#[derive(Debug)]
enum Plan {
    Run(Arc<Capability>, Arguments),
    Answer(Refused),
}

#[derive(Debug)]
struct Refused {
    text: String,
    outcome: &'static str,
    /// The gate that refused.
    gate: Option<Gate>,
    /// Whose words the text holds.
    outside: Option<OutsideSource>,
}

impl Prepared {
    /// The provider's id, which joins call and answer.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The real tool, the bridge taken away.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name and arguments with all keys sorted: equal for equal calls, however they were written.
    pub fn signature(&self) -> &str {
        &self.signature
    }

    /// Where the tool belongs, when the caller has such a tool.
    pub fn category(&self) -> Option<Category> {
        Some(self.capability.as_ref()?.category())
    }

    /// Whether [`Dispatcher::run`] will run the tool, rather than answer with a refusal.
    pub fn is_runnable(&self) -> bool {
        matches!(self.plan, Plan::Run(..))
    }

    /// Whether it may run beside other calls of its step. A refusal may.
    pub fn is_parallel_safe(&self) -> bool {
        match &self.plan {
            Plan::Run(capability, _) => capability.is_parallel_safe(),
            Plan::Answer(_) => true,
        }
    }

    /// Its `path` argument, so that two calls on one file do not overlap.
    pub fn touched_path(&self) -> Option<&str> {
        self.touched_path.as_deref()
    }
}

/// What the model is answered.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutcome {
    /// The call this answers.
    pub call_id: String,
    /// The real tool, the bridge taken away.
    pub name: String,
    /// The wire text: prefixed, framed and cut, with the remarks after it.
    pub text: String,
    /// The same without the remarks: structured output stays parseable. Framed like the text.
    pub output: String,
    /// The remarks: clamped limits, cut output.
    pub notes: Vec<String>,
    /// What was cut off `output`, unframed, for a run that keeps it to be read later.
    pub rest: Option<String>,
    /// Images of a successful call.
    pub images: Vec<Image>,
    /// Whether the text reports a failure.
    pub is_error: bool,
    /// Whether the tool was started.
    pub ran: bool,
    /// Whether success may end the turn.
    pub terminal: bool,
    /// Whether the text holds somebody else's words, in a frame.
    pub external: bool,
    /// What became of it; see [`outcome`].
    pub outcome: &'static str,
}

/// Sends calls to capabilities.
#[derive(Clone)]
pub struct Dispatcher {
    trace: Arc<dyn TraceSink>,
    guard: Option<Arc<dyn CallGuard>>,
    screen: Option<Arc<dyn ResultScreen>>,
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// Records to `trace`.
    pub fn new(trace: Arc<dyn TraceSink>) -> Self {
        Self {
            trace,
            guard: None,
            screen: None,
        }
    }

    /// Asks `guard` about every call before it runs.
    #[must_use]
    pub fn with_guard(mut self, guard: Arc<dyn CallGuard>) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Passes every tool's answer through `screen` before anybody reads it.
    #[must_use]
    pub fn screening_results(mut self, screen: Arc<dyn ResultScreen>) -> Self {
        self.screen = Some(screen);
        self
    }

    /// Decides what becomes of `call`. Runs nothing and records nothing; hand the answer to
    /// [`Dispatcher::run`] or [`Dispatcher::decline`].
    pub fn prepare(&self, turn: &TurnScope, call: ToolCall) -> Prepared {
        let (call, correction) = if call.name == TOOL_CALL && turn.view.has_bridge() {
            match bridge::unwrap(call.clone()) {
                Unwrapped::Plain(inner) => (inner, None),
                Unwrapped::Malformed(correction) => (call, Some(correction)),
            }
        } else {
            (call, None)
        };
        let name = fermix_types::text::shortened(&call.name, MAX_NAME_BYTES);
        let mut prepared = Prepared {
            signature: String::new(),
            preview: fermix_types::text::shortened(&call.arguments, MAX_PREVIEW_BYTES),
            call_id: call.call_id,
            name,
            capability: None,
            touched_path: None,
            plan: Plan::Answer(Refused {
                text: String::new(),
                outcome: outcome::NOT_FOUND,
                gate: None,
                outside: None,
            }),
        };
        let decided = decide::decide(turn, &mut prepared, &call.name, &call.arguments, correction);
        prepared.plan = decided.unwrap_or_else(Plan::Answer);
        if prepared.signature.is_empty() {
            prepared.signature = signature::raw_signature(&prepared.name, &call.arguments);
        }
        prepared
    }

    /// Runs the tool, or gives the refusal that [`Dispatcher::prepare`] found. Never fails, never
    /// panics, and returns at the latest one [`CLEANUP_GRACE`] after the deadline or a stop. What a
    /// guard waits for a person is not part of the deadline.
    pub async fn run(&self, turn: &TurnScope, prepared: Prepared) -> CallOutcome {
        let started = Instant::now();
        let Prepared {
            call_id,
            name,
            preview,
            capability,
            plan,
            ..
        } = prepared;
        let call = Call {
            call_id,
            name,
            preview,
            capability,
            outside: outside_before(turn),
        };
        let (capability, arguments) = match plan {
            Plan::Run(capability, arguments) => (capability, arguments),
            Plan::Answer(refused) => {
                if let Some(author) = refused.outside {
                    turn.outside_sources.add(author);
                }
                let answer = Answer {
                    gate: refused.gate,
                    ..Answer::refusal(refused.text, refused.outcome)
                };
                return self.finish(turn, call, answer, started.elapsed());
            }
        };
        let access = match guarded::leave(self.guard.as_deref(), turn, &capability, &arguments)
            .await
        {
            Leave::Given(access) => access,
            Leave::Refused(answer) => return self.finish(turn, call, *answer, started.elapsed()),
        };
        let was_stopped = turn.cancel.is_cancelled();
        let ended = execute::execute(
            turn,
            &capability,
            &call.call_id,
            arguments,
            MAX_OUTPUT_BYTES,
        )
        .await;
        let answer = match ended {
            Ended::Finished(result) => {
                let source = OutsideSource::of(&capability);
                // Before it is cut: half a secret would not be recognised.
                let result = screened(self.screen.as_ref(), result);
                let answer = render::finished(&capability, result, turn, source.is_some());
                if let Some(source) = source {
                    turn.outside_sources.add(source);
                }
                answer
            }
            Ended::Panicked(reference) => Answer::failed(
                format!("Error: tool raised an internal error; the log has it under {reference}"),
                outcome::PANICKED,
            ),
            Ended::TimedOut(allowed) => Answer::failed(
                format!("Error: timed out after {}", seconds(allowed)),
                outcome::TIMED_OUT,
            ),
            Ended::Stopped => Answer {
                ran: !was_stopped,
                ..Answer::failed(
                    "Error: stopped before it finished".to_owned(),
                    outcome::CANCELLED,
                )
            },
        };
        let answer = Answer { access, ..answer };
        self.finish(turn, call, answer, started.elapsed())
    }

    /// Answers with `Error: ` and `words` instead of running, and records that.
    pub fn decline(
        &self,
        turn: &TurnScope,
        prepared: Prepared,
        words: String,
        outcome: &'static str,
    ) -> CallOutcome {
        let call = Call {
            call_id: prepared.call_id,
            name: prepared.name,
            preview: prepared.preview,
            capability: prepared.capability,
            outside: outside_before(turn),
        };
        let answer = Answer::refusal(format!("Error: {words}"), outcome);
        self.finish(turn, call, answer, Duration::ZERO)
    }

    /// Prepares and runs.
    pub async fn call(&self, turn: &TurnScope, call: ToolCall) -> CallOutcome {
        let prepared = self.prepare(turn, call);
        self.run(turn, prepared).await
    }

    fn finish(
        &self,
        turn: &TurnScope,
        call: Call,
        answer: Answer,
        duration: Duration,
    ) -> CallOutcome {
        let succeeded = answer.outcome == outcome::OK;
        let row = Record {
            call_id: &call.call_id,
            tool: &call.name,
            capability: call.capability.as_deref(),
            arguments: &call.preview,
            outcome: answer.outcome,
            gate: answer.gate,
            error: (!succeeded).then_some(answer.error.as_deref().unwrap_or(&answer.text)),
            failure: answer.failure,
            access: answer.access,
            enforcement: answer.enforcement,
            duration,
            outside: &call.outside,
        }
        .into_row(turn);
        self.trace.record(row);
        CallOutcome {
            terminal: succeeded
                && call
                    .capability
                    .as_ref()
                    .is_some_and(|capability| capability.is_terminal()),
            call_id: call.call_id,
            name: call.name,
            output: answer.output.unwrap_or_else(|| answer.text.clone()),
            notes: answer.notes,
            rest: answer.rest,
            text: answer.text,
            images: answer.images,
            is_error: !succeeded,
            ran: answer.ran,
            external: answer.external,
            outcome: answer.outcome,
        }
    }
}

/// What the turn has read from outside, before the call adds to it.
fn outside_before(turn: &TurnScope) -> Vec<String> {
    let sources = turn.outside_sources.snapshot();
    if sources.is_empty() && turn.outside_sources.is_tainted() {
        return vec!["unknown".to_owned()];
    }
    sources.iter().map(ToString::to_string).collect()
}

/// What the row and the answer both say about the call.
struct Call {
    call_id: String,
    name: String,
    preview: String,
    capability: Option<Arc<Capability>>,
    outside: Vec<String>,
}

/// An answer on its way to the model.
struct Answer {
    text: String,
    /// The text without remarks, when it has any.
    output: Option<String>,
    notes: Vec<String>,
    rest: Option<String>,
    images: Vec<Image>,
    outcome: &'static str,
    /// The error without frame, for the trace.
    error: Option<String>,
    /// The tag of the failure the tool reported.
    failure: Option<&'static str>,
    gate: Option<Gate>,
    /// By whose leave it ran, or how a guard came to its refusal.
    access: Option<&'static str>,
    enforcement: Option<Enforcement>,
    ran: bool,
    external: bool,
}

impl Answer {
    fn refusal(text: String, outcome: &'static str) -> Self {
        Self {
            ran: false,
            ..Self::failed(text, outcome)
        }
    }

    fn failed(text: String, outcome: &'static str) -> Self {
        Self {
            text,
            output: None,
            notes: Vec::new(),
            rest: None,
            images: Vec::new(),
            outcome,
            error: None,
            failure: None,
            gate: None,
            access: None,
            enforcement: None,
            ran: true,
            external: false,
        }
    }
}

fn seconds(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}s", duration.as_secs_f64())
    }
}
