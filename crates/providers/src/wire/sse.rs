//! What stands between a response's bytes and the parser of server-sent events: a cap on each
//! event, text that is always UTF-8, and a look at whether there are events at all.

use bytes::Bytes;
use fermix_net::{NetError, NetErrorKind, Stage};
use futures_util::stream::BoxStream;
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

/// What a response turned out to be.
pub(crate) enum Opening {
    /// Events, or at least nothing else that is known.
    Events(BoxStream<'static, Result<Bytes, NetError>>),
    /// One JSON document, as far as it came, at most as long as was asked for, and what it broke
    /// off with.
    Document(Vec<u8>, Option<NetError>),
}

/// Looks at the first byte that is no blank. No event stream begins with a brace or a bracket, and
/// a server that answers so has something to say: mostly why there is no answer.
pub(crate) async fn open<S>(bytes: S, most: usize) -> Opening
where
    S: Stream<Item = Result<Bytes, NetError>> + Send + 'static,
{
    let mut bytes = bytes.boxed();
    // Blank lines before the first event mean nothing, so they need not be kept.
    let first = loop {
        match bytes.next().await {
            None => return Opening::Events(futures_util::stream::empty().boxed()),
            Some(Ok(piece)) if piece.trim_ascii().is_empty() => {}
            Some(piece) => break piece,
        }
    };
    let opening = first
        .as_ref()
        .ok()
        .and_then(|piece| piece.trim_ascii_start().first());
    if !matches!(opening, Some(b'{' | b'[')) {
        return Opening::Events(futures_util::stream::iter([first]).chain(bytes).boxed());
    }
    let mut document = Vec::new();
    let mut piece = Some(first);
    while let Some(Ok(more)) = piece {
        document.extend_from_slice(&more[..more.len().min(most - document.len())]);
        if document.len() == most {
            return Opening::Document(document, None);
        }
        piece = bytes.next().await;
    }
    Opening::Document(document, piece.and_then(Result::err))
}

/// The same bytes, with U+FFFD for everything that is not UTF-8. One bad byte spoils one character
/// of an answer, not the answer. A character on both sides of a boundary waits for its end.
pub(crate) fn legible<S>(bytes: S) -> impl Stream<Item = Result<Bytes, NetError>> + Send
where
    S: Stream<Item = Result<Bytes, NetError>> + Send,
{
    bytes.scan(Vec::new(), |begun, piece| {
        futures_util::future::ready(Some(piece.map(|piece| mend(begun, piece))))
    })
}

/// `piece` after the bytes of a character that `begun` holds; it holds those of the next one then.
fn mend(begun: &mut Vec<u8>, piece: Bytes) -> Bytes {
    if begun.is_empty() && std::str::from_utf8(&piece).is_ok() {
        return piece;
    }
    let mut bytes = std::mem::take(begun);
    bytes.extend_from_slice(&piece);
    let mut text = String::with_capacity(bytes.len());
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let invalid = chunk.invalid();
        if invalid.is_empty() {
            continue;
        }
        let may_go_on =
            std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        if may_go_on && chunks.peek().is_none() {
            begun.extend_from_slice(invalid);
        } else {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text.into()
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
    async fn one_bad_byte_costs_one_character_wherever_the_pieces_end() {
        let cases: [(&[u8], &str); 4] = [
            (
                "data: \u{e9}\u{20ac}\u{1f600}\n\n".as_bytes(),
                "data: \u{e9}\u{20ac}\u{1f600}\n\n",
            ),
            (b"data: a\xffb\n\n", "data: a\u{fffd}b\n\n"),
            (
                b"data: \xe2\x82x \xf0\x9f\n\n",
                "data: \u{fffd}x \u{fffd}\n\n",
            ),
            (b"data: \xc3\xc3\xa9\n\n", "data: \u{fffd}\u{e9}\n\n"),
        ];
        for (bytes, expected) in cases {
            for size in 1..=bytes.len() {
                let pieces = bytes
                    .chunks(size)
                    .map(|piece| Ok(Bytes::copy_from_slice(piece)));
                let seen: Vec<_> = legible(futures_util::stream::iter(pieces)).collect().await;
                let whole: Vec<u8> = seen.into_iter().flat_map(Result::unwrap).collect();
                assert_eq!(String::from_utf8(whole).unwrap(), expected, "{size}");
            }
        }
    }

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
