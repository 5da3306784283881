//! What the sandbox is told about the turn a call belongs to.

use fermix_capability::CallContext;
use fermix_sandbox::Scope;

/// The call's turn in the sandbox's words.
pub(crate) fn sandbox_scope(context: &CallContext) -> Scope {
    Scope {
        cancel: context.cancel.clone(),
        ..fermix_approvals::sandbox_scope(&context.turn)
    }
}
