//! Reading a response, piece by piece, within the request's timeouts and the caller's cap.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use tokio::time::Instant;

use crate::client::Timeouts;
use crate::error::{NetError, NetErrorKind, Stage};

/// A response whose head has arrived and whose body has not been read.
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: Body,
}

struct Body {
    response: reqwest::Response,
    timeouts: Timeouts,
    deadline: Instant,
    started: bool,
    left: usize,
}

impl Response {
    pub(crate) fn new(
        mut response: reqwest::Response,
        timeouts: Timeouts,
        deadline: Instant,
    ) -> Self {
        let headers = std::mem::take(response.headers_mut());
        let status = response.status().as_u16();
        Self {
            status,
            headers,
            body: Body {
                response,
                timeouts,
                deadline,
                started: false,
                left: 0,
            },
        }
    }

    /// The whole body. More than `cap` bytes, counted after decompression, is an error.
    pub async fn bytes(self, cap: usize) -> Result<Bytes, NetError> {
        let mut pieces = std::pin::pin!(self.into_stream(cap));
        let mut whole = BytesMut::new();
        while let Some(piece) = pieces.next().await {
            whole.extend_from_slice(&piece?);
        }
        Ok(whole.freeze())
    }

    /// The body as it arrives. It ends with an error once more than `cap` bytes, counted after
    /// decompression, have come, or when a timeout of the request runs out.
    pub fn into_stream(
        self,
        cap: usize,
    ) -> impl Stream<Item = Result<Bytes, NetError>> + Send + 'static {
        let body = Body {
            left: cap,
            ..self.body
        };
        futures_util::stream::unfold(Some(body), |body| async move {
            let mut body = body?;
            match body.next().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(body))),
                Ok(None) => None,
                Err(kind) => Some((
                    Err(NetError {
                        kind,
                        stage: Stage::MidStream,
                    }),
                    None,
                )),
            }
        })
    }
}

impl Body {
    async fn next(&mut self) -> Result<Option<Bytes>, NetErrorKind> {
        let patience: Duration = if self.started {
            self.timeouts.between_chunks
        } else {
            self.timeouts.first_byte
        };
        let until = self.deadline.min(Instant::now() + patience);
        let piece = tokio::time::timeout_at(until, self.response.chunk())
            .await
            .map_err(|_elapsed| NetErrorKind::Timeout)?
            .map_err(|error| NetErrorKind::of(&error))?;
        let Some(piece) = piece else { return Ok(None) };
        self.started = true;
        self.left = self
            .left
            .checked_sub(piece.len())
            .ok_or(NetErrorKind::TooLarge)?;
        Ok(Some(piece))
    }
}
