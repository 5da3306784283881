//! What a command would reach and be given, told before anybody decides that it runs.
//!
//! Nothing here is a decision: nothing is opened, no helper is run, no event is recorded. What does
//! run is checked again, by the doors it goes through.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::denial::{Access, DenialReason, Denied};
use crate::sandbox::Sandbox;
use crate::settings::{EnvMode, Scope};

impl Sandbox {
    /// What `path` leads to, links followed, for a command that runs in `folder`, when the policy
    /// gives it to this turn.
    pub fn foresee(
        &self,
        path: &str,
        folder: &Path,
        access: Access,
        scope: &Scope,
    ) -> Result<PathBuf, Denied> {
        let inner = self.now();
        if path.is_empty() || path.contains('\0') {
            return Err(Denied::new(DenialReason::InvalidPath, access, path));
        }
        let requested = folder.join(inner.expanded(Path::new(path)));
        let roots = Arc::new(inner.roots(scope));
        let checked = inner.judge(requested, access, roots, &Arc::new(scope.clone()))?;
        Ok(checked.object.path)
    }

    /// The names of the variables a command of this turn gets, sorted: those that will resolve and
    /// those that may. No value is looked at but those of this process, and no helper is asked.
    pub fn env_names(&self, required: &[String], scope: &Scope) -> Vec<String> {
        let inner = self.now();
        let policy = &inner.settings.env;
        let takes_everything =
            policy.mode == EnvMode::All && policy.allow.is_empty() && required.is_empty();
        let base = if takes_everything {
            inner.surroundings.environment.clone()
        } else {
            inner.base()
        };
        let mut names: Vec<String> = base
            .keys()
            .map(|name| name.to_string_lossy().into_owned())
            .chain(policy.allow.iter().cloned())
            .chain(required.iter().cloned())
            .filter(|name| !policy.deny.contains(name))
            .chain(["TERM".to_owned()])
            .chain(scope.session_env.iter().map(|(name, _)| name.clone()))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// The home of the user Fermix runs as.
    pub fn os_home(&self) -> PathBuf {
        self.now().surroundings.home.clone()
    }
}
