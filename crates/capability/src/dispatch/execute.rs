//! Runs one handler under a deadline, a cancellation and a catch for panics.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fermix_types::ToolResult;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::call::{CallContext, TurnScope};
use crate::capability::{Arguments, Capability};

/// How long a tool may clean up after it was told to stop (spec/01 §11.5).
pub const CLEANUP_GRACE: Duration = Duration::from_secs(5);

/// Whatever a capability asks for, no call lasts longer.
const MAX_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// How a run ended.
pub(super) enum Ended {
    Finished(ToolResult),
    /// The id under which the log holds the details.
    Panicked(String),
    TimedOut(Duration),
    Stopped,
}

/// Runs `capability`. Returns at the latest one cleanup grace after the deadline or the stop.
pub(super) async fn execute(
    turn: &TurnScope,
    capability: &Arc<Capability>,
    call_id: &str,
    arguments: Arguments,
    max_output: usize,
) -> Ended {
    if turn.cancel.is_cancelled() {
        return Ended::Stopped;
    }
    let cancel = turn.cancel.child_token();
    let allowed = capability.deadline().min(MAX_DEADLINE);
    let deadline = Instant::now() + allowed;
    let context = CallContext {
        turn: turn.clone(),
        call_id: call_id.to_owned(),
        tool: capability.name().clone(),
        cancel: cancel.clone(),
        deadline,
        max_output,
    };
    let started = Arc::clone(capability);
    let mut running = Running {
        // The handler's own first lines run inside the task too, so that their panics are caught.
        task: Some(tokio::spawn(async move {
            started.start(arguments, context).await
        })),
        cancel,
    };
    let ended = tokio::select! {
        biased;
        joined = running.join() => return classify(capability, joined),
        () = turn.cancel.cancelled() => Ended::Stopped,
        () = tokio::time::sleep(allowed) => Ended::TimedOut(allowed),
    };
    running.cancel.cancel();
    match tokio::time::timeout(CLEANUP_GRACE, running.join()).await {
        Ok(joined) => {
            // It ended too late to count, but a panic while cleaning up is worth a line.
            if let Ended::Panicked(reference) = classify(capability, joined) {
                tracing::warn!(tool = %capability.name(), reference, "a stopped tool panicked");
            }
        }
        Err(_) => {
            tracing::warn!(tool = %capability.name(), "a stopped tool did not end and is abandoned");
            running.abandon();
        }
    }
    ended
}

/// Owns the task. Dropping it stops the task: gently first, then for good.
struct Running {
    task: Option<JoinHandle<ToolResult>>,
    cancel: CancellationToken,
}

impl Running {
    async fn join(&mut self) -> Result<ToolResult, JoinError> {
        match &mut self.task {
            Some(task) => {
                let joined = task.await;
                self.task = None;
                joined
            }
            // Nothing is left to wait for, and whoever asks twice has its answer already.
            None => std::future::pending().await,
        }
    }

    fn abandon(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        self.cancel.cancel();
        let abort = task.abort_handle();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move {
                    if tokio::time::timeout(CLEANUP_GRACE, task).await.is_err() {
                        abort.abort();
                    }
                });
            }
            Err(_) => abort.abort(),
        }
    }
}

fn classify(capability: &Capability, joined: Result<ToolResult, JoinError>) -> Ended {
    let error = match joined {
        Ok(result) => return Ended::Finished(result),
        Err(error) => error,
    };
    if !error.is_panic() {
        // Only the shutdown of the whole runtime cancels a task that nobody abandoned.
        return Ended::Stopped;
    }
    let reference = reference();
    tracing::error!(
        tool = %capability.name(),
        reference,
        panic = panic_words(error.into_panic().as_ref()),
        "a tool panicked"
    );
    Ended::Panicked(reference)
}

fn panic_words(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a payload that is not text")
}

/// A short id that joins the model's sentence with the log.
fn reference() -> String {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => hex::encode(bytes),
        // The id only helps to find a line; without one the line is found by its time.
        Err(_) => "none".to_owned(),
    }
}
