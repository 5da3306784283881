//! Which folder a command runs in, and relative paths start from.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use crate::beneath::Miss;
use crate::denial::{Access, DenialReason, Denied};
use crate::read::{MAX_RESOLVES, ReadablePath, open_beneath};
use crate::resolve::resolve;
use crate::roots::RootSet;
use crate::sandbox::{Checked, Inner, Sandbox};
use crate::settings::Scope;

/// A folder commands may run in, held open so that it stays the folder that was checked.
#[derive(Clone, Debug)]
pub struct WorkingDir {
    path: PathBuf,
    pub(crate) handle: Arc<OwnedFd>,
}

impl WorkingDir {
    /// The canonical path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder that did not pass the policy, for commands that are not a turn's: helpers and probes.
    pub(crate) fn unchecked(path: &Path) -> Result<Self, std::io::Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
        Ok(Self {
            path: path.to_owned(),
            handle: Arc::new(handle),
        })
    }
}

impl Sandbox {
    /// The folder a command of this turn runs in: the requested one, else the turn's folder, else the
    /// default.
    pub fn working_dir(
        &self,
        requested: Option<&str>,
        scope: &Scope,
    ) -> Result<WorkingDir, Denied> {
        let requested = self.requested_or_default(requested, Access::Execute, scope)?;
        let mut checked = self.checked_folder(&requested, Access::Execute, scope)?;
        for _ in 0..=MAX_RESOLVES {
            if checked.object.kind != Some(FileType::Directory) {
                return Err(checked.denied(DenialReason::MissingWorkingDir));
            }
            match open_beneath(&checked, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(handle) => {
                    return Ok(WorkingDir {
                        path: checked.object.path,
                        handle: Arc::new(handle),
                    });
                }
                Err(Miss::Changed) => checked = checked.again()?,
                Err(Miss::NotFound) => return Err(checked.denied(DenialReason::MissingWorkingDir)),
                Err(Miss::Other(error)) => {
                    return Err(checked
                        .denied(DenialReason::InvalidWorkingDir)
                        .because(error.to_string()));
                }
            }
        }
        Err(checked.denied(DenialReason::PathChanged))
    }

    /// Where a search starts: the requested path, else the turn's folder, else the default.
    pub fn search_root(
        &self,
        requested: Option<&str>,
        scope: &Scope,
    ) -> Result<ReadablePath, Denied> {
        let requested = self.requested_or_default(requested, Access::Read, scope)?;
        self.readable(&requested, scope)
    }

    fn checked_folder(
        &self,
        requested: &str,
        access: Access,
        scope: &Scope,
    ) -> Result<Checked, Denied> {
        self.check(requested, access, scope)
            .map_err(|denied| match denied.reason {
                DenialReason::InvalidPath => {
                    let detail = denied.detail.clone().unwrap_or_default();
                    Denied::new(DenialReason::InvalidWorkingDir, access, denied.path)
                        .because(detail)
                }
                _ => denied,
            })
    }

    fn requested_or_default(
        &self,
        requested: Option<&str>,
        access: Access,
        scope: &Scope,
    ) -> Result<String, Denied> {
        if let Some(requested) = requested {
            return Ok(requested.to_owned());
        }
        let inner = self.now();
        let workspace = &inner.settings.workspace_root;
        let folder = inner
            .default_folder(&inner.roots(scope), scope)
            .ok_or_else(|| {
                let denied =
                    Denied::new(DenialReason::MissingWorkingDir, access, workspace.clone());
                inner.record_denial(&denied, "deny", scope);
                denied
            })?;
        folder.into_os_string().into_string().map_err(|folder| {
            Denied::new(
                DenialReason::InvalidWorkingDir,
                access,
                PathBuf::from(folder),
            )
            .because("its name is not valid UTF-8")
        })
    }
}

impl Inner {
    /// The turn's folder if the policy admits it, else the launch folder if it lies in a root, else
    /// the workspace, else the first root that is a folder.
    pub(crate) fn default_folder(&self, roots: &RootSet, scope: &Scope) -> Option<PathBuf> {
        let usable = |folder: &Path| {
            let folder = resolve(folder).ok()?;
            let is_open = folder.kind == Some(FileType::Directory)
                && self.decide(&folder, Access::Execute, roots).is_ok();
            is_open.then_some(folder.path)
        };
        scope
            .cwd
            .as_deref()
            .and_then(usable)
            .or_else(|| self.surroundings.launch_dir.as_deref().and_then(usable))
            .or_else(|| usable(&self.settings.workspace_root))
            .or_else(|| roots.roots.iter().find_map(|root| usable(&root.path)))
    }
}
