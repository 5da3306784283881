//! The turn loop: ask the model, run what it asks for, show it the results, until it answers.
//!
//! The loop never loses paid work: at the iteration cap and when the loop guard ends a turn, the
//! model is asked once more, without tools, for its best answer and for what remains undone.

pub(crate) mod event;
mod failure;
mod guard;
mod step;

use std::collections::HashSet;
use std::sync::Arc;

use fermix_capability::TurnScope;
use fermix_capability::dispatch::Dispatcher;
use fermix_providers::{
    Calls, ChatRequest, ChatResponse, ErrorKind, ProviderError, ProviderId, Providers, Route,
};
use fermix_types::{AssistantMessage, Clock, Message, Trust};
use serde::Serialize;

pub use event::TurnEvent;
pub(crate) use failure::TurnFailure;

use crate::history::add_user;
use crate::spending::{Spending, TurnSpending, costs_nothing};
use crate::work_note::WorkNote;
use event::Events;
use guard::LoopGuard;

/// No count of one call is above this many windows of its route; one that is, is a broken report,
/// and must not use up the day.
const MAX_REPORTED_WINDOWS: u64 = 10;
/// Whatever the window, so that sums cannot overflow.
const MAX_REPORTED_TOKENS: u64 = 1 << 40;

/// What a turn used, as the providers reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TurnTokens {
    /// Prompt tokens of all calls, cached ones included.
    pub prompt: u64,
    /// Tokens the model wrote.
    pub completion: u64,
    /// Both.
    pub total: u64,
    /// The largest prompt of one call: how full the window got.
    pub context: u64,
    /// Of the prompts, tokens read from a cache; absent when no provider said.
    pub cached: Option<u64>,
    /// Of the prompts, tokens written to a cache; absent when no provider said.
    pub cache_creation: Option<u64>,
}

/// How far a turn has come. Kept outside the loop, so that a stopped turn still reports it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) iterations: u32,
    pub(crate) tokens: TurnTokens,
    pub(crate) tool_calls: u32,
    pub(crate) tool_failures: u32,
    pub(crate) note: WorkNote,
    pub(crate) reacted: bool,
    pub(crate) attached: bool,
    pub(crate) provider: Option<ProviderId>,
    pub(crate) model: Option<String>,
    pub(crate) fallback_note: Option<String>,
    /// Whether the latest answer of the model was cut off by its length limit.
    pub(crate) cut: bool,
}

impl Progress {
    /// One line about how the answer came about, when there is something to say.
    pub(crate) fn user_note(&self) -> Option<String> {
        let cut = self
            .cut
            .then(|| "The answer was cut off by the model's length limit.".to_owned());
        let notes: Vec<String> = self.fallback_note.iter().cloned().chain(cut).collect();
        (!notes.is_empty()).then(|| notes.join(" "))
    }
}

/// One turn's loop and what it works with.
pub(crate) struct TurnLoop<'a> {
    pub(crate) dispatcher: &'a Dispatcher,
    pub(crate) providers: &'a Providers,
    pub(crate) spending: &'a Spending,
    pub(crate) turn_spending: &'a TurnSpending,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) scope: &'a TurnScope,
    pub(crate) events: &'a Events,
    pub(crate) max_iterations: u32,
}

impl TurnLoop<'_> {
    /// Runs to the final text, which may be empty when the reply was not words.
    pub(crate) async fn run(
        &self,
        routes: &Arc<[Route]>,
        mut request: ChatRequest,
        progress: &mut Progress,
    ) -> Result<String, TurnFailure> {
        let mut guard = LoopGuard::default();
        let mut call_ids = HashSet::new();
        let (mut response, index) = self.first_call(routes, &request, progress).await?;
        let route = routes
            .get(index)
            .expect("the provider answers with the index of one of the routes it was given");
        loop {
            let truncated = response.truncated;
            let message = with_unique_ids(response.message, &mut call_ids);
            if message.tool_calls.is_empty() {
                return Ok(message.text);
            }
            if progress.iterations >= self.max_iterations {
                let cap = TurnFailure::Cap(self.max_iterations);
                self.refuse_all(&mut request, message, "the step limit is reached", progress);
                return self
                    .closing_answer(
                        route,
                        request,
                        "You have reached the step limit.",
                        cap,
                        progress,
                    )
                    .await;
            }
            let step = self
                .step(route, &message, truncated, &mut guard, progress)
                .await?;
            request.messages.push(Message::Assistant(message));
            request
                .messages
                .extend(step.results.into_iter().map(Message::Tool));
            if step.ends_turn {
                return Ok(String::new());
            }
            if let Some(reason) = step.killed {
                let failure = TurnFailure::Loop(reason);
                return self
                    .closing_answer(
                        route,
                        request,
                        "You repeated one call without a change and were stopped.",
                        failure,
                        progress,
                    )
                    .await;
            }
            response = self.continue_on(route, &request, progress).await?;
        }
    }

    /// One last call without tools. Whatever prevents it, `failure` is what the turn ends with,
    /// unless the turn was stopped.
    async fn closing_answer(
        &self,
        route: &Route,
        mut request: ChatRequest,
        reason: &str,
        failure: TurnFailure,
        progress: &mut Progress,
    ) -> Result<String, TurnFailure> {
        request.calls = Calls::Forbidden;
        add_user(
            &mut request.messages,
            format!(
                "[Fermix] {reason} No further tool runs. Give the best answer you can from what you know now, and say \
                 what remains undone."
            ),
        );
        match self.continue_on(route, &request, progress).await {
            Ok(response) => {
                let text = response.message.text.clone();
                self.refuse_all(
                    &mut request,
                    response.message,
                    "no further tool runs",
                    progress,
                );
                if text.trim().is_empty() {
                    Err(failure)
                } else {
                    Ok(text)
                }
            }
            Err(TurnFailure::Stopped) => Err(TurnFailure::Stopped),
            Err(error) => {
                tracing::warn!(session = %self.scope.ids.session_id, %error, "no closing answer");
                Err(failure)
            }
        }
    }

    async fn first_call(
        &self,
        routes: &Arc<[Route]>,
        request: &ChatRequest,
        progress: &mut Progress,
    ) -> Result<(ChatResponse, usize), TurnFailure> {
        self.before_call(routes, progress).await?;
        let mut events = self.events.clone();
        let call = self.providers.first_call(
            routes,
            request,
            &mut events,
            &self.scope.ids,
            &self.scope.cancel,
        );
        let (response, index) = self.unless_stopped(call).await?;
        let route = &routes[index];
        progress.provider = Some(route.provider);
        if index > 0 {
            progress.fallback_note = Some(self.fallback_note(&routes[0], route, request));
        }
        self.after_call(route, &response, progress);
        Ok((response, index))
    }

    /// Guests are not told what the owner has set up.
    fn fallback_note(&self, lead: &Route, route: &Route, request: &ChatRequest) -> String {
        if self.scope.view.caller().trust() == Trust::Guest {
            return "Answered by another model than usual.".to_owned();
        }
        let why = if request.has_images() && !lead.vision {
            "takes no images"
        } else {
            "did not answer"
        };
        format!(
            "Answered by {} ({}), because {} ({}) {why}.",
            route.model, route.provider, lead.model, lead.provider
        )
    }

    async fn continue_on(
        &self,
        route: &Route,
        request: &ChatRequest,
        progress: &mut Progress,
    ) -> Result<ChatResponse, TurnFailure> {
        self.before_call(std::slice::from_ref(route), progress)
            .await?;
        let mut events = self.events.clone();
        let call = self.providers.continue_on(
            route,
            request,
            &mut events,
            &self.scope.ids,
            &self.scope.cancel,
        );
        let response = self.unless_stopped(call).await?;
        self.after_call(route, &response, progress);
        Ok(response)
    }

    /// Before a call that one of `routes` will answer.
    async fn before_call(
        &self,
        routes: &[Route],
        progress: &mut Progress,
    ) -> Result<(), TurnFailure> {
        if self.scope.cancel.is_cancelled() {
            return Err(TurnFailure::Stopped);
        }
        let is_free =
            !routes.is_empty() && routes.iter().all(|route| costs_nothing(route.provider));
        if !is_free {
            self.spending
                .permit(self.clock.now())
                .await
                .map_err(TurnFailure::Budget)?;
        }
        progress.iterations += 1;
        self.events
            .send(&TurnEvent::IterationStarted(progress.iterations));
        self.events.send(&TurnEvent::ProviderStart);
        Ok(())
    }

    fn after_call(&self, route: &Route, response: &ChatResponse, progress: &mut Progress) {
        let usage = &response.usage;
        let most = route
            .context_window
            .saturating_mul(MAX_REPORTED_WINDOWS)
            .min(MAX_REPORTED_TOKENS);
        let bounded = |tokens: u64| tokens.min(most);
        let tokens = &mut progress.tokens;
        tokens.prompt += bounded(usage.prompt_tokens);
        tokens.completion += bounded(usage.completion_tokens);
        tokens.total += bounded(usage.total_tokens);
        tokens.context = tokens.context.max(bounded(usage.prompt_tokens));
        for (sum, reported) in [
            (&mut tokens.cached, usage.cached_input_tokens),
            (
                &mut tokens.cache_creation,
                usage.cache_creation_input_tokens,
            ),
        ] {
            if let Some(reported) = reported {
                *sum = Some(sum.unwrap_or(0) + bounded(reported));
            }
        }
        if !costs_nothing(route.provider) {
            self.turn_spending
                .add(bounded(usage.prompt_tokens) + bounded(usage.completion_tokens));
        }
        progress.model = Some(response.model.clone());
        progress.cut = response.truncated;
        self.events.send(&TurnEvent::ProviderResponse {
            model: response.model.clone(),
        });
    }

    /// The call's outcome, or `Stopped` as soon as the turn is cancelled: dropping the call drops
    /// the request.
    async fn unless_stopped<T>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, TurnFailure> {
        let outcome = tokio::select! {
            biased;
            () = self.scope.cancel.cancelled() => return Err(TurnFailure::Stopped),
            outcome = call => outcome,
        };
        outcome.map_err(|error| {
            if error.kind == ErrorKind::Cancelled {
                TurnFailure::Stopped
            } else {
                TurnFailure::Provider(Box::new(error))
            }
        })
    }

    /// Answers every call of `message` without running it, so that each has its one result.
    fn refuse_all(
        &self,
        request: &mut ChatRequest,
        message: AssistantMessage,
        why: &str,
        progress: &mut Progress,
    ) {
        let results: Vec<Message> = message
            .tool_calls
            .iter()
            .map(|call| {
                let prepared = self.dispatcher.prepare(self.scope, call.clone());
                let outcome = self.dispatcher.decline(
                    self.scope,
                    prepared,
                    format!("not run: {why}"),
                    "turn_ended",
                );
                Message::Tool(step::recorded(&call.arguments, outcome, progress))
            })
            .collect();
        request.messages.push(Message::Assistant(message));
        request.messages.extend(results);
    }
}

/// The message with call ids that are unique within the turn. A provider that repeats an id would
/// leave a result with two calls.
fn with_unique_ids(mut message: AssistantMessage, used: &mut HashSet<String>) -> AssistantMessage {
    let mut changed = false;
    for call in &mut message.tool_calls {
        if !call.call_id.is_empty() && used.insert(call.call_id.clone()) {
            continue;
        }
        let fresh = (used.len()..)
            .map(|number| format!("call_{number}"))
            .find(|id| !used.contains(id))
            .expect("there are more numbers than used ids");
        used.insert(fresh.clone());
        call.call_id = fresh;
        changed = true;
    }
    if changed {
        // The verbatim form still has the old ids.
        message.replay = None;
    }
    message
}
