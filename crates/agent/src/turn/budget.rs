//! Holds a run within its route's window.
//!
//! Before each continuation the next prompt is estimated from what the provider reported last. When
//! it would pass the budget, the cheapest reduction that suffices is taken: what is said twice, what
//! was read again later, then digests of older results, oldest step first. When a provider refuses
//! for length all the same, more is reduced and the provider call alone is made again; no tool runs
//! a second time.
//!
//! Only texts of results change. Which items there are, and their order, never does.

use fermix_providers::{ChatRequest, ErrorKind, ProviderError, Route, Usage};
use fermix_types::Message;

use super::digest::{Digest, Source, TASK};
use super::results::{Facts, Results, Saved, State, text_of, unframed};
use super::{Progress, TurnFailure, TurnLoop, recall};
use crate::calibration::request_bytes;
use crate::spending::costs_nothing;

/// The step that is being answered, and this many before it, stay as they are.
const RAW_STEPS_BEFORE: usize = 2;
/// A shorter result is not worth a digest, in bytes.
const SMALLEST_DIGESTED: usize = 8_000;
/// What a result costs besides its text, in bytes.
const RESULT_OVERHEAD: usize = 200;
/// What an image costs, about, in tokens.
const IMAGE_TOKENS: f64 = 1_600.0;
/// How many of the images that tools returned stay in view. The computer-use tool shows a screen
/// after each action; older screens are history.
const MAX_IMAGES: usize = 3;
/// How often a call that was refused for length is made again.
const MAX_ROUNDS: usize = 3;
/// What a round aims at, as a share of the estimate that turned out to be too long.
const ROUND_AIM: f64 = 0.6;

/// What a run keeps to stay within its window.
#[derive(Default)]
pub(super) struct Context {
    pub(super) results: Results,
    step: usize,
    /// What the next prompt holds for certain, in tokens.
    tokens: f64,
    /// What was added to it since, or taken away, in bytes.
    bytes: f64,
    /// What the run is about.
    task: String,
}

/// How far a reduction may go, in steps before the one that is being answered.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Reach {
    youngest: usize,
}

impl Context {
    pub(super) fn new(request: &ChatRequest) -> Self {
        let asked = request
            .messages
            .iter()
            .rev()
            .find_map(|message| match message {
                Message::User(user) => Some(user.text.as_str()),
                Message::Assistant(_) | Message::Tool(_) => None,
            });
        // The end of a long message is where the question usually stands.
        let task = fermix_types::text::suffix(asked.unwrap_or_default(), TASK);
        Self {
            task: task.to_owned(),
            ..Self::default()
        }
    }

    /// Takes in what a provider said about the request it answered. A prompt of several windows
    /// cannot have been answered, so a report of one is none.
    pub(super) fn measured(
        &mut self,
        route: &Route,
        usage: &Usage,
        request: &ChatRequest,
        bytes_per_token: f64,
    ) {
        let most = route.context_window.saturating_mul(2);
        self.bytes = 0.0;
        self.tokens = if (1..=most).contains(&usage.prompt_tokens) {
            (usage.prompt_tokens + usage.completion_tokens) as f64
        } else {
            request_bytes(request) as f64 / bytes_per_token + usage.completion_tokens as f64
        };
    }

    /// Takes in the results of a step, which stand at the end of `messages`.
    pub(super) fn add_step(&mut self, messages: &[Message], facts: Vec<Facts>) {
        self.step += 1;
        let first = messages.len() - facts.len();
        for (offset, facts) in facts.into_iter().enumerate() {
            let position = first + offset;
            if let Some(Message::Tool(message)) = messages.get(position) {
                self.bytes += (message.text.len() + RESULT_OVERHEAD) as f64;
                self.tokens += message.images.len() as f64 * IMAGE_TOKENS;
                self.results.add(position, self.step, message, facts);
            }
        }
    }

    fn estimate(&self, bytes_per_token: f64) -> f64 {
        self.tokens + self.bytes / bytes_per_token
    }

    /// Leaves the newest images only. What was read off the others holds no more.
    pub(super) fn forget_old_images(&mut self, messages: &mut [Message]) {
        let mut left = MAX_IMAGES;
        for message in messages.iter_mut().rev() {
            let Message::Tool(message) = message else {
                continue;
            };
            let count = message.images.len();
            if count == 0 {
                continue;
            }
            if count <= left {
                left -= count;
                continue;
            }
            // The images of one result stay or go together: their text speaks of all of them.
            left = 0;
            message.images.clear();
            let marker = format!(
                "[The {} of this result {} no longer shown. Coordinates and element ids in its text do not hold any more.]",
                if count == 1 { "image" } else { "images" },
                if count == 1 { "is" } else { "are" },
            );
            if !message.text.is_empty() {
                message.text.push('\n');
            }
            message.text.push_str(&marker);
            self.tokens -= count as f64 * IMAGE_TOKENS;
            self.bytes += marker.len() as f64;
        }
    }

    /// The results that may be digested, oldest first.
    fn candidates(&self, messages: &[Message], reach: Reach) -> Vec<usize> {
        let entries = self.results.entries.iter().enumerate();
        entries
            .filter(|(_, entry)| {
                entry.state == State::Raw
                    && entry.step + reach.youngest <= self.step
                    && text_of(messages, entry.position)
                        .is_some_and(|text| text.len() > SMALLEST_DIGESTED)
            })
            .map(|(index, _)| index)
            .collect()
    }
}

/// What a reduction came to.
#[derive(Default)]
struct Reduction {
    is_smaller: bool,
    has_failed: bool,
}

impl TurnLoop<'_> {
    pub(super) fn bytes_per_token(&self, route: &Route) -> f64 {
        self.calibration.bytes_per_token(route)
    }

    /// Brings the next prompt within the budget as far as that is possible.
    pub(super) async fn hold_budget(
        &mut self,
        route: &Route,
        request: &mut ChatRequest,
        context: &mut Context,
        progress: &mut Progress,
    ) -> Result<(), TurnFailure> {
        let budget = route.context_window as f64 * self.compaction.threshold;
        if budget <= 0.0 || context.estimate(self.bytes_per_token(route)) <= budget {
            return Ok(());
        }
        let reach = Reach {
            youngest: RAW_STEPS_BEFORE + 1,
        };
        self.reduce(route, request, context, progress, reach, budget)
            .await?;
        Ok(())
    }

    /// Reduces until the estimate is at most `aim`, or nothing within `reach` is left.
    async fn reduce(
        &mut self,
        route: &Route,
        request: &mut ChatRequest,
        context: &mut Context,
        progress: &mut Progress,
        reach: Reach,
        aim: f64,
    ) -> Result<Reduction, TurnFailure> {
        let mut reduction = Reduction::default();
        let saved = context.results.reduce_freely(&mut request.messages);
        if saved != Saved::default() {
            context.bytes -= saved.bytes as f64;
            reduction.is_smaller |= saved.bytes > 0;
            self.traces()
                .reduced(saved.duplicates, saved.superseded, saved.bytes);
        }
        // The embedded assistant is no language model: it has nothing to shorten a text with.
        if costs_nothing(route.provider) {
            return Ok(reduction);
        }
        for index in context.candidates(&request.messages, reach) {
            if context.estimate(self.bytes_per_token(route)) <= aim {
                break;
            }
            match self
                .digest_entry(route, request, context, index, progress)
                .await?
            {
                Some(saved) => {
                    context.bytes -= saved as f64;
                    reduction.is_smaller |= saved > 0;
                }
                // The next would most likely fail in the same way, and each costs a call.
                None => {
                    reduction.has_failed = true;
                    break;
                }
            }
        }
        Ok(reduction)
    }

    /// Puts a digest in the place of one result and says how many bytes that saved; `None` when
    /// the model could not be asked.
    async fn digest_entry(
        &mut self,
        route: &Route,
        request: &mut ChatRequest,
        context: &mut Context,
        index: usize,
        progress: &mut Progress,
    ) -> Result<Option<usize>, TurnFailure> {
        let entry = &context.results.entries[index];
        let Some(text) = text_of(&request.messages, entry.position) else {
            return Ok(Some(0));
        };
        let text = unframed(text);
        let source = Source {
            call_id: &entry.call_id,
            tool: &entry.tool,
            text,
            task: &context.task,
        };
        let digest = match self.digest(route, &source, progress).await? {
            Digest::Made(digest) => digest,
            Digest::Failed => return Ok(None),
            Digest::NoShorter => {
                context.results.entries[index].state = State::Incompressible;
                return Ok(Some(0));
            }
        };
        let (call_id, bytes) = (entry.call_id.clone(), text.len());
        let digest = if entry.external {
            fermix_capability::untrusted::frame(&entry.tool, &digest, &self.scope.frame)
        } else {
            digest
        };
        let can_recall = self.offer_recall(request, context);
        let how = if can_recall {
            format!(
                "; {} with call_id {call_id} reads the original",
                recall::NAME
            )
        } else {
            String::new()
        };
        let shortened = format!("[Fermix shortened this result of {bytes} bytes{how}.]\n{digest}");
        Ok(Some(context.results.replace(
            index,
            &mut request.messages,
            shortened,
        )))
    }

    /// Offers the tool that reads originals, once there is one. Says whether the run has it.
    pub(super) fn offer_recall(&mut self, request: &mut ChatRequest, context: &Context) -> bool {
        if self.scope.view.find(recall::NAME).is_some() {
            return true;
        }
        let view = recall::capability(context.results.originals.clone())
            .map_err(|error| tracing::error!(%error, "the recall tool is not valid"))
            .ok()
            .and_then(|local| self.scope.view.with_local(local));
        let Some(view) = view else { return false };
        self.scope.view = std::sync::Arc::new(view);
        request.tools = std::sync::Arc::clone(self.scope.view.definitions());
        true
    }

    /// What is to be done about a refused continuation: `Ok` to make the call again.
    pub(super) async fn recover(
        &mut self,
        route: &Route,
        request: &mut ChatRequest,
        context: &mut Context,
        round: usize,
        error: ProviderError,
        progress: &mut Progress,
    ) -> Result<(), TurnFailure> {
        if error.kind != ErrorKind::ContextLength {
            return Err(TurnFailure::Provider(Box::new(error)));
        }
        if round >= MAX_ROUNDS || context.results.entries.is_empty() {
            return Err(TurnFailure::Overflow(Box::new(error)));
        }
        // The estimate was wrong, whatever it said: what counts is to get well below it.
        let estimate = context.estimate(self.bytes_per_token(route));
        let aim = if round + 1 == MAX_ROUNDS {
            0.0
        } else {
            estimate * ROUND_AIM
        };
        let mut has_failed = false;
        let mut is_smaller = false;
        for youngest in [RAW_STEPS_BEFORE + 1, 1, 0] {
            let reach = Reach { youngest };
            let reduction = self
                .reduce(route, request, context, progress, reach, aim)
                .await?;
            is_smaller |= reduction.is_smaller;
            has_failed |= reduction.has_failed;
            if has_failed || (is_smaller && context.estimate(self.bytes_per_token(route)) <= aim) {
                break;
            }
        }
        self.traces().recovery(round + 1, is_smaller);
        match (is_smaller, has_failed) {
            (true, _) => Ok(()),
            (false, true) => Err(TurnFailure::RecoveryFailed(Box::new(error))),
            (false, false) => Err(TurnFailure::Overflow(Box::new(error))),
        }
    }
}
