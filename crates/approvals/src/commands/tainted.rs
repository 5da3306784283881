//! What a turn that has read outside content may do only with the owner's leave: run code, write
//! where code will run, send data out.

use fermix_capability::{Arguments, Capability, Gate};
use fermix_sandbox::{Access, Sandbox, Scope};
use fermix_types::{Category, Kind, PolicyClass};

use super::run_later::is_run_later;

/// What `capability` would do that outside content may have talked the model into, if anything.
pub(super) fn effect(
    capability: &Capability,
    arguments: &Arguments,
    sandbox: &Sandbox,
    scope: &Scope,
) -> Option<&'static str> {
    match capability.class() {
        PolicyClass::Exec => Some("would run code"),
        PolicyClass::Network | PolicyClass::ExternalApi | PolicyClass::GuiControl => {
            // It asks the owner by itself, with words of its own.
            let asks = capability.gate() == Gate::DirectoryAccess;
            (!asks).then_some("would send data out")
        }
        PolicyClass::ReadWrite => writes(capability, arguments, sandbox, scope),
        PolicyClass::ReadOnly => None,
    }
}

fn writes(
    capability: &Capability,
    arguments: &Arguments,
    sandbox: &Sandbox,
    scope: &Scope,
) -> Option<&'static str> {
    if capability.kind() == Kind::Mcp || capability.is_third_party() {
        return Some("would send data out");
    }
    let will_run = "would write where code will run";
    // A job and a skill are run later by their nature.
    if matches!(
        capability.category(),
        Category::Scheduling | Category::SkillAdmin
    ) {
        return Some(will_run);
    }
    let path = arguments.get("path")?.as_str()?;
    let folder = sandbox.working_dir(None, scope).ok()?;
    match sandbox.foresee(path, folder.path(), Access::Write, scope) {
        Ok(file) => is_run_later(&file).then_some(will_run),
        // The tool refuses it by itself.
        Err(_) => None,
    }
}
