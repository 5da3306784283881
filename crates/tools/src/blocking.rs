//! Disk work off the executor's threads.

use fermix_types::ToolError;

/// Runs `work` on a thread that may block. A panic goes on in the caller, where the dispatcher
/// turns it into an answer.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ToolError::new(
                "stopped",
                "fermix is shutting down; nothing was done",
            )),
        },
    }
}
