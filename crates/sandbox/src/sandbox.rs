//! The decision: may this turn touch this path?

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use fermix_types::{TraceKind, TraceRow, TraceSink};
use rustix::fs::FileType;
use serde_json::json;

use crate::confine::view::ViewPolicy;
use crate::denial::{Access, DenialReason, Denied};
use crate::env::search_path;
use crate::grants::SessionGrants;
use crate::guarded;
use crate::protected::Protected;
use crate::read::ReadablePath;
use crate::remedy;
use crate::resolve::{Resolved, Unresolved, resolve};
use crate::roots::{Root, RootSet, UnsafeRoot, is_itself, safe_to_grant};
use crate::runner::Runner;
use crate::settings::{SandboxSettings, Scope, Surroundings};
use crate::tree::ReadableTree;
use crate::write::WritablePath;

/// The door to the disk and to other processes. Cheap to clone.
///
/// Clones share one policy: after [`Sandbox::reconfigure`] every clone follows the new settings, and
/// a call that was under way ends under the old ones.
#[derive(Clone)]
pub struct Sandbox {
    current: Arc<ArcSwap<Inner>>,
    runner: Runner,
}

pub(crate) struct Inner {
    pub(crate) settings: SandboxSettings,
    pub(crate) surroundings: Surroundings,
    pub(crate) protected: Protected,
    pub(crate) runner: Runner,
    pub(crate) grants: Arc<SessionGrants>,
    private: Vec<PathBuf>,
    trace: Arc<dyn TraceSink>,
}

/// What the policy lets a turn do, without a door to it.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// The canonical path.
    pub path: PathBuf,
    /// The root that admits it.
    pub root: Arc<Root>,
}

/// Why a sandbox cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A folder the whole policy hangs on is not absolute.
    #[error("`{what}` must be an absolute path, not `{}`", path.display())]
    NotAbsolute {
        /// The setting's name.
        what: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// The system refused what the runner needs.
    #[error("the command runner cannot be set up: {0}")]
    Runner(#[source] std::io::Error),
}

/// One path that passed the policy.
#[derive(Clone)]
pub(crate) struct Checked {
    pub(crate) inner: Arc<Inner>,
    pub(crate) roots: Arc<RootSet>,
    /// Absolute, before links were followed: what is resolved again when the object changed.
    pub(crate) requested: PathBuf,
    pub(crate) object: Resolved,
    pub(crate) root: Arc<Root>,
    pub(crate) access: Access,
    pub(crate) scope: Arc<Scope>,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("settings", &self.now().settings)
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// A sandbox with the given policy. Refuses relative folders, which would move with the process.
    pub fn new(
        settings: SandboxSettings,
        surroundings: Surroundings,
        trace: Arc<dyn TraceSink>,
    ) -> Result<Self, SandboxError> {
        Self::build(
            settings,
            surroundings,
            trace,
            None,
            Vec::new(),
            Arc::default(),
        )
    }

    /// The same sandbox with other settings, for a change of the configuration while turns run. The
    /// runner, and with it the limits and the live runs, is shared.
    pub fn with_settings(&self, settings: SandboxSettings) -> Result<Self, SandboxError> {
        let inner = self.now();
        Self::build(
            settings,
            inner.surroundings.clone(),
            inner.trace.clone(),
            Some(inner.runner.clone()),
            inner.private.clone(),
            Arc::clone(&inner.grants),
        )
    }

    /// Puts other settings in force for this sandbox and all its clones.
    pub fn reconfigure(&self, settings: SandboxSettings) -> Result<(), SandboxError> {
        let changed = self.with_settings(settings)?;
        self.runner.follow(&changed.runner);
        self.current.store(changed.now());
        Ok(())
    }

    /// The policy in force now.
    pub(crate) fn now(&self) -> Arc<Inner> {
        self.current.load_full()
    }

    /// The same sandbox with `private` closed as well: state of Fermix that is kept outside its home,
    /// such as a configured folder for traces. Refuses relative paths.
    pub fn protecting(&self, private: Vec<PathBuf>) -> Result<Self, SandboxError> {
        let inner = self.now();
        Self::build(
            inner.settings.clone(),
            inner.surroundings.clone(),
            inner.trace.clone(),
            Some(inner.runner.clone()),
            private,
            Arc::clone(&inner.grants),
        )
    }

    fn build(
        settings: SandboxSettings,
        surroundings: Surroundings,
        trace: Arc<dyn TraceSink>,
        runner: Option<Runner>,
        private: Vec<PathBuf>,
        grants: Arc<SessionGrants>,
    ) -> Result<Self, SandboxError> {
        let absolute = |what, path: &Path| {
            if path.is_absolute() {
                Ok(())
            } else {
                Err(SandboxError::NotAbsolute {
                    what,
                    path: path.to_owned(),
                })
            }
        };
        absolute("home", &surroundings.home)?;
        absolute("FERMIX_HOME", &surroundings.fermix_home)?;
        absolute("[sandbox] workspace_root", &settings.workspace_root)?;
        for path in &settings.allowed_roots {
            absolute("[sandbox] allowed_roots", path)?;
        }
        for path in &settings.read_roots {
            absolute("[sandbox] read_roots", path)?;
        }
        for path in &settings.blocked_roots {
            absolute("[sandbox] blocked_roots", path)?;
        }
        for path in &settings.trusted_repos {
            absolute("[sandbox.git] trusted_repos", path)?;
        }
        for path in &private {
            absolute("a private folder", path)?;
        }
        for path in settings
            .confine
            .extra_read
            .iter()
            .chain(&settings.confine.extra_write)
        {
            absolute("[sandbox.confine] extra_read and extra_write", path)?;
        }
        let protected = Protected::new(&surroundings, &settings.workspace_root, &private);
        let policy = ViewPolicy::new(
            &settings,
            &surroundings,
            &protected,
            search_path(&surroundings),
        );
        let runner = match runner {
            Some(runner) => runner.under(policy),
            None => {
                Runner::new(surroundings.launcher.clone(), policy).map_err(SandboxError::Runner)?
            }
        };
        let inner = Inner {
            settings,
            surroundings,
            protected,
            runner: runner.clone(),
            grants,
            private,
            trace,
        };
        Ok(Self {
            current: Arc::new(ArcSwap::from_pointee(inner)),
            runner,
        })
    }

    /// A file or folder this turn may read.
    pub fn readable(&self, path: &str, scope: &Scope) -> Result<ReadablePath, Denied> {
        self.check(path, Access::Read, scope).map(ReadablePath::new)
    }

    /// A file this turn may create or change.
    pub fn writable(&self, path: &str, scope: &Scope) -> Result<WritablePath, Denied> {
        self.check(path, Access::Write, scope)
            .map(WritablePath::new)
    }

    /// A search below `root`: one set of roots for the whole batch, allowed entries leave no trace.
    pub fn batch(&self, root: ReadablePath, scope: &Scope) -> ReadableTree {
        ReadableTree::new(root, scope)
    }

    /// The one way to start a process.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// The folders this turn reaches, for `explain` and `status`.
    pub fn roots(&self, scope: &Scope) -> Vec<Arc<Root>> {
        self.now().roots(scope).roots
    }

    /// What is protected, for `explain`.
    pub fn protected_paths(&self) -> Vec<PathBuf> {
        self.now().protected.paths().map(Path::to_owned).collect()
    }

    /// The settings this sandbox was built with.
    pub fn settings(&self) -> SandboxSettings {
        self.now().settings.clone()
    }

    /// Whether the owner may grant `path`: the canonical folder, or why it is unsafe. Nothing is asked
    /// of the owner and nothing is recorded.
    pub fn grantable_root(&self, path: &Path) -> Result<PathBuf, UnsafeRoot> {
        let inner = self.now();
        safe_to_grant(&inner.expanded(path), &inner.surroundings, &inner.protected)
    }

    /// The blocked root that keeps `folder`, a canonical path, closed whatever is granted.
    pub fn blocking_root(&self, folder: &Path) -> Option<PathBuf> {
        let roots = self.now().roots(&Scope::default());
        let found = resolve(folder).ok()?;
        roots.blocking(&found).map(Path::to_owned)
    }

    /// What [`Sandbox::readable`] or [`Sandbox::writable`] would decide about `path`, without doing
    /// or recording anything.
    pub fn would_allow(
        &self,
        path: &str,
        access: Access,
        scope: &Scope,
    ) -> Result<Allowed, Denied> {
        let checked = self.unrecorded(path, access, scope)?;
        Ok(Allowed {
            path: checked.object.path,
            root: checked.root,
        })
    }

    /// Granted folders that open nothing, because their names lead through a link; with where they
    /// lead. Either the owner wrote the link's name, or something took the folder's place.
    pub fn linked_grants(&self) -> Vec<(PathBuf, PathBuf)> {
        let inner = self.now();
        let settings = &inner.settings;
        let named = settings.allowed_roots.iter().chain(&settings.read_roots);
        named
            .filter_map(|path| {
                let found = resolve(path).ok()?;
                (!is_itself(path, &found)).then(|| (path.clone(), found.path))
            })
            .collect()
    }

    /// Records that the accident guard refused a command, and gives the words for the model.
    pub fn hardline_denied(&self, reason: &str, scope: &Scope) -> Denied {
        let denied = Denied::new(DenialReason::Hardline, Access::Execute, "shell")
            .because(format!("Sandbox hardline blocked command: {reason}"));
        self.now().record_denial(&denied, "hardline", scope);
        denied
    }

    pub(crate) fn check(
        &self,
        path: &str,
        access: Access,
        scope: &Scope,
    ) -> Result<Checked, Denied> {
        let checked = self.unrecorded(path, access, scope);
        self.now().record(&checked, scope);
        checked
    }

    fn unrecorded(&self, path: &str, access: Access, scope: &Scope) -> Result<Checked, Denied> {
        let inner = self.now();
        let roots = Arc::new(inner.roots(scope));
        inner
            .absolute(path, access, &roots, scope)
            .and_then(|requested| inner.judge(requested, access, roots, &Arc::new(scope.clone())))
            .and_then(|checked| fits_its_spelling(path, checked))
    }
}

/// A path that ends like a folder's names a folder or nothing.
fn fits_its_spelling(path: &str, checked: Checked) -> Result<Checked, Denied> {
    let names_folder = path.ends_with('/') || path.ends_with("/.");
    let is_wrong = match (checked.access, checked.object.kind) {
        (Access::Read | Access::Write, Some(kind)) => kind != FileType::Directory,
        (Access::Write, None) => true,
        (Access::Read, None) | (Access::Execute, _) => false,
    };
    if names_folder && is_wrong {
        let words = format!(
            "Invalid path: `{path}` ends like the name of a folder, and there is no such folder; leave out what follows the file's name"
        );
        return Err(Denied::new(
            DenialReason::InvalidPath,
            checked.access,
            checked.object.path,
        )
        .because(words));
    }
    Ok(checked)
}

impl Inner {
    pub(crate) fn roots(&self, scope: &Scope) -> RootSet {
        RootSet::compute(
            &self.settings,
            &self.surroundings,
            scope.cwd.as_deref(),
            &self.grants.of(scope.conversation.as_ref()),
        )
    }

    /// `~` and `~/…` only; `~user` is an ordinary name.
    pub(crate) fn expanded(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("~") {
            Ok(rest) if rest.as_os_str().is_empty() => self.surroundings.home.clone(),
            Ok(rest) => self.surroundings.home.join(rest),
            Err(_) => path.to_owned(),
        }
    }

    /// The path as an absolute one; relative paths start in the turn's working directory.
    pub(crate) fn absolute(
        &self,
        path: &str,
        access: Access,
        roots: &RootSet,
        scope: &Scope,
    ) -> Result<PathBuf, Denied> {
        if path.is_empty() {
            return Err(
                Denied::new(DenialReason::InvalidPath, access, path).because("Path is empty")
            );
        }
        if path.contains('\0') {
            return Err(Denied::new(
                DenialReason::InvalidPath,
                access,
                path.replace('\0', "\u{FFFD}"),
            )
            .because("Path contains null bytes"));
        }
        let path = self.expanded(Path::new(path));
        if path.is_absolute() {
            return Ok(path);
        }
        let base = self.default_folder(roots, scope).ok_or_else(|| {
            Denied::new(DenialReason::InvalidPath, access, path.clone()).because(format!(
                "`{}` is relative and there is no folder it could be relative to",
                path.display()
            ))
        })?;
        Ok(base.join(path))
    }

    /// Resolves and decides. The order of the rules is the policy.
    pub(crate) fn judge(
        self: &Arc<Self>,
        requested: PathBuf,
        access: Access,
        roots: Arc<RootSet>,
        scope: &Arc<Scope>,
    ) -> Result<Checked, Denied> {
        let object = resolve(&requested).map_err(|error| match error {
            Unresolved::TooManySymlinks => {
                Denied::new(DenialReason::TooManySymlinks, access, requested.clone())
            }
            Unresolved::Invalid(detail) => {
                Denied::new(DenialReason::InvalidPath, access, requested.clone())
                    .because(format!("Invalid path: {detail}"))
            }
        })?;
        let root = self
            .decide(&object, access, &roots)
            .map_err(|reason| self.refusal(reason, access, &object, &roots))?;
        if access == Access::Write
            && let Some(why) = guarded::refusal(&object.path, &roots, self, scope)
        {
            return Err(Denied::new(DenialReason::GuardedPath, access, object.path).because(why));
        }
        Ok(Checked {
            inner: self.clone(),
            roots,
            requested,
            object,
            root,
            access,
            scope: scope.clone(),
        })
    }

    /// 1. protected, 2. blocked, 3. inside a root that admits the access, 4. outside.
    pub(crate) fn decide(
        &self,
        object: &Resolved,
        access: Access,
        roots: &RootSet,
    ) -> Result<Arc<Root>, DenialReason> {
        if self.protected.covers(object) {
            return Err(DenialReason::ProtectedPath);
        }
        if roots.blocks(object) {
            return Err(DenialReason::BlockedRoot);
        }
        roots
            .holding(&object.path, access)
            .cloned()
            .ok_or(DenialReason::OutsideRoot)
    }

    /// A refusal with its way out. Not recorded.
    pub(crate) fn refusal(
        &self,
        reason: DenialReason,
        access: Access,
        object: &Resolved,
        roots: &RootSet,
    ) -> Denied {
        Denied::new(reason, access, object.path.clone())
            .with_remedy(remedy::of(reason, access, object, roots, self))
    }

    pub(crate) fn record(&self, decision: &Result<Checked, Denied>, scope: &Scope) {
        match decision {
            Ok(checked) => self.record_allow(&checked.object.path, checked.access, scope),
            Err(denied) => self.record_denial(denied, "deny", scope),
        }
    }

    pub(crate) fn record_allow(&self, path: &Path, access: Access, scope: &Scope) {
        self.emit("allow", "inside_root", path, access, scope);
    }

    pub(crate) fn record_denial(&self, denied: &Denied, decision: &str, scope: &Scope) {
        self.emit(
            decision,
            denied.reason.as_str(),
            &denied.path,
            denied.access,
            scope,
        );
    }

    fn emit(&self, decision: &str, reason: &str, path: &Path, access: Access, scope: &Scope) {
        let fields = json!({
            "decision": decision,
            "reason": reason,
            "resource": path.to_string_lossy(),
            "policy_class": access.policy_class().as_str(),
            "operation": access.as_str(),
            "agent": scope.agent,
            "conversation_key": scope.conversation.as_ref().map(ToString::to_string),
        });
        self.trace
            .record(TraceRow::new(TraceKind::SandboxEvent, &scope.ids, fields));
    }
}

impl Checked {
    /// The path below the root's descriptor; `.` for the root itself.
    pub(crate) fn relative(&self) -> &Path {
        match self.object.path.strip_prefix(&self.root.path) {
            Ok(rest) if !rest.as_os_str().is_empty() => rest,
            _ => Path::new("."),
        }
    }

    /// The decision taken anew, because the object changed.
    pub(crate) fn again(&self) -> Result<Self, Denied> {
        let again = self.inner.judge(
            self.requested.clone(),
            self.access,
            self.roots.clone(),
            &self.scope,
        );
        if let Err(denied) = &again {
            self.inner.record_denial(denied, "deny", &self.scope);
        }
        again
    }

    /// A refusal found after the check, recorded.
    pub(crate) fn denied(&self, reason: DenialReason) -> Denied {
        let denied = self
            .inner
            .refusal(reason, self.access, &self.object, &self.roots);
        self.inner.record_denial(&denied, "deny", &self.scope);
        denied
    }
}
