//! The body of an answer: events, and whatever the script lets go wrong between them.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;

use super::Delivery;
use crate::script::{Ending, Step};

/// What the body does next.
pub(super) enum Piece {
    Send(Bytes),
    Pause(Duration),
    /// Ends the connection with an error.
    Cut,
    /// Sends nothing more and stays open.
    Stall,
}

/// The plan for the events of `step`.
pub(super) fn pieces(step: &Step, events: Vec<String>) -> VecDeque<Piece> {
    let kept = step
        .ending
        .map_or(events.len(), |(count, _)| count.min(events.len()));
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let raw_after = |count: usize| {
        step.garbage
            .iter()
            .filter(move |(after, _)| *after == count)
            .map(|(_, raw)| raw.clone())
    };
    frames.extend(raw_after(0));
    for (index, event) in events.into_iter().take(kept).enumerate() {
        let event = if step.carriage_returns {
            event.replace('\n', "\r\n")
        } else {
            event
        };
        frames.push(event.into_bytes());
        frames.extend(raw_after(index + 1));
    }
    let mut pieces: VecDeque<Piece> = match step.trickle {
        None => frames
            .into_iter()
            .map(|frame| Piece::Send(frame.into()))
            .collect(),
        Some((size, pause)) => frames
            .concat()
            .chunks(size)
            .flat_map(|chunk| {
                [
                    Piece::Send(Bytes::copy_from_slice(chunk)),
                    Piece::Pause(pause),
                ]
            })
            .collect(),
    };
    match step.ending {
        Some((_, Ending::Cut)) => pieces.push_back(Piece::Cut),
        Some((_, Ending::Stall)) => pieces.push_back(Piece::Stall),
        Some((_, Ending::Silent)) | None => {}
    }
    pieces
}

/// Plays the plan; `delivery` learns whether it was played to its end.
pub(super) fn body(
    pieces: VecDeque<Piece>,
    delivery: Delivery,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    unfold(
        (pieces, delivery),
        |(mut pieces, mut delivery)| async move {
            loop {
                let Some(piece) = pieces.pop_front() else {
                    delivery.complete();
                    return None;
                };
                match piece {
                    Piece::Send(bytes) => {
                        if pieces.is_empty() {
                            // The server may drop a body as soon as its last byte is taken.
                            delivery.complete();
                        }
                        return Some((Ok(bytes), (pieces, delivery)));
                    }
                    Piece::Pause(pause) => tokio::time::sleep(pause).await,
                    Piece::Cut => {
                        // Returning to the connection once lets it flush what was sent so far.
                        tokio::task::yield_now().await;
                        delivery.complete();
                        let cut =
                            io::Error::new(io::ErrorKind::ConnectionReset, "cut by the script");
                        return Some((Err(cut), (pieces, delivery)));
                    }
                    Piece::Stall => std::future::pending::<()>().await,
                }
            }
        },
    )
}
