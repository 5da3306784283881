//! `request_directory_access`: asks the owner to open a folder.
//!
//! The prompt goes to the owner and the answer comes from them as a message of its own; the model
//! sees neither the token nor a way to answer. Nothing here waits: the turn ends, and a confirmed
//! request goes on as a new turn.

use fermix_approvals::PolicyDesk;
use fermix_approvals::policy::{DirectoryAnswer, DirectoryRefusal, DirectoryRequest};
use fermix_capability::{
    Audience, CallContext, Capability, DIRECTORY_ACCESS_REFUSED, Gate, RegistrationError,
};
use fermix_types::{Category, PolicyClass, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::scope::sandbox_scope;

/// Ask the owner to open a folder outside your reach. They answer in a message of their own, so
/// end your turn after asking.
#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// The folder; a file stands for the folder it is in.
    path: String,
    /// Why, in one short sentence; the owner reads it.
    reason: String,
}

/// The capability over `desk`.
pub fn capability(desk: PolicyDesk) -> Result<Capability, RegistrationError> {
    Capability::builtin(
        "request_directory_access",
        PolicyClass::ExternalApi,
        Category::System,
        Audience::Anyone,
    )
    .gate(Gate::DirectoryAccess)
    .when_to_use("A path the owner asked about is outside the sandbox roots.")
    .example(
        json!({"path": "~/projects/site", "reason": "You asked me to fix its stylesheet."}),
        "Shows the owner the folder and the reason.",
    )
    .failure("missing_parameters", "`path` or `reason` is empty.")
    .failure(
        "unattended",
        "Nobody is there to ask; work within the folders you can reach.",
    )
    .failure(
        "unsafe_root",
        "This folder is never opened. Pick a specific project folder.",
    )
    .failure(
        "invalid_path",
        "The folder does not exist or cannot be granted; the message says why.",
    )
    .failure(
        "denied",
        "The owner said no in this turn. Go on without it.",
    )
    .failure(
        "too_many_requests",
        "The owner was asked three times in this turn. Stop asking.",
    )
    .failure("not_asked", "The prompt did not reach the owner.")
    .handler(move |args: Args, context| run(desk.clone(), args, context))
}

async fn run(desk: PolicyDesk, args: Args, context: CallContext) -> ToolResult {
    for (name, value) in [("path", &args.path), ("reason", &args.reason)] {
        if value.trim().is_empty() {
            return Err(ToolError::new(
                "missing_parameters",
                format!("Missing required parameter: {name}"),
            ));
        }
    }
    let turn = &context.turn;
    let (Some(origin), Some(port)) = (&turn.origin, &turn.approval) else {
        return Err(ToolError::new("unattended", DIRECTORY_ACCESS_REFUSED));
    };
    let request = DirectoryRequest {
        path: args.path.trim(),
        reason: &args.reason,
        scope: sandbox_scope(&context),
        turn: turn.ids.clone(),
        origin,
        port: &**port,
        outside: &turn.outside_sources,
    };
    match desk.request_directory(request).await {
        Ok(DirectoryAnswer::AlreadyAllowed { path }) => Ok(format!(
            "`{}` is already allowed; retry what you wanted to do",
            path.display()
        )
        .into()),
        Ok(DirectoryAnswer::AlreadyPending { folder }) => Ok(format!(
            "A request for `{}` is already pending. Stop now and wait for the owner: end your turn with a short note, and do not ask again.",
            folder.display()
        )
        .into()),
        Ok(DirectoryAnswer::Requested { folder, is_widened }) => {
            let widened = if is_widened {
                " (the folder of the file you named)"
            } else {
                ""
            };
            Ok(format!(
                "Requested access to `{}`{widened}. Stop now and wait for the owner: end your turn with a short note that you asked.",
                folder.display()
            )
            .into())
        }
        Err(refusal) => Err(ToolError::new(tag(&refusal), refusal.to_string())),
    }
}

fn tag(refusal: &DirectoryRefusal) -> &'static str {
    match refusal {
        DirectoryRefusal::Unsafe { .. } => "unsafe_root",
        DirectoryRefusal::Cannot { .. } => "invalid_path",
        DirectoryRefusal::Denied(_) => "denied",
        DirectoryRefusal::TooMany => "too_many_requests",
        DirectoryRefusal::NotShown(_) => "not_asked",
    }
}
