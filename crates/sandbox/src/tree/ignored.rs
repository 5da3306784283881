//! What `.gitignore` files leave out. Each is read below a descriptor, like every other file.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags};

use crate::beneath;
use crate::sandbox::Checked;

/// The longest ignore file that is honoured, in bytes.
const MAX_RULES: u64 = 1024 * 1024;

/// The rules that hold in one folder: its own, then those of the folder above, and so on.
#[derive(Debug)]
pub(super) struct Ignored {
    rules: Gitignore,
    above: Option<Arc<Ignored>>,
}

impl Ignored {
    /// The rules of the folders above the start of a walk, from the repository's root down. Nothing
    /// when the start is not inside a repository that itself lies inside the policy's root.
    pub(super) fn above(checked: &Checked) -> Option<Arc<Self>> {
        let root = checked.root.descriptor().ok()?;
        let start = &checked.object.path;
        let open = |path: &Path| {
            let relative = path.strip_prefix(&checked.root.path).ok()?;
            let relative = if relative.as_os_str().is_empty() {
                Path::new(".")
            } else {
                relative
            };
            beneath::open(
                root,
                relative,
                OFlags::RDONLY | OFlags::DIRECTORY,
                Mode::empty(),
            )
            .ok()
        };
        let within: Vec<&Path> = start
            .ancestors()
            .take_while(|folder| folder.starts_with(&checked.root.path))
            .collect();
        let top = within
            .iter()
            .position(|folder| open(&folder.join(".git")).is_some())?;
        let mut rules = open(&within[top].join(".git"))
            .and_then(|git| Self::read(None, git.as_fd(), "info/exclude", within[top]));
        // The start's own rules are read when the walk enters it.
        for folder in within[..=top].iter().skip(1).rev() {
            if let Some(handle) = open(folder) {
                rules = Self::below(rules, handle.as_fd(), folder);
            }
        }
        rules
    }

    /// The rules inside the folder `path`, given those of the folder above it.
    pub(super) fn below(
        above: Option<Arc<Self>>,
        folder: BorrowedFd<'_>,
        path: &Path,
    ) -> Option<Arc<Self>> {
        Self::read(above.clone(), folder, ".gitignore", path).or(above)
    }

    fn read(
        above: Option<Arc<Self>>,
        folder: BorrowedFd<'_>,
        name: &str,
        base: &Path,
    ) -> Option<Arc<Self>> {
        let opened = beneath::open(
            folder,
            Path::new(name),
            OFlags::RDONLY | OFlags::NONBLOCK,
            Mode::empty(),
        )
        .ok()?;
        let file = File::from(opened);
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(MAX_RULES).read_to_end(&mut bytes).ok()?;
        let mut builder = GitignoreBuilder::new(base);
        for line in String::from_utf8_lossy(&bytes).lines() {
            // A line that is not a pattern is one pattern less, as Git has it.
            let _ = builder.add_line(None, line);
        }
        let rules = builder.build().ok().filter(|rules| !rules.is_empty())?;
        Some(Arc::new(Self { rules, above }))
    }

    /// Whether the rules leave `path` out. The nearest folder's rule decides.
    pub(super) fn leaves_out(&self, path: &Path, is_folder: bool) -> bool {
        match self.rules.matched(path, is_folder) {
            Match::Ignore(_) => true,
            Match::Whitelist(_) => false,
            Match::None => self
                .above
                .as_ref()
                .is_some_and(|above| above.leaves_out(path, is_folder)),
        }
    }
}
