//! Server-sent events with a cap on each one.

use bytes::Bytes;
use fermix_net::{NetError, NetErrorKind, Stage};
use futures_util::{Stream, StreamExt};

/// The most one stream may deliver, in bytes after decompression.
pub(crate) const MAX_STREAM: usize = 32 << 20;
/// The most one event may hold, in bytes.
pub(crate) const MAX_EVENT: usize = 1 << 20;

/// Passes bytes through until one event has more than [`MAX_EVENT`] of them. The parser behind it
/// keeps an event in memory until its blank line comes, so somebody has to count.
pub(crate) fn capped<S>(bytes: S) -> impl Stream<Item = Result<Bytes, NetError>> + Send
where
    S: Stream<Item = Result<Bytes, NetError>> + Send,
{
    bytes.scan(Some(EventSize::default()), |size, piece| {
        let Some(counter) = size else {
            return futures_util::future::ready(None);
        };
        let piece = piece.and_then(|piece| {
            if counter.grow(&piece) {
                Ok(piece)
            } else {
                Err(NetError {
                    kind: NetErrorKind::TooLarge,
                    stage: Stage::MidStream,
                })
            }
        });
        if piece.is_err() {
            *size = None;
        }
        futures_util::future::ready(Some(piece))
    })
}

#[derive(Default)]
struct EventSize {
    bytes: usize,
    line: usize,
    after_carriage_return: bool,
}

impl EventSize {
    /// Counts `piece` and says whether the current event still fits.
    fn grow(&mut self, piece: &[u8]) -> bool {
        for &byte in piece {
            let ends_pair = byte == b'\n' && self.after_carriage_return;
            self.after_carriage_return = byte == b'\r';
            self.bytes += 1;
            if ends_pair {
                continue;
            }
            if byte != b'\n' && byte != b'\r' {
                self.line += 1;
            } else if std::mem::take(&mut self.line) == 0 {
                self.bytes = 0;
            }
            if self.bytes > MAX_EVENT {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_small_events_pass_and_one_large_event_does_not() {
        let small = "data: 0123456789\r\n\r\n".repeat(MAX_EVENT / 16);
        let large = format!(
            "data: {}\n\ndata: {}",
            "x".repeat(MAX_EVENT - 10),
            "x".repeat(MAX_EVENT)
        );
        for (text, fits) in [(small, true), (large, false)] {
            // Pieces of an odd length put the line ends on both sides of a boundary.
            let pieces = Bytes::from(text);
            let pieces = (0..pieces.len())
                .step_by(701)
                .map(|at| Ok(pieces.slice(at..pieces.len().min(at + 701))));
            let seen: Vec<_> = capped(futures_util::stream::iter(pieces)).collect().await;
            assert_eq!(seen.iter().all(Result::is_ok), fits);
            assert!(seen.iter().filter(|piece| piece.is_err()).count() <= 1);
        }
    }
}
