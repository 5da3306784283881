//! The way back to the person. The channel's adapter implements it.

use async_trait::async_trait;

/// Delivers the one answer of a turn.
#[async_trait]
pub trait ReplyPort: Send + Sync {
    /// Delivers `text`, which is never blank. `note` is one line about how the answer came about
    /// (a fallback model answered), shown beside it and not part of it.
    async fn deliver(&self, text: &str, note: Option<&str>) -> Result<(), DeliveryError>;
}

/// An answer that did not reach the person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer could not be delivered: {0}")]
pub struct DeliveryError(
    /// The channel's reason.
    pub String,
);

/// Delivers to nobody: for callers who read the turn's report.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportOnly;

#[async_trait]
impl ReplyPort for ReportOnly {
    async fn deliver(&self, _text: &str, _note: Option<&str>) -> Result<(), DeliveryError> {
        Ok(())
    }
}
