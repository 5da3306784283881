//! How long a silent server is waited for.
//!
//! | Server | to the first of the answer | between two pieces of it | at effort `xhigh` or `max` |
//! |---|---|---|---|
//! | a vendor's, or any not on this machine | 240 s | 60 s | 120 s |
//! | Ollama, and a compatible server on loopback | 300 s | 300 s | 300 s |
//!
//! A model that thinks may be silent at first, even after the head of the response, so the shorter
//! window only begins with the answer. A local server may have to load its model, and shares the
//! machine with everything else. Connecting takes at most 10 s, a whole exchange at most 20 min.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fermix_net::{NetError, NetErrorKind, Stage, Timeouts};
use fermix_types::Effort;
use futures_util::{Stream, StreamExt};
use url::{Host, Url};

use crate::request::ProviderId;

const CONNECT: Duration = Duration::from_secs(10);
/// A stream ends after this long, whatever it still has to say.
const WALL_CLOCK: Duration = Duration::from_secs(20 * 60);

/// The windows of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Until the answer begins, at each step: head, first byte, every byte before the answer.
    pub(crate) at_first: Duration,
    /// Between two pieces of an answer that has begun.
    pub(crate) between: Duration,
    /// The same for a model that was told to think very hard.
    pub(crate) between_hard: Duration,
}

impl Patience {
    /// The row of `provider` at `address`.
    pub(crate) fn with(provider: ProviderId, address: &Url) -> Self {
        let is_local = provider == ProviderId::Ollama
            || (provider == ProviderId::OpenaiCompatible && is_loopback(address));
        let [at_first, between, between_hard] = if is_local {
            [300, 300, 300]
        } else {
            [240, 60, 120]
        }
        .map(Duration::from_secs);
        Self {
            at_first,
            between,
            between_hard,
        }
    }

    /// The windows below the stream of events. The one between chunks is the longer one, because
    /// bytes may come before the answer does; [`Pace`] keeps the shorter one.
    pub(crate) fn timeouts(self) -> Timeouts {
        Timeouts {
            connect: CONNECT,
            first_byte: self.at_first,
            between_chunks: self.at_first,
            total: WALL_CLOCK,
        }
    }

    /// The window once the answer has begun.
    pub(crate) fn once_begun(self, effort: Option<Effort>) -> Duration {
        match effort {
            Some(Effort::XHigh | Effort::Max) => self.between_hard,
            None | Some(Effort::None | Effort::Low | Effort::Medium | Effort::High) => self.between,
        }
    }
}

fn is_loopback(address: &Url) -> bool {
    match address.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        // RFC 6761 §6.3 keeps the name and everything below it for loopback.
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

/// Holds a stream to its window from the moment its answer begins.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    window: Duration,
    has_begun: Arc<AtomicBool>,
}

impl Pace {
    pub(crate) fn new(window: Duration) -> Self {
        Self {
            window,
            has_begun: Arc::default(),
        }
    }

    /// The answer has begun.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// `bytes` as they come, and a timeout in place of a piece that is late.
    pub(crate) fn kept<S>(
        &self,
        bytes: S,
    ) -> impl Stream<Item = Result<Bytes, NetError>> + Send + use<S>
    where
        S: Stream<Item = Result<Bytes, NetError>> + Send + 'static,
    {
        let pace = self.clone();
        futures_util::stream::unfold(Some(Box::pin(bytes)), move |bytes| {
            let pace = pace.clone();
            async move {
                let mut bytes = bytes?;
                let late = NetError {
                    kind: NetErrorKind::Timeout,
                    stage: Stage::MidStream,
                };
                let next = if pace.has_begun.load(Ordering::Relaxed) {
                    let next = tokio::time::timeout(pace.window, bytes.next());
                    next.await.unwrap_or(Some(Err(late)))
                } else {
                    bytes.next().await
                };
                let piece = next?;
                let rest = piece.is_ok().then_some(bytes);
                Some((piece, rest))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_server_has_its_row() {
        let local = [300, 300, 300];
        let hosted = [240, 60, 120];
        // provider, address, seconds at first, between, between at the highest efforts
        let rows = [
            (ProviderId::OpenaiCodex, "https://chatgpt.com/x", hosted),
            (ProviderId::Openai, "https://api.openai.com/v1", hosted),
            (
                ProviderId::Anthropic,
                "https://api.anthropic.com/v1",
                hosted,
            ),
            (ProviderId::Xai, "https://api.x.ai/v1", hosted),
            (
                ProviderId::Openrouter,
                "https://openrouter.ai/api/v1",
                hosted,
            ),
            (ProviderId::Mistral, "https://api.mistral.ai/v1", hosted),
            (ProviderId::Ollama, "http://localhost:11434/v1", local),
            (ProviderId::Ollama, "http://10.0.0.2:11434/v1", local),
            (ProviderId::OpenaiCompatible, "http://127.0.0.1:1/v1", local),
            (ProviderId::OpenaiCompatible, "http://[::1]:1/v1", local),
            (ProviderId::OpenaiCompatible, "http://localhost/v1", local),
            (
                ProviderId::OpenaiCompatible,
                "https://example.com/v1",
                hosted,
            ),
            (
                ProviderId::OpenaiCompatible,
                "https://localhost.example.com",
                hosted,
            ),
        ];
        for (provider, address, seconds) in rows {
            let patience = Patience::with(provider, &address.parse().unwrap());
            let timeouts = patience.timeouts();
            let got = [
                timeouts.first_byte,
                patience.once_begun(None),
                patience.once_begun(Some(Effort::XHigh)),
            ];
            assert_eq!(got.map(|window| window.as_secs()), seconds, "{address}");
            assert_eq!(patience.once_begun(Some(Effort::High)), patience.between);
            assert_eq!(
                patience.once_begun(Some(Effort::Max)),
                patience.between_hard
            );
            let rest = [timeouts.connect, timeouts.between_chunks, timeouts.total];
            assert_eq!(rest.map(|window| window.as_secs()), [10, seconds[0], 1200]);
        }
    }

    #[tokio::test]
    async fn the_window_is_kept_from_the_moment_the_answer_begins() {
        let pace = Pace::new(Duration::from_millis(5));
        let late = futures_util::stream::once(async {
            tokio::time::sleep(Duration::from_millis(40)).await;
            Ok(Bytes::from_static(b"thought through"))
        });
        let bytes = pace.kept(late.chain(futures_util::stream::pending()));
        let mut bytes = std::pin::pin!(bytes);
        assert!(bytes.next().await.is_some_and(|piece| piece.is_ok()));
        pace.begin();
        let timeout = NetError {
            kind: NetErrorKind::Timeout,
            stage: Stage::MidStream,
        };
        assert_eq!(bytes.next().await, Some(Err(timeout)));
        assert_eq!(bytes.next().await, None);
    }
}
