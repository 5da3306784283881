//! Ctrl-C, a closed terminal and a polite kill all mean: stop, and put things away.

use tokio::signal::unix::{SignalKind, signal};

/// Returns when the person or the system wants this process to end.
pub async fn signalled() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
    }
}
