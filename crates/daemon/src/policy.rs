//! The desk for changes of the sandbox, over this process's parts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use fermix_approvals::policy::{CommandsChanged, SettingsOf};
use fermix_approvals::{PolicyDesk, PolicyParts, Prompts};
use fermix_config::{Home, SandboxConfig};
use fermix_sandbox::Sandbox;
use fermix_types::{Clock, TraceSink};

use crate::assemble::{self, BuildError, Parts};
use crate::clock::SystemClock;

/// What a desk follows besides the file.
pub(crate) struct Following {
    pub(crate) sandbox: Sandbox,
    /// Folders of this invocation alone, canonical: they survive every change.
    pub(crate) extra_roots: Vec<PathBuf>,
    pub(crate) commands_changed: CommandsChanged,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) trace: Arc<dyn TraceSink>,
}

/// A desk that changes `following` together with the file of `home`.
pub(crate) fn desk_over(home: &Home, in_force: SandboxConfig, following: Following) -> PolicyDesk {
    let Following {
        sandbox,
        extra_roots,
        commands_changed,
        clock,
        trace,
    } = following;
    let settings_of: SettingsOf = Arc::new(move |config| {
        let mut settings = assemble::settings_of(config);
        settings.allowed_roots.extend(extra_roots.iter().cloned());
        settings
    });
    PolicyDesk::new(PolicyParts {
        home: home.clone(),
        sandbox,
        in_force,
        settings_of,
        commands_changed,
        prompts: Arc::new(Prompts::default()),
        clock,
        monotonic: Arc::new(Instant::now),
        trace,
    })
}

/// A desk for the command line while no daemon runs: it changes the file, and the sandbox it looks
/// at is this process's own. It also works on settings that keep Fermix from starting, so that they
/// can be mended.
pub fn desk(parts: &Parts) -> Result<PolicyDesk, BuildError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let trace = assemble::trace_files(parts, &clock);
    let sandbox = assemble::plain_sandbox(parts, &trace)?;
    let following = Following {
        sandbox,
        extra_roots: Vec::new(),
        // Nothing is registered in this process.
        commands_changed: Arc::new(|_| {}),
        clock,
        trace,
    };
    Ok(desk_over(
        &parts.home,
        parts.config.sandbox.clone(),
        following,
    ))
}
