//! Which folders the tools may reach at all, and where that right comes from.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use fermix_types::SandboxMode;
use rustix::fs::FileType;

use crate::denial::Access;
use crate::names::{fold, is_within};
use crate::protected::Protected;
use crate::resolve::{Identity, Resolved, resolve};
use crate::settings::{SandboxSettings, Surroundings};

/// Where a root comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The owner granted it.
    Granted,
    /// The owner granted it to this conversation.
    Conversation,
    /// The mode admits it.
    Mode,
}

impl Provenance {
    /// The word `explain` prints.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Conversation => "granted for this conversation",
            Self::Mode => "mode",
        }
    }
}

/// What the tools may do in a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootAccess {
    /// Read and change.
    ReadWrite,
    /// Read.
    ReadOnly,
}

impl RootAccess {
    /// Whether the root is enough for what a caller wants. A command may start in a folder it may
    /// only read: what it changes there is for its confinement to refuse.
    pub(crate) fn admits(self, access: Access) -> bool {
        match (self, access) {
            (Self::ReadWrite, _) | (Self::ReadOnly, Access::Read | Access::Execute) => true,
            (Self::ReadOnly, Access::Write) => false,
        }
    }
}

/// A folder the tools may reach.
#[derive(Debug)]
pub struct Root {
    /// Canonical.
    pub path: PathBuf,
    /// Where the right comes from.
    pub provenance: Provenance,
    /// What may be done in it.
    pub access: RootAccess,
    pub(crate) identity: Option<Identity>,
    pub(crate) handle: OnceLock<OwnedFd>,
}

/// The roots of one tool call, or of one batch.
#[derive(Debug)]
pub(crate) struct RootSet {
    pub(crate) roots: Vec<Arc<Root>>,
    /// What the owner granted and did not block, folded; files among it are no roots.
    pub(crate) granted: Vec<String>,
    blocked: Vec<Blocked>,
    /// Folded folders that hold a blocked root directly.
    pub(crate) blocked_parents: Vec<String>,
}

#[derive(Debug)]
struct Blocked {
    path: PathBuf,
    folded: String,
    identity: Option<Identity>,
}

/// Whether `path` is its own canonical name.
pub(crate) fn is_itself(path: &Path, found: &Resolved) -> bool {
    found.path.components().eq(path.components())
}

impl RootSet {
    /// Canonicalises first and compares then, so that neither a link nor a spelling brings back what
    /// is blocked or admits what is outside the home.
    pub(crate) fn compute(
        settings: &SandboxSettings,
        surroundings: &Surroundings,
        request: Option<&Path>,
        for_conversation: &[PathBuf],
    ) -> Self {
        let blocked_paths: Vec<Resolved> = settings
            .blocked_roots
            .iter()
            .flat_map(|path| resolve(path).into_iter().chain(literal(path)))
            .collect();
        let blocked = blocked_paths
            .iter()
            .map(|path| Blocked {
                path: path.path.clone(),
                folded: fold(&path.path),
                identity: path_identity(path),
            })
            .collect();
        let blocked_parents = blocked_paths
            .iter()
            .filter_map(|path| path.path.parent().map(fold))
            .collect();
        let mut set = Self {
            roots: Vec::new(),
            granted: Vec::new(),
            blocked,
            blocked_parents,
        };

        // A grant is for a folder, not for a name: one whose name leads elsewhere by now, because a link
        // took its place, opens nothing.
        let as_named = |paths: &[PathBuf]| -> Vec<Resolved> {
            paths
                .iter()
                .filter_map(|path| resolve(path).ok().filter(|found| is_itself(path, found)))
                .collect()
        };
        let granted = as_named(&settings.allowed_roots);
        set.granted = granted
            .iter()
            .filter(|grant| !set.blocks(grant))
            .map(|grant| fold(&grant.path))
            .collect();
        let by_mode = mode_roots(settings, surroundings, request);
        let is_granted = |path: &Path| granted.iter().any(|grant| grant.path == path);
        // What may be changed comes first: a grant for reading takes nothing away from it.
        let candidates = by_mode
            .into_iter()
            .chain(granted.iter().cloned())
            .map(|found| (found, Provenance::Mode, RootAccess::ReadWrite))
            .chain(
                as_named(for_conversation)
                    .into_iter()
                    .map(|found| (found, Provenance::Conversation, RootAccess::ReadWrite)),
            )
            .chain(
                as_named(&settings.read_roots)
                    .into_iter()
                    .map(|found| (found, Provenance::Granted, RootAccess::ReadOnly)),
            );
        for (candidate, provenance, access) in candidates {
            let is_folder = matches!(candidate.kind, Some(FileType::Directory) | None);
            if !is_folder
                || set.blocks(&candidate)
                || set.roots.iter().any(|root| root.path == candidate.path)
            {
                continue;
            }
            let provenance = if is_granted(&candidate.path) {
                Provenance::Granted
            } else {
                provenance
            };
            let identity = path_identity(&candidate);
            set.roots.push(Arc::new(Root {
                path: candidate.path,
                provenance,
                access,
                identity,
                handle: OnceLock::new(),
            }));
        }
        set
    }

    /// Whether the object lies in a blocked folder, by name or by identity.
    pub(crate) fn blocks(&self, object: &Resolved) -> bool {
        self.blocking(object).is_some()
    }

    /// The blocked folder the object lies in.
    pub(crate) fn blocking(&self, object: &Resolved) -> Option<&Path> {
        if self.blocked.is_empty() {
            return None;
        }
        let folded = fold(&object.path);
        let found = self.blocked.iter().find(|blocked| {
            is_within(&folded, &blocked.folded)
                || blocked
                    .identity
                    .is_some_and(|identity| object.identities.contains(&identity))
        });
        found.map(|blocked| blocked.path.as_path())
    }

    /// The narrowest root that holds the canonical `path` and admits `access`.
    pub(crate) fn holding(&self, path: &Path, access: Access) -> Option<&Arc<Root>> {
        // `Path::starts_with` compares whole components: `/work-evil` does not start with `/work`.
        self.roots
            .iter()
            .filter(|root| root.access.admits(access) && path.starts_with(&root.path))
            .max_by_key(|root| root.path.as_os_str().len())
    }
}

/// A blocked root that cannot be resolved still blocks its literal name.
fn literal(path: &Path) -> Option<Resolved> {
    Some(Resolved {
        path: path.to_owned(),
        identities: Vec::new(),
        kind: None,
    })
}

fn path_identity(object: &Resolved) -> Option<Identity> {
    object.kind.and_then(|_| object.identities.last().copied())
}

fn mode_roots(
    settings: &SandboxSettings,
    surroundings: &Surroundings,
    request: Option<&Path>,
) -> Vec<Resolved> {
    let workspace = resolve(&settings.workspace_root).ok();
    match settings.mode {
        SandboxMode::Strict => workspace.into_iter().collect(),
        SandboxMode::Standard => {
            let skills = resolve(&surroundings.fermix_home.join("skills")).ok();
            let started_in = surroundings
                .launch_dir
                .as_deref()
                .and_then(|folder| admitted(folder, surroundings));
            let asked_from = request.and_then(|folder| admitted(folder, surroundings));
            [workspace, skills, started_in, asked_from]
                .into_iter()
                .flatten()
                .collect()
        }
        SandboxMode::Open => {
            let home = resolve(&surroundings.home).ok();
            // A workspace outside the home is still the workspace.
            let apart = workspace.filter(|workspace| {
                home.as_ref()
                    .is_none_or(|home| !workspace.path.starts_with(&home.path))
            });
            home.into_iter().chain(apart).collect()
        }
    }
}

/// A launch or request folder becomes a root only when it is a folder strictly inside the home:
/// the home itself would silently turn `standard` into `open`.
fn admitted(folder: &Path, surroundings: &Surroundings) -> Option<Resolved> {
    let folder = resolve(folder)
        .ok()
        .filter(|found| found.kind == Some(FileType::Directory))?;
    let home = resolve(&surroundings.home).ok()?;
    let fermix_home = resolve(&surroundings.fermix_home).ok()?;
    let strictly_inside = folder.path.starts_with(&home.path)
        && folder.path != home.path
        && home.path != Path::new("/");
    (strictly_inside && folder.path != fermix_home.path).then_some(folder)
}

/// Why a folder may never be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeRoot {
    /// Not an existing folder.
    #[error("it is not an existing directory")]
    NotADirectory,
    /// A whole system tree.
    #[error("it is a system folder")]
    System,
    /// The home or something that contains it.
    #[error("it is the home folder or contains it")]
    Home,
    /// Fermix's own home or something that contains it.
    #[error("it is Fermix's own folder or contains it")]
    FermixHome,
    /// A protected path or something below one.
    #[error("it is protected")]
    Protected,
}

/// Whether `path` may be granted; the canonical folder when it may.
pub(crate) fn safe_to_grant(
    path: &Path,
    surroundings: &Surroundings,
    protected: &Protected,
) -> Result<PathBuf, UnsafeRoot> {
    let folder = resolve(path).map_err(|_| UnsafeRoot::NotADirectory)?;
    let folded = fold(&folder.path);
    let contains =
        |inner: &Path| resolve(inner).map_or(true, |inner| is_within(&fold(&inner.path), &folded));
    if [
        "/",
        "/home",
        "/users",
        "/var",
        "/proc",
        "/sys",
        "/dev",
        "/run",
        "/var/run",
        "/tmp",
        "/private/tmp",
    ]
    .contains(&folded.as_str())
    {
        return Err(UnsafeRoot::System);
    }
    if contains(&surroundings.home) {
        return Err(UnsafeRoot::Home);
    }
    if contains(&surroundings.fermix_home) {
        return Err(UnsafeRoot::FermixHome);
    }
    if protected.covers(&folder) {
        return Err(UnsafeRoot::Protected);
    }
    if folder.kind != Some(FileType::Directory) {
        return Err(UnsafeRoot::NotADirectory);
    }
    Ok(folder.path)
}
