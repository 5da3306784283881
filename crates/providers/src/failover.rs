//! Making a call: again on the same route, then on the next, and never after anybody has seen
//! part of an answer.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use fermix_types::TraceIds;
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorKind, ProviderError};
use crate::providers::{Providers, Route};
use crate::request::{Calls, ChatRequest, ChatResponse, EventSink, ModelEvent, ProviderId};
use crate::retry::{self, Backoff, Courtesy};
use crate::trace;

impl Providers {
    /// A turn's first call. Retries a route, then fails over to the next; the index says which
    /// route answered, so that the owner can be told. Only this call may change the route.
    ///
    /// Routes whose circuit is open are passed over, unless no other is left.
    pub async fn first_call(
        &self,
        routes: &[Route],
        request: &ChatRequest,
        events: &mut dyn EventSink,
        ids: &TraceIds,
        cancel: &CancellationToken,
    ) -> Result<(ChatResponse, usize), ProviderError> {
        let candidates = self.candidates(routes, request, ids)?;
        let mut tried: Vec<ProviderError> = Vec::new();
        for (position, &index) in candidates.iter().enumerate() {
            let route = &routes[index];
            let mut watched = Watched {
                inner: events,
                seen: false,
            };
            let next = candidates.get(position + 1).map(|next| &routes[*next]);
            let attempt = Attempt {
                route,
                request,
                ids,
                cancel,
            };
            match self
                .ask(
                    attempt,
                    self.first_call,
                    retry::is_retried,
                    next.is_some(),
                    &mut watched,
                )
                .await
            {
                Ok(response) => return Ok((response, index)),
                Err(error) => {
                    let may_move_on =
                        !watched.seen && retry::fails_over(&error) && !cancel.is_cancelled();
                    let Some(next) = next.filter(|_| may_move_on) else {
                        return Err(combined(tried, error));
                    };
                    self.trace.record(trace::failover(ids, route, next, &error));
                    tried.push(error);
                }
            }
        }
        Err(combined_without_answer(tried))
    }

    /// A later call of the same run, on the route that answered the first.
    pub async fn continue_on(
        &self,
        route: &Route,
        request: &ChatRequest,
        events: &mut dyn EventSink,
        ids: &TraceIds,
        cancel: &CancellationToken,
    ) -> Result<ChatResponse, ProviderError> {
        if request.has_images() && !route.vision {
            return Err(no_images(route));
        }
        let mut watched = Watched {
            inner: events,
            seen: false,
        };
        let attempt = Attempt {
            route,
            request,
            ids,
            cancel,
        };
        self.ask(
            attempt,
            self.continuation,
            retry::is_reissued,
            false,
            &mut watched,
        )
        .await
    }

    /// The routes worth asking, in order.
    fn candidates(
        &self,
        routes: &[Route],
        request: &ChatRequest,
        ids: &TraceIds,
    ) -> Result<Vec<usize>, ProviderError> {
        let Some(first) = routes.first() else {
            let words = "no provider is configured";
            return Err(ProviderError::new(
                ErrorKind::Auth,
                ProviderId::Offline,
                "none",
                words,
            ));
        };
        let needs_vision = request.has_images();
        let able: Vec<usize> = (0..routes.len())
            .filter(|index| !needs_vision || routes[*index].vision)
            .collect();
        if able.is_empty() {
            return Err(no_images(first));
        }
        let (open, closed): (Vec<usize>, Vec<usize>) = able.iter().partition(|index| {
            self.breaker
                .is_open(routes[**index].provider, &routes[**index].model)
        });
        if closed.is_empty() {
            return Ok(able);
        }
        for index in open {
            self.trace.record(trace::skipped(ids, &routes[index]));
        }
        Ok(closed)
    }

    /// Asks one route until it answers, fails for good, or has been asked often enough.
    async fn ask(
        &self,
        attempt: Attempt<'_>,
        backoff: Backoff,
        is_worth_another: fn(&ProviderError) -> bool,
        has_next: bool,
        events: &mut Watched<'_>,
    ) -> Result<ChatResponse, ProviderError> {
        let Attempt {
            route, ids, cancel, ..
        } = attempt;
        let request = attempt.for_route();
        let mut delays = backoff.delays();
        let mut courtesy = Courtesy::new(has_next);
        let mut number = 1;
        loop {
            let started = Instant::now();
            let outcome = route.adapter.chat(&request, events, cancel).await;
            self.trace.record(trace::llm_call(
                ids,
                route,
                &request,
                number,
                started.elapsed(),
                &outcome,
            ));
            self.breaker
                .note(route.provider, &route.model, outcome.as_ref().err());
            let error = match outcome {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if events.seen || !is_worth_another(&error) {
                return Err(error);
            }
            // With somewhere else to go, a route whose circuit has just opened is not worth a wait.
            if has_next && self.breaker.is_open(route.provider, &route.model) {
                return Err(error);
            }
            let Some(wait) = delays
                .next()
                .and_then(|planned| courtesy.wait(&error, planned))
            else {
                return Err(error);
            };
            if !retry::sleep(wait, cancel).await {
                return Err(ProviderError::cancelled(route.provider, &route.model));
            }
            number += 1;
        }
    }
}

#[derive(Clone, Copy)]
struct Attempt<'a> {
    route: &'a Route,
    request: &'a ChatRequest,
    ids: &'a TraceIds,
    cancel: &'a CancellationToken,
}

impl<'a> Attempt<'a> {
    /// The request as this route takes it; the caller's own when nothing differs.
    fn for_route(&self) -> Cow<'a, ChatRequest> {
        let (route, request) = (self.route, self.request);
        let effort = request.effort.or(route.effort);
        // The Messages API refuses a conversation that holds calls and comes without tools.
        let keeps_forbidden = route.provider == ProviderId::Anthropic;
        let has_use = route.tools && (request.calls == Calls::Allowed || keeps_forbidden);
        let drops_tools = !has_use && !request.tools.is_empty();
        if request.model == route.model && request.effort == effort && !drops_tools {
            return Cow::Borrowed(request);
        }
        let mut changed = request.clone();
        changed.model.clone_from(&route.model);
        changed.effort = effort;
        if drops_tools {
            changed.tools = Arc::new([]);
        }
        Cow::Owned(changed)
    }
}

/// Passes events on and remembers whether any of them could be seen.
struct Watched<'a> {
    inner: &'a mut dyn EventSink,
    seen: bool,
}

impl EventSink for Watched<'_> {
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

fn no_images(route: &Route) -> ProviderError {
    let words = format!(
        "the model takes no images; if it does, set `vision = true` in [fermix_core.models.\"{}\"]",
        route.model
    );
    ProviderError::new(
        ErrorKind::ImageUnsupported,
        route.provider,
        &route.model,
        words,
    )
}

/// The last error, with one line for each route that was tried before it.
fn combined(tried: Vec<ProviderError>, mut last: ProviderError) -> ProviderError {
    last.details.tried = tried.iter().map(ProviderError::summary).collect();
    last
}

fn combined_without_answer(mut tried: Vec<ProviderError>) -> ProviderError {
    let last = tried.pop().unwrap_or_else(|| {
        ProviderError::new(
            ErrorKind::Auth,
            ProviderId::Offline,
            "none",
            "no provider is configured",
        )
    });
    combined(tried, last)
}
