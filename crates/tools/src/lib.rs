//! Every built-in tool: `src/<category>/<tool_name>.rs`, one file each.
//!
//! A tool is one value. Its schema, its help, its page in the reference and its entry in the search
//! index follow from that value; adding one is a file and a line in [`register_all`].

mod blocking;
pub mod config;
pub mod docs;
pub mod file;
pub mod git;
mod scope;
pub mod system;

use std::sync::Arc;

use fermix_approvals::PolicyDesk;
use fermix_capability::{Capability, Catalog, Deferral, RegistrationError, Registry};
use fermix_sandbox::Sandbox;
use fermix_types::TraceSink;
use fermix_undo::UndoLog;

use crate::config::model_routing_config::{self, RoutingAccess};
use crate::document::DocumentReader;

pub use file::document;
pub use system::command_preset::{RegisteredCommands, register_commands};

/// What the tools need from the rest of the program.
pub struct ToolDeps {
    /// The door to the disk and to other processes.
    pub sandbox: Sandbox,
    /// Answers discovery under each caller's ceiling.
    pub catalog: Arc<Catalog>,
    /// Reads PDF, docx and xlsx.
    pub documents: DocumentReader,
    /// Reads and changes which model workers run on.
    pub routing: RoutingAccess,
    /// Keeps what files held before they were changed.
    pub undo: UndoLog,
    /// Asks the owner for folders.
    pub policy: PolicyDesk,
    /// Takes the rows that only a tool can write.
    pub trace: Arc<dyn TraceSink>,
}

/// Registers every built-in tool, or none when a name is taken. The three bridges exist only while
/// the registry defers schemas.
pub fn register_all(registry: &Registry, deps: ToolDeps) -> Result<(), RegistrationError> {
    registry.register_all(capabilities(deps, registry.deferral())?)
}

fn capabilities(deps: ToolDeps, deferral: Deferral) -> Result<Vec<Capability>, RegistrationError> {
    let ToolDeps {
        sandbox,
        catalog,
        documents,
        routing,
        undo,
        policy,
        trace,
    } = deps;
    let mut tools = vec![
        file::content_search::capability(sandbox.clone())?,
        file::file_edit::capability(sandbox.clone(), undo.clone())?,
        file::file_read::capability(sandbox.clone(), documents)?,
        file::file_write::capability(sandbox.clone(), undo.clone())?,
        file::glob_search::capability(sandbox.clone())?,
        git::git_read::capability(sandbox.clone())?,
        git::git_write::capability(sandbox.clone(), undo)?,
        model_routing_config::capability(routing)?,
        system::request_directory_access::capability(policy)?,
        system::shell::capability(sandbox, trace)?,
        system::tool_help::capability(Arc::clone(&catalog))?,
    ];
    if deferral == Deferral::On {
        tools.push(system::tool_call::capability()?);
        tools.push(system::tool_describe::capability(Arc::clone(&catalog))?);
        tools.push(system::tool_search::capability(catalog)?);
    }
    Ok(tools)
}
