//! Which failures are worth another try, and how long to wait before it.
//!
//! | Kind | same route, first call | next route | continuation |
//! |---|---|---|---|
//! | timeout | yes | yes | only before any byte |
//! | transport closed, network | yes | yes | yes |
//! | connection unavailable | yes | no | yes |
//! | provider unavailable | yes | yes | yes |
//! | transport | no | yes | no |
//! | rate limit | only after a short `Retry-After` | yes | only after a short `Retry-After` |
//! | quota | no | yes | no |
//! | sign-in refused | no | unless 403 | no |
//! | API key refused | no | no | no |
//! | no images | no | yes | no |
//! | anything else | no | no | no |
//!
//! A server may ask for a wait in `Retry-After`. It gets 30 s of the call's time at most, and 2 s
//! where another route could answer meanwhile.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use fermix_net::Stage;
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorKind, ProviderError};

/// The longest wait a server may ask of somebody who is waiting for an answer.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// The same while another route could answer at once.
pub(crate) const MAX_RETRY_AFTER_WITH_NEXT: Duration = Duration::from_secs(2);

/// How often and how patiently a call is made again. Each delay doubles and is jittered upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub delay: Duration,
    /// How many further tries there are.
    pub times: usize,
}

impl Backoff {
    /// A turn's first call: 250, 500 and 1,000 ms.
    pub const FIRST_CALL: Self = Self {
        delay: Duration::from_millis(250),
        times: 3,
    };
    /// A continuation, which has work to lose: 2 and 4 s.
    pub const CONTINUATION: Self = Self {
        delay: Duration::from_secs(2),
        times: 2,
    };

    pub(crate) fn delays(self) -> impl Iterator<Item = Duration> + Send {
        ExponentialBuilder::default()
            .with_factor(2.0)
            .with_min_delay(self.delay)
            .without_max_delay()
            .with_max_times(self.times)
            .with_jitter()
            .build()
    }
}

/// Whether the same route is asked again before any other.
pub(crate) fn is_retried(error: &ProviderError) -> bool {
    match error.kind {
        ErrorKind::Timeout
        | ErrorKind::TransportClosed
        | ErrorKind::Network
        | ErrorKind::ConnectionUnavailable
        | ErrorKind::ProviderUnavailable => true,
        ErrorKind::RateLimit => error.retry_after.is_some(),
        ErrorKind::Auth
        | ErrorKind::Quota
        | ErrorKind::ContextLength
        | ErrorKind::ImageUnsupported
        | ErrorKind::EmptyResponse
        | ErrorKind::Provider
        | ErrorKind::Transport
        | ErrorKind::Cancelled => false,
    }
}

/// Whether the next route is asked.
pub(crate) fn fails_over(error: &ProviderError) -> bool {
    match error.kind {
        ErrorKind::Timeout
        | ErrorKind::TransportClosed
        | ErrorKind::Network
        | ErrorKind::ProviderUnavailable
        | ErrorKind::Transport
        | ErrorKind::RateLimit
        | ErrorKind::Quota
        | ErrorKind::ImageUnsupported => true,
        // A key that does not work is a broken setup, and a fallback would hide it.
        ErrorKind::Auth => error.signed_in && error.status != Some(403),
        // Every provider shares the dead network.
        ErrorKind::ConnectionUnavailable
        | ErrorKind::ContextLength
        | ErrorKind::EmptyResponse
        | ErrorKind::Provider
        | ErrorKind::Cancelled => false,
    }
}

/// Whether a continuation is sent again.
pub(crate) fn is_reissued(error: &ProviderError) -> bool {
    match error.kind {
        ErrorKind::Timeout => error.stage == Stage::BeforeResponse,
        _ => is_retried(error),
    }
}

/// What one call may still wait because a server asked for it, all tries together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Courtesy(Duration);

impl Courtesy {
    /// Little when another route is there to ask, and [`MAX_RETRY_AFTER`] when none is.
    pub(crate) fn new(has_next: bool) -> Self {
        Self(if has_next {
            MAX_RETRY_AFTER_WITH_NEXT
        } else {
            MAX_RETRY_AFTER
        })
    }

    /// How long to wait before the next try: `planned`, or longer when the server asked for it.
    /// Nothing when it asked for more than is left.
    pub(crate) fn wait(&mut self, error: &ProviderError, planned: Duration) -> Option<Duration> {
        let asked = error.retry_after.unwrap_or_default();
        self.0 = self.0.checked_sub(asked)?;
        Some(planned.max(asked))
    }
}

/// Sleeps, and says whether the sleep ran its course.
pub(crate) async fn sleep(duration: Duration, cancel: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = cancel.cancelled() => false,
        () = tokio::time::sleep(duration) => true,
    }
}

#[cfg(test)]
mod tests;
