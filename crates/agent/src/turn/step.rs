//! Runs the calls of one step: what may run side by side does, everything else waits its turn, and
//! every call gets exactly one result, in the order the model made them.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use fermix_capability::dispatch::{CallOutcome, Prepared, outcome};
use fermix_providers::Route;
use fermix_types::{AssistantMessage, Category, ToolMessage};
use futures_util::stream::{self, StreamExt as _};

use super::event::TurnEvent;
use super::guard::{CallKey, LoopGuard, Verdict};
use super::results::Facts;
use super::{Progress, TurnFailure, TurnLoop};

/// The most calls one step may hold.
const MAX_CALLS: usize = 64;
/// The most calls that run at the same time.
const MAX_PARALLEL: usize = 8;
/// How long a cancelled step is waited for. The dispatcher gives a tool 5 s to clean up; this is
/// the second line should the dispatcher itself hang.
const STOP_GRACE: Duration = Duration::from_millis(5_500);

/// What a step came to.
pub(super) struct Step {
    /// One a call, in call order.
    pub(super) results: Vec<ToolMessage>,
    /// What the run keeps about each of them.
    pub(super) facts: Vec<Facts>,
    /// A lone terminal call succeeded and the model said nothing: the turn is over.
    pub(super) ends_turn: bool,
    /// Why the loop guard ends the turn.
    pub(super) killed: Option<String>,
}

/// What is to become of one call.
enum Plan {
    Run(Option<String>),
    Decline(String, &'static str),
}

struct Planned {
    position: usize,
    prepared: Prepared,
    key: CallKey,
    plan: Plan,
}

impl TurnLoop<'_> {
    /// Runs the calls of `message`. The only failure is that the turn was stopped.
    ///
    /// Of a `truncated` message the last call is not run: what is left of its arguments may be
    /// readable and still not what the model meant.
    pub(super) async fn step(
        &self,
        route: &Route,
        message: &AssistantMessage,
        truncated: bool,
        guard: &mut LoopGuard,
        progress: &mut Progress,
    ) -> Result<Step, TurnFailure> {
        let calls = &message.tool_calls;
        let (planned, killed) = self.plan(message, truncated, guard);
        let keys: Vec<CallKey> = planned.iter().map(|call| call.key).collect();
        let mut asked: Vec<(Option<PathBuf>, String)> = planned
            .iter()
            .map(|call| {
                let path = call.prepared.touched_path();
                let path = path.map(|path| self.plain_path(path));
                (path, call.prepared.signature().to_owned())
            })
            .collect();
        let mut warnings: Vec<Option<String>> = vec![None; calls.len()];
        let mut outcomes: Vec<Option<CallOutcome>> = Vec::new();
        outcomes.resize_with(calls.len(), || None);

        let mut group = Vec::new();
        let mut paths = HashSet::new();
        for Planned {
            position,
            prepared,
            plan,
            ..
        } in planned
        {
            match plan {
                Plan::Decline(words, why) => {
                    outcomes[position] =
                        Some(self.dispatcher.decline(&self.scope, prepared, words, why));
                }
                Plan::Run(warning) => {
                    warnings[position] = warning;
                    let path = prepared.touched_path().map(|path| self.plain_path(path));
                    // A call that is refused anyway holds nobody up.
                    let alone = prepared.is_runnable() && !prepared.is_parallel_safe();
                    let overlaps = path.as_ref().is_some_and(|path| paths.contains(path));
                    if alone || overlaps {
                        self.run_group(&mut group, &mut outcomes).await;
                        paths.clear();
                    }
                    paths.extend(path);
                    group.push((position, prepared));
                    if alone {
                        self.run_group(&mut group, &mut outcomes).await;
                        paths.clear();
                    }
                }
            }
        }
        self.run_group(&mut group, &mut outcomes).await;

        let mut results = Vec::with_capacity(calls.len());
        let mut facts = Vec::with_capacity(calls.len());
        let mut terminal = false;
        for (position, outcome) in outcomes.into_iter().enumerate() {
            // Only a cancelled step leaves a call without an outcome.
            let Some(mut outcome) = outcome else { continue };
            if outcome.ran {
                guard.ran(keys[position], &outcome.text);
            }
            if !outcome.images.is_empty() && !route.vision {
                refuse_images(&mut outcome, &route.model);
            }
            terminal |= outcome.terminal && outcome.ran && !outcome.is_error;
            if let Some(warning) = warnings[position].take() {
                outcome.text.push_str("\n\n");
                outcome.text.push_str(&warning);
            }
            let arguments = &calls[position].arguments;
            let (path, signature) = std::mem::take(&mut asked[position]);
            facts.push(Facts::of(&mut outcome, arguments, path, &signature));
            results.push(recorded(arguments, outcome, progress));
        }
        if self.scope.cancel.is_cancelled() {
            return Err(TurnFailure::Stopped);
        }
        let ends_turn = terminal && calls.len() == 1 && message.text.trim().is_empty();
        Ok(Step {
            results,
            facts,
            ends_turn,
            killed,
        })
    }

    /// Decides about every call before any runs.
    fn plan(
        &self,
        message: &AssistantMessage,
        truncated: bool,
        guard: &mut LoopGuard,
    ) -> (Vec<Planned>, Option<String>) {
        let mut killed = None;
        let mut acted_on_channel = false;
        let planned = message
            .tool_calls
            .iter()
            .enumerate()
            .map(|(position, call)| {
                let prepared = self.dispatcher.prepare(&self.scope, call.clone());
                let key = CallKey::new(prepared.name(), prepared.signature());
                let plan = if position >= MAX_CALLS {
                    Plan::Decline(
                        format!("too many calls in one step: {MAX_CALLS} were taken, make this one in the next step"),
                        "too_many_calls",
                    )
                } else if killed.is_some() {
                    Plan::Decline("not run: the turn is ending".to_owned(), "loop_guard")
                } else {
                    let is_cut = truncated && position + 1 == message.tool_calls.len();
                    match guard.judge(prepared.name(), key) {
                        Verdict::Run | Verdict::RunWithWarning(_) if is_cut => Plan::Decline(
                            "the model's answer was cut off; send the call again".to_owned(),
                            "cut_off",
                        ),
                        Verdict::Run => Plan::Run(None),
                        Verdict::RunWithWarning(warning) => Plan::Run(Some(warning)),
                        Verdict::Decline(words) => Plan::Decline(words, "loop_guard"),
                        Verdict::Kill(words) => {
                            killed = Some(words.clone());
                            Plan::Decline(words, "loop_guard")
                        }
                    }
                };
                let on_channel = matches!(plan, Plan::Run(_))
                    && prepared.is_runnable()
                    && prepared.category() == Some(Category::Channel);
                let plan = if on_channel && acted_on_channel {
                    Plan::Decline(
                        format!(
                            "only one channel action is executed per step; call {} again in the next step",
                            prepared.name()
                        ),
                        "one_channel_call",
                    )
                } else {
                    plan
                };
                acted_on_channel |= on_channel;
                Planned {
                    position,
                    prepared,
                    key,
                    plan,
                }
            })
            .collect();
        (planned, killed)
    }

    /// Runs a group side by side and empties it. After a cancellation nothing new starts.
    async fn run_group(
        &self,
        group: &mut Vec<(usize, Prepared)>,
        outcomes: &mut [Option<CallOutcome>],
    ) {
        let group = std::mem::take(group);
        if self.scope.cancel.is_cancelled() {
            for (position, prepared) in group {
                let words = "not run: the turn was stopped".to_owned();
                outcomes[position] =
                    Some(
                        self.dispatcher
                            .decline(&self.scope, prepared, words, outcome::CANCELLED),
                    );
            }
            return;
        }
        let mut running = stream::iter(group)
            .map(|(position, prepared)| async move { (position, self.run_one(prepared).await) })
            .buffer_unordered(MAX_PARALLEL);
        let abandoned = async {
            self.scope.cancel.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        tokio::pin!(abandoned);
        loop {
            tokio::select! {
                biased;
                next = running.next() => match next {
                    Some((position, outcome)) => outcomes[position] = Some(outcome),
                    None => return,
                },
                () = &mut abandoned => return,
            }
        }
    }

    async fn run_one(&self, prepared: Prepared) -> CallOutcome {
        let (call_id, name) = (prepared.call_id().to_owned(), prepared.name().to_owned());
        self.events.send(&TurnEvent::ToolStart {
            call_id: call_id.clone(),
            name: name.clone(),
        });
        let outcome = self.dispatcher.run(&self.scope, prepared).await;
        self.events.send(&TurnEvent::ToolFinish {
            call_id,
            name,
            ok: !outcome.is_error,
        });
        outcome
    }

    /// `path` without `.` and `..`, from the folder of the request when it is relative. Two
    /// spellings of one file are one file; links are the tools' business.
    fn plain_path(&self, path: &str) -> PathBuf {
        let base = self.scope.cwd.as_deref().unwrap_or(Path::new(""));
        let mut plain = PathBuf::new();
        for part in base.join(path).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    plain.pop();
                }
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                    plain.push(part);
                }
            }
        }
        plain
    }
}

/// Counts an outcome, takes note of it, and gives the model's form of it.
pub(super) fn recorded(
    arguments: &str,
    outcome: CallOutcome,
    progress: &mut Progress,
) -> ToolMessage {
    progress.tool_calls += 1;
    progress.tool_failures += u32::from(outcome.is_error);
    if outcome.ran && !outcome.is_error {
        progress.reacted |= outcome.name == "react";
        progress.attached |= outcome.name == "send_attachment";
    }
    progress.note.record(arguments, &outcome);
    ToolMessage {
        call_id: outcome.call_id,
        name: outcome.name,
        text: outcome.text,
        images: outcome.images,
        is_error: outcome.is_error,
    }
}

/// A model that takes no images is told so: it must not reason about an image it never saw.
fn refuse_images(outcome: &mut CallOutcome, model: &str) {
    let count = outcome.images.len();
    outcome.images.clear();
    outcome.is_error = true;
    let sentence = format!(
        "Error: image_unsupported: {model} takes no images, so {count} of `{}` could not be shown; switch to a model \
         that takes images, or go on without",
        outcome.name
    );
    outcome.text = if outcome.text.trim().is_empty() {
        sentence
    } else {
        format!("{sentence}\n{}", outcome.text)
    };
}
