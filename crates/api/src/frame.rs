//! Frames: a length of four bytes, big-endian, and that many bytes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The longest frame, in bytes, in both directions.
pub const MAX_FRAME: usize = 4 * 1024 * 1024;

/// Why a frame was not read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other side closed the connection between two frames.
    #[error("the connection was closed")]
    Closed,
    /// The announced length is not one this protocol uses. Nothing of the frame was read.
    #[error("a frame of {0} bytes is longer than the limit of {MAX_FRAME}")]
    TooLong(usize),
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads one frame.
pub async fn read(source: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, FrameError> {
    let mut length = [0_u8; 4];
    let first = source.read(&mut length).await?;
    if first == 0 {
        return Err(FrameError::Closed);
    }
    source.read_exact(&mut length[first..]).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(FrameError::TooLong(length));
    }
    let mut body = vec![0; length];
    source.read_exact(&mut body).await?;
    Ok(body)
}

/// Writes one frame.
pub async fn write(target: &mut (impl AsyncWrite + Unpin), body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len())
        .ok()
        .filter(|_| body.len() <= MAX_FRAME)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the frame is too long"))?;
    // One write, so that a frame is one packet and never waits for an acknowledgement in between.
    let mut bytes = Vec::with_capacity(body.len() + 4);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    target.write_all(&bytes).await?;
    target.flush().await
}
