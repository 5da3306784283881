//! The capability registry: everything the model can do is one entry here.
//!
//! [`Registry`] holds immutable snapshots; a [`View`] is one caller's part of one snapshot; the
//! [`gate::Gate`]s are conditions on the caller's run.
//! [`Dispatcher`] sends a call through all of them, and [`Catalog`] answers what there is to call.

pub mod approval;
pub mod bridge;
pub mod call;
pub mod caller;
mod capability;
pub mod catalog;
pub mod dispatch;
pub mod filter;
pub mod gate;
pub mod guard;
pub mod metadata;
pub mod policy;
pub mod registry;
pub mod schema;
mod screen;
mod surface;
pub mod untrusted;
pub mod validate;
mod view;

pub use approval::{ApprovalPort, ApprovalPrompt, Choice, PromptOrigin};
pub use call::{CallContext, TurnScope};
pub use caller::{Caller, Depth, JobGrant, Ports, Presence, ReactionSpec, Run};
pub use capability::{
    Arguments, Audience, Builder, Capability, DEFAULT_DEADLINE, RegistrationError,
};
pub use catalog::{Catalog, Found, Match};
pub use dispatch::{CallOutcome, Dispatcher, Prepared};
pub use fermix_types::ToolDefinition;
pub use filter::{Filter, RemovedBy};
pub use gate::{DIRECTORY_ACCESS_REFUSED, Gate, Refusal};
pub use guard::{CallGuard, CommandPreview, CommandText, GuardedCall, Ruling};
pub use metadata::Metadata;
pub use policy::{Policy, PolicyError, resolve_policy, resolved_policy_classes};
pub use registry::{Deferral, FamilyChange, Registry, Snapshot};
pub use schema::{PreparedSchema, SchemaError};
pub use screen::ResultScreen;
pub use untrusted::{FrameId, OutsideSource, OutsideSources};
pub use view::View;
