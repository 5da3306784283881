//! What every tool's answer passes before anybody reads it.

use std::borrow::Cow;
use std::sync::Arc;

use fermix_types::{ToolError, ToolOutput, ToolResult};

/// Takes out of a text what no model and no channel may read: the values of known secrets. Owned
/// here because the dispatcher may not know of secrets.
pub trait ResultScreen: Send + Sync {
    /// `text` without them.
    fn screen<'t>(&self, text: &'t str) -> Cow<'t, str>;
}

/// The whole of `result`, screened: text, remarks and the words of an error.
pub(crate) fn screened(screen: Option<&Arc<dyn ResultScreen>>, result: ToolResult) -> ToolResult {
    let Some(screen) = screen else { return result };
    let clean = |text: String| match screen.screen(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(clean) => clean,
    };
    let each = |notes: Vec<String>| notes.into_iter().map(clean).collect();
    match result {
        Ok(output) => Ok(ToolOutput {
            text: clean(output.text),
            notes: each(output.notes),
            ..output
        }),
        Err(error) => Err(ToolError {
            message: clean(error.message),
            notes: each(error.notes),
            ..error
        }),
    }
}
