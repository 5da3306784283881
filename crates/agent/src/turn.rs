//! The turn loop: ask the model, run what it asks for, show it the results, until it answers.
//!
//! The loop never loses paid work: at the iteration cap and when the loop guard ends a turn, the
//! model is asked once more, without tools, for its best answer and for what remains undone.

pub(crate) mod arguments;
mod budget;
mod digest;
pub(crate) mod event;
mod failure;
mod guard;
mod recall;
mod results;
mod step;

use std::collections::HashSet;
use std::sync::Arc;

use fermix_capability::TurnScope;
use fermix_capability::dispatch::Dispatcher;
use fermix_config::Compaction;
use fermix_providers::{
    Calls, ChatRequest, ChatResponse, ErrorKind, EventSink, ModelEvent, ProviderError, ProviderId,
    Providers, Route, Usage,
};
use fermix_types::{AssistantMessage, Clock, Message, TraceSink, Trust};
use serde::Serialize;

pub use event::TurnEvent;
pub(crate) use failure::TurnFailure;

use crate::calibration::Calibration;
use crate::history::add_user;
use crate::spending::{Spending, TurnSpending, costs_nothing};
use crate::traces::Traces;
use crate::work_note::WorkNote;
use budget::Context;
use event::Events;
use guard::LoopGuard;
use results::Facts;

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
    /// What became of the conversation's older part, when the person has not been told yet.
    pub(crate) compaction_note: Option<&'static str>,
    /// Whether the latest answer of the model was cut off by its length limit.
    pub(crate) cut: bool,
    /// Whether the provider broke the latest answer off because of what it says.
    pub(crate) declined: bool,
}

impl Progress {
    /// One line about how the answer came about, when there is something to say.
    pub(crate) fn user_note(&self) -> Option<String> {
        let cut = self
            .cut
            .then(|| "The answer was cut off by the model's length limit.".to_owned());
        let declined = self.declined.then(|| {
            "The provider stopped this answer because of its content; what is shown is not all of it."
                .to_owned()
        });
        let compaction = self.compaction_note.map(str::to_owned);
        let notes: Vec<String> = self
            .fallback_note
            .iter()
            .cloned()
            .chain(cut)
            .chain(declined)
            .chain(compaction)
            .collect();
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
    pub(crate) trace: &'a dyn TraceSink,
    pub(crate) calibration: &'a Calibration,
    pub(crate) compaction: Compaction,
    pub(crate) scope: TurnScope,
    pub(crate) events: &'a Events,
    pub(crate) max_iterations: u32,
}

impl TurnLoop<'_> {
    /// Runs to the final text, which may be empty when the reply was not words.
    pub(crate) async fn run(
        &mut self,
        routes: &Arc<[Route]>,
        mut request: ChatRequest,
        progress: &mut Progress,
    ) -> Result<String, TurnFailure> {
        let mut guard = LoopGuard::default();
        let mut call_ids = HashSet::new();
        let mut context = Context::new(&request);
        let (mut response, index) = self.first_call(routes, &request, progress).await?;
        let route = routes
            .get(index)
            .expect("the provider answers with the index of one of the routes it was given");
        context.measured(
            route,
            &response.usage,
            &request,
            self.bytes_per_token(route),
        );
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
                        &mut context,
                        "You have reached the step limit.",
                        cap,
                        progress,
                    )
                    .await;
            }
            let step = self
                .step(route, &message, truncated, &mut guard, progress)
                .await?;
            if step.ends_turn {
                return Ok(String::new());
            }
            request.messages.push(Message::Assistant(message));
            request
                .messages
                .extend(step.results.into_iter().map(Message::Tool));
            self.take_in(&mut request, &mut context, step.facts);
            if let Some(reason) = step.killed {
                let failure = TurnFailure::Loop(reason);
                return self
                    .closing_answer(
                        route,
                        request,
                        &mut context,
                        "You repeated one call without a change and were stopped.",
                        failure,
                        progress,
                    )
                    .await;
            }
            response = self
                .continue_on(route, &mut request, &mut context, progress)
                .await?;
        }
    }

    /// Notes the results that stand at the end of the request, and tells the model how to read on
    /// where it sees only the beginning of one.
    fn take_in(&mut self, request: &mut ChatRequest, context: &mut Context, facts: Vec<Facts>) {
        let first = request.messages.len() - facts.len();
        let cut: Vec<usize> = (first..)
            .zip(&facts)
            .filter(|(_, facts)| facts.is_cut())
            .map(|(at, _)| at)
            .collect();
        context.add_step(&request.messages, facts);
        if !cut.is_empty() && self.offer_recall(request, context) {
            for position in cut {
                if let Some(Message::Tool(message)) = request.messages.get_mut(position) {
                    let how = format!(
                        "\n[the rest is kept: {} with call_id {} and an offset or a query reads on]",
                        recall::NAME,
                        message.call_id
                    );
                    message.text.push_str(&how);
                }
            }
        }
        context.forget_old_images(&mut request.messages);
    }

    /// One last call without tools. Whatever prevents it, `failure` is what the turn ends with,
    /// unless the turn was stopped.
    async fn closing_answer(
        &mut self,
        route: &Route,
        mut request: ChatRequest,
        context: &mut Context,
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
        match self
            .continue_on(route, &mut request, context, progress)
            .await
        {
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
        let (response, index) = self
            .unless_stopped(call)
            .await?
            .map_err(|error| TurnFailure::Provider(Box::new(error)))?;
        let route = &routes[index];
        progress.provider = Some(route.provider);
        if index > 0 {
            progress.fallback_note = Some(self.fallback_note(&routes[0], route, request));
        }
        self.after_call(route, request, &response, progress);
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

    /// Continues within the budget. A call that is refused for length is made again with less, as
    /// long as nobody has seen any of its answer.
    async fn continue_on(
        &mut self,
        route: &Route,
        request: &mut ChatRequest,
        context: &mut Context,
        progress: &mut Progress,
    ) -> Result<ChatResponse, TurnFailure> {
        self.hold_budget(route, request, context, progress).await?;
        self.before_call(std::slice::from_ref(route), progress)
            .await?;
        let mut round = 0;
        loop {
            let mut events = Noticing {
                inner: self.events.clone(),
                seen: false,
            };
            let call = self.providers.continue_on(
                route,
                request,
                &mut events,
                &self.scope.ids,
                &self.scope.cancel,
            );
            let outcome = self.unless_stopped(call).await?;
            match outcome {
                Ok(response) => {
                    self.after_call(route, request, &response, progress);
                    context.measured(route, &response.usage, request, self.bytes_per_token(route));
                    return Ok(response);
                }
                Err(error) if events.seen && error.kind == ErrorKind::ContextLength => {
                    return Err(TurnFailure::Overflow(Box::new(error)));
                }
                Err(error) => {
                    self.recover(route, request, context, round, error, progress)
                        .await?;
                    round += 1;
                }
            }
        }
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

    fn after_call(
        &self,
        route: &Route,
        request: &ChatRequest,
        response: &ChatResponse,
        progress: &mut Progress,
    ) {
        let prompt = self.account(route, &response.usage, progress);
        progress.tokens.context = progress.tokens.context.max(prompt);
        self.calibration
            .learn(route, request, response.usage.prompt_tokens);
        progress.model = Some(response.model.clone());
        progress.cut = response.truncated;
        progress.declined = response.declined.is_some();
        self.events.send(&TurnEvent::ProviderResponse {
            model: response.model.clone(),
        });
    }

    /// Adds what a call cost, and gives back its prompt's tokens.
    fn account(&self, route: &Route, usage: &Usage, progress: &mut Progress) -> u64 {
        let most = route
            .context_window
            .saturating_mul(MAX_REPORTED_WINDOWS)
            .min(MAX_REPORTED_TOKENS);
        let bounded = |tokens: u64| tokens.min(most);
        let tokens = &mut progress.tokens;
        tokens.prompt += bounded(usage.prompt_tokens);
        tokens.completion += bounded(usage.completion_tokens);
        tokens.total += bounded(usage.total_tokens);
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
        bounded(usage.prompt_tokens)
    }

    fn traces(&self) -> Traces<'_> {
        Traces::new(self.trace, &self.scope.ids)
    }

    /// The call's outcome, or `Stopped` as soon as the turn is cancelled: dropping the call drops
    /// the request.
    async fn unless_stopped<T>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Result<T, ProviderError>, TurnFailure> {
        let outcome = tokio::select! {
            biased;
            () = self.scope.cancel.cancelled() => return Err(TurnFailure::Stopped),
            outcome = call => outcome,
        };
        match outcome {
            Err(error) if error.kind == ErrorKind::Cancelled => Err(TurnFailure::Stopped),
            outcome => Ok(outcome),
        }
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
                let prepared = self.dispatcher.prepare(&self.scope, call.clone());
                let outcome = self.dispatcher.decline(
                    &self.scope,
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

/// Passes events on and remembers whether anybody could have seen any of the answer.
struct Noticing {
    inner: Events,
    seen: bool,
}

impl EventSink for Noticing {
    fn emit(&mut self, event: ModelEvent) {
        if let ModelEvent::TextDelta(text) | ModelEvent::ReasoningDelta(text) = &event {
            self.seen |= !text.is_empty() && self.inner.is_visible();
        }
        self.inner.emit(event);
    }

    fn is_visible(&self) -> bool {
        self.inner.is_visible()
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
