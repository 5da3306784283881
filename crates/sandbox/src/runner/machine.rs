//! What the machine offers to confine commands with, asked when it is first needed.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::supervise::pid_of;
use super::{RunError, Runner, Shared};
use crate::confine::probe::{Machine, machine};
use crate::confine::view::ViewPolicy;

/// When a machine that lacked something is asked again: the lack may have been a moment's.
const ASK_AGAIN: Duration = Duration::from_secs(60);

impl Shared {
    /// Blocks for some milliseconds the first time.
    pub(super) fn machine(&self) -> Arc<Machine> {
        let mut known = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((asked, machine)) = &*known
            && (machine.missing.is_empty() || asked.elapsed() < ASK_AGAIN)
        {
            return machine.clone();
        }
        let start = |mut command: std::process::Command| {
            let mut leaders = self.leaders();
            let child = command.spawn()?;
            leaders.insert(pid_of(&child));
            Ok(child)
        };
        let reap = |mut child: std::process::Child| {
            let pid = pid_of(&child);
            let _ = child.wait();
            self.leaders().remove(&pid);
        };
        let found = Arc::new(machine(self.launcher.as_deref(), start, reap));
        for missing in &found.missing {
            tracing::warn!(
                layer = missing.layer,
                reason = missing.reason,
                "a layer of confinement is missing"
            );
        }
        *known = Some((Instant::now(), found.clone()));
        found
    }
}

impl Runner {
    pub(crate) fn policy(&self) -> Arc<ViewPolicy> {
        self.policy.load_full()
    }

    pub(crate) fn machine(&self) -> Arc<Machine> {
        self.shared.machine()
    }

    /// Why nothing may run confined, if that is so. Blocks the first time.
    pub(super) fn refusal(&self, policy: &ViewPolicy) -> Option<RunError> {
        policy
            .refusal(&self.machine())
            .map(|missing| RunError::Unconfined { missing })
    }

    /// Whether `program` is the launcher's own.
    pub(super) fn is_own(shared: &Shared, program: &Path) -> bool {
        shared.launcher.as_deref() == Some(program)
    }
}
