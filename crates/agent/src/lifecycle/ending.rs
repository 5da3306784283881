//! The end of a turn: deliver, store, report, in an order in which a stop and a delivery cannot
//! both win.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use fermix_store::{Delivered, LogError, ReplyContent, TokenCounts, TurnRecord};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::{End, Lifecycle, Standing, Turn, panic_words};
use crate::agent::is_blank;
use crate::report::{TurnReport, TurnStatus};
use crate::traces::Traces;
use crate::turn::TurnFailure;

/// How long a channel may take to deliver one answer.
pub(crate) const DELIVERY_DEADLINE: Duration = Duration::from_secs(60);
/// How long a delivery that has begun is waited for once its turn was stopped. Most are done by
/// then, and whoever stopped the turn is not kept waiting by one that hangs.
const DELIVERY_GRACE: Duration = Duration::from_secs(2);

impl Lifecycle {
    /// Delivers and stores the final text, or the reply without words that stands in its place.
    pub(super) async fn finish(
        &self,
        turn: &Turn<'_>,
        standing: &mut Standing,
        text: &str,
    ) -> Result<End, TurnFailure> {
        if turn.cancel.is_cancelled() || !self.is_fresh(turn) {
            return Err(TurnFailure::Stopped);
        }
        let (reacted, attached) = (standing.progress.reacted, standing.progress.attached);
        if is_blank(text) && (reacted || attached) {
            standing.delivered = true;
            let what = match (reacted, attached) {
                (true, true) => Delivered::ReactionAndAttachment,
                (true, false) => Delivered::Reaction,
                (false, _) => Delivered::Attachment,
            };
            self.commit(turn, standing, ReplyContent::Delivered(what))
                .await?;
            return Ok(End::Acted);
        }
        if is_blank(text) {
            return Err(TurnFailure::Empty);
        }
        let note = standing.progress.user_note();
        self.deliver(turn, standing, text, note.as_deref(), &turn.cancel)
            .await?;
        self.commit(turn, standing, ReplyContent::Text(text.to_owned()))
            .await?;
        Ok(End::Answered(text.to_owned()))
    }

    /// Whether the turn was not stopped and its conversation has moved to no other.
    fn is_fresh(&self, turn: &Turn<'_>) -> bool {
        self.mailbox.is_fresh(turn.key, &turn.pending.turn_id)
    }

    /// Delivers, and gives up a little after `cancel`.
    async fn deliver(
        &self,
        turn: &Turn<'_>,
        standing: &mut Standing,
        words: &str,
        note: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<(), TurnFailure> {
        let delivery = AssertUnwindSafe(turn.pending.reply.deliver(words, note)).catch_unwind();
        let abandoned = async {
            cancel.cancelled().await;
            tokio::time::sleep(DELIVERY_GRACE).await;
        };
        let delivered = tokio::select! {
            biased;
            delivered = tokio::time::timeout(DELIVERY_DEADLINE, delivery) => delivered,
            () = abandoned => {
                return Err(if turn.stop.is_cancelled() {
                    TurnFailure::Stopped
                } else {
                    // The words may have arrived or not, so no others are sent after them.
                    TurnFailure::Undelivered("the time was up while the channel took it".to_owned())
                });
            }
        };
        match delivered {
            Ok(Ok(Ok(()))) => {
                standing.delivered = true;
                Ok(())
            }
            Ok(Ok(Err(error))) => Err(TurnFailure::Undelivered(error.to_string())),
            Ok(Err(panic)) => Err(TurnFailure::Undelivered(format!(
                "the channel crashed: {}",
                panic_words(&*panic)
            ))),
            Err(_) => Err(TurnFailure::Undelivered(format!(
                "the channel took longer than {} s",
                DELIVERY_DEADLINE.as_secs()
            ))),
        }
    }

    /// Stores what was delivered, unless a stop came in between: then the turn is a stopped one.
    async fn commit(
        &self,
        turn: &Turn<'_>,
        standing: &Standing,
        content: ReplyContent,
    ) -> Result<(), TurnFailure> {
        if !self.mailbox.commit(turn.key, &turn.pending.turn_id) {
            return Err(TurnFailure::Stopped);
        }
        let Some(request) = standing.request else {
            return Err(TurnFailure::Store("the request has no id".to_owned()));
        };
        self.conversations
            .append_assistant(turn.key, request, content, self.record(standing))
            .await
            .map_err(TurnFailure::of_log)?;
        Ok(())
    }

    /// Closes the turn: says what went wrong, marks the request, writes the row, reports.
    pub(super) async fn conclude(
        &self,
        turn: &Turn<'_>,
        standing: &mut Standing,
        end: Result<End, TurnFailure>,
    ) -> TurnReport {
        let end = match end {
            // Whatever else went wrong: who stopped a turn wants to hear no more of it.
            Err(failure) if turn.stop.is_cancelled() => Err(match failure {
                failure @ (TurnFailure::TimedOut(_) | TurnFailure::Crashed(_)) => failure,
                _ => TurnFailure::Stopped,
            }),
            end => end,
        };
        let (mut status, mut response) = (TurnStatus::Completed, String::new());
        match &end {
            Ok(End::Answered(text)) => response.clone_from(text),
            Ok(End::Acted) => {}
            Ok(End::Duplicate) => status = TurnStatus::Duplicate,
            Err(failure) => {
                status = failure.status();
                // The person is told below and the turn's row says why.
                tracing::info!(conversation = %turn.key, error = %failure, "a turn ended without an answer");
                if !standing.delivered
                    && self.is_fresh(turn)
                    && let Some(words) =
                        failure.sentence(turn.trust(), turn.pending.caller.is_within_job())
                {
                    // The length limit may be why nothing came.
                    let note = match failure {
                        TurnFailure::Empty => standing.progress.user_note(),
                        _ => None,
                    };
                    let said = self
                        .deliver(turn, standing, &words, note.as_deref(), &turn.stop)
                        .await;
                    if let Err(error) = said {
                        tracing::warn!(conversation = %turn.key, %error, "a failure could not be reported");
                    }
                    response = words;
                }
            }
        }
        self.mark_unfinished(turn, standing).await;
        let progress = &standing.progress;
        let report = TurnReport {
            response,
            note: progress.user_note(),
            session_id: standing.session_id.clone(),
            turn_id: turn.pending.turn_id.clone(),
            iterations: progress.iterations,
            tokens: progress.tokens,
            tool_calls: progress.tool_calls,
            tool_failures: progress.tool_failures,
            provider: progress
                .provider
                .map(|provider| provider.as_str().to_owned()),
            model: progress.model.clone(),
            status,
        };
        let ids = turn.ids(standing);
        Traces::new(&*self.trace, &ids).ended(
            &report,
            progress.fallback_note.is_some(),
            end.as_ref().err(),
            turn.started.elapsed(),
        );
        report
    }

    /// Marks the request as not finished if it has no end. The store decides that; asking it about
    /// a request that was answered changes nothing.
    async fn mark_unfinished(&self, turn: &Turn<'_>, standing: &Standing) {
        let Some(request) = standing.request else {
            return;
        };
        let marked = self
            .conversations
            .append_unfinished_marker(turn.key, request, self.record(standing))
            .await;
        if let Err(error) = marked
            && !matches!(error, LogError::AlreadyAnswered(_))
        {
            tracing::warn!(conversation = %turn.key, %error, "an unfinished request was not marked");
        }
    }

    fn record(&self, standing: &Standing) -> TurnRecord {
        let progress = &standing.progress;
        let reported = progress.model.is_some();
        TurnRecord {
            at: self.clock.now(),
            work_note: progress.note.render(),
            provider: progress
                .provider
                .map(|provider| provider.as_str().to_owned()),
            model: progress.model.clone(),
            tokens: TokenCounts {
                prompt: reported.then_some(progress.tokens.prompt),
                completion: reported.then_some(progress.tokens.completion),
                cached: progress.tokens.cached,
                cache_creation: progress.tokens.cache_creation,
            },
            // No prompt is empty: nothing was reported.
            peak_tokens: Some(progress.tokens.context).filter(|peak| *peak > 0),
        }
    }
}
