//! From policy to the view of one command: what it sees of the disk, and what it may do with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::plan::{Grant, Link, Mount, MountKind, Rule};
use super::programs;
use super::settings::ConfineSettings;
use crate::jail::Jail;
use crate::names::{fold, is_within_or_variant};
use crate::protected::{Protected, names_of};
use crate::settings::{SandboxSettings, Surroundings};

/// How long what the search path leads to is trusted.
const PROGRAMS_FRESH: Duration = Duration::from_secs(30);
/// The most rules a tree is taken apart into where only Landlock can close a part of it.
const MAX_PARTS: usize = 4096;
/// The most entries of one folder that are compared with protected names.
const MAX_ENTRIES: usize = 16_384;

/// The part of the policy that confinement needs.
pub(crate) struct ViewPolicy {
    pub(crate) settings: ConfineSettings,
    pub(crate) launch_env: LaunchEnv,
    /// The owner's home as named and as it resolves; the second is used.
    homes: Vec<PathBuf>,
    fermix_homes: Vec<PathBuf>,
    open_parts: Vec<PathBuf>,
    /// Closed wherever they lie.
    closed: Vec<PathBuf>,
    /// The running program: seen, never changed.
    executables: Vec<PathBuf>,
    search_path: OsString,
    programs: Mutex<Option<(Instant, Arc<Vec<PathBuf>>)>>,
}

/// Where the owner's session keeps its sockets.
#[derive(Debug, Default)]
pub(crate) struct LaunchEnv {
    pub(crate) ssh_agent: Option<PathBuf>,
}

/// What one command sees.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// By canonical path: what a tree or file is shown as.
    shown: BTreeMap<PathBuf, Shown>,
    closed: BTreeMap<PathBuf, MountKind>,
    links: Vec<Link>,
    /// Folders that a command must not be able to move: what lies in them is told by its name.
    roots: BTreeSet<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Settings,
    Programs,
    /// Read-only although what lies around it may be changed.
    ReadOnly,
    Writable,
}

/// The view of a turn's commands, for `explain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ViewSummary {
    /// Trees and files a command may change. It has a `/tmp` of its own besides.
    pub writable: Vec<PathBuf>,
    /// Trees and files it may read.
    pub read_only: Vec<PathBuf>,
    /// What is closed to it although it lies in one of those.
    pub masked: Vec<PathBuf>,
}

impl ViewPolicy {
    pub(crate) fn new(
        settings: &SandboxSettings,
        surroundings: &Surroundings,
        protected: &Protected,
        search_path: OsString,
    ) -> Self {
        let mut closed: Vec<PathBuf> = protected.closed_to_commands().map(Path::to_owned).collect();
        let blocked = settings.blocked_roots.iter();
        closed.extend(blocked.flat_map(|path| names_of(path)));
        closed.extend(
            programs::NOT_IN_TOOLCHAINS
                .iter()
                .map(|name| surroundings.home.join(name)),
        );
        let variable = |name| surroundings.variable(name).map(PathBuf::from);
        let ssh_agent = variable("SSH_AUTH_SOCK").filter(|path| path.is_absolute());
        closed.extend(
            variable("XDG_RUNTIME_DIR")
                .iter()
                .flat_map(|path| names_of(path)),
        );
        if rustix::process::geteuid().is_root() {
            closed.extend(programs::SETTINGS_OF_ROOT.iter().map(PathBuf::from));
        }
        Self {
            settings: settings.confine.clone(),
            launch_env: LaunchEnv { ssh_agent },
            homes: names_of(&surroundings.home),
            fermix_homes: names_of(&surroundings.fermix_home),
            open_parts: protected.open_parts().map(Path::to_owned).collect(),
            closed,
            executables: names_of(&surroundings.executable),
            search_path,
            programs: Mutex::new(None),
        }
    }

    fn home(&self) -> &Path {
        self.homes.last().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// The view `jail` stands for, as the disk is now.
    pub(crate) fn view(&self, jail: &Jail) -> View {
        let mut view = View::default();
        for path in programs::SYSTEM {
            view.show(Path::new(path), Shown::Programs);
        }
        for path in programs::SETTINGS {
            view.show(Path::new(path), Shown::Settings);
        }
        for path in programs::LINKED_SETTINGS {
            view.show_target(Path::new(path));
        }
        let home = self.home();
        if jail.toolchains {
            // The program itself answers there, if only to say that a command is not the owner.
            for path in &self.executables {
                view.show(path, Shown::ReadOnly);
            }
            for path in self.programs().iter() {
                if !self.is_around_home(path) {
                    view.show(path, Shown::Programs);
                }
            }
            for name in programs::TOOLCHAINS {
                if !is_planted(&home.join(name), jail) {
                    view.show(&home.join(name), Shown::Programs);
                }
            }
            for name in programs::CACHES {
                if !is_planted(&home.join(name), jail) {
                    view.show(&made(home, name), Shown::Writable);
                }
            }
        }
        for path in &jail.readable {
            view.show(path, Shown::ReadOnly);
        }
        for path in &jail.writable {
            view.show(path, Shown::Writable);
        }
        view.roots
            .extend(jail.readable.iter().chain(&jail.writable).cloned());
        self.close(&mut view);
        if jail.ssh {
            // After what is closed: these are the parts of it that the owner opened.
            for name in programs::SSH_SETTINGS {
                view.show(&home.join(name), Shown::ReadOnly);
            }
            if let Some(agent) = &self.launch_env.ssh_agent {
                view.show(agent, Shown::Writable);
            }
        }
        for named in self.homes.iter().chain(&self.fermix_homes) {
            view.link_to(named);
        }
        view.drop_what_is_shown_anyway();
        view
    }

    fn programs(&self) -> Arc<Vec<PathBuf>> {
        let mut cached = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cached {
            Some((found, programs)) if found.elapsed() < PROGRAMS_FRESH => programs.clone(),
            _ => {
                let programs = Arc::new(programs::on(&self.search_path, self.home()));
                *cached = Some((Instant::now(), programs.clone()));
                programs
            }
        }
    }

    /// A folder on the search path must not open the home or what contains it.
    fn is_around_home(&self, path: &Path) -> bool {
        names_of(path).iter().any(|path| {
            self.homes
                .iter()
                .chain(&self.fermix_homes)
                .any(|home| home.starts_with(path))
        })
    }

    /// Takes out of `view` what is closed, and covers it where it lies in something shown.
    fn close(&self, view: &mut View) {
        let mut closed: Vec<PathBuf> = Vec::new();
        for path in &self.closed {
            closed.push(path.clone());
            if view.shows(path.parent().unwrap_or(path)) {
                closed.extend(variants(path));
            }
        }
        let fermix_homes = &self.fermix_homes;
        let is_open = |path: &Path| {
            let is_in_home = fermix_homes.iter().any(|home| path.starts_with(home));
            !is_in_home || self.open_parts.iter().any(|open| path.starts_with(open))
        };
        view.shown.retain(|path, _| {
            is_open(path) && !closed.iter().any(|closed| path.starts_with(closed))
        });
        let closed_for_good = closed.clone();
        for path in closed {
            // A link's own name holds nothing; what it leads to is closed where it really lies, also
            // when a folder on the way is the link.
            let Ok(path) = path.canonicalize() else {
                continue;
            };
            let Ok(found) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            if found.is_symlink() || !view.shows(&path) {
                continue;
            }
            let kind = if found.is_dir() {
                MountKind::ClosedFolder
            } else {
                MountKind::ClosedFile
            };
            view.closed.insert(path, kind);
        }
        for home in fermix_homes {
            let Some((_, outer)) = view.around(home) else {
                continue;
            };
            if !home.is_dir() || home.is_symlink() {
                continue;
            }
            // The passage shows nothing of it, so there is nothing left in it to close.
            view.closed
                .retain(|path, _| !path.starts_with(home) || is_open(path));
            view.closed.insert(home.clone(), MountKind::Passage);
            for open in self.open_parts.iter().filter(|open| open.starts_with(home)) {
                if open.is_dir() && !open.is_symlink() && !closed_for_good.contains(open) {
                    view.shown.entry(open.clone()).or_insert(outer);
                }
            }
        }
        for program in &self.executables {
            let is_writable = matches!(view.around(program), Some((_, Shown::Writable)));
            if is_writable && program.is_file() && !program.is_symlink() {
                view.shown.insert(program.clone(), Shown::ReadOnly);
            }
        }
    }
}

/// Whether a name in the home leads through a link that a command may have put there: then it opens
/// nothing of its own.
fn is_planted(path: &Path, jail: &Jail) -> bool {
    let Ok(target) = path.canonicalize() else {
        return false;
    };
    target != path
        && path
            .ancestors()
            .skip(1)
            .any(|folder| jail.writable.iter().any(|root| folder.starts_with(root)))
}

/// A cache that is not there yet is made, if what it belongs to is there.
fn made(home: &Path, name: &str) -> PathBuf {
    let path = home.join(name);
    let owner = match Path::new(name).parent() {
        Some(owner) if !owner.as_os_str().is_empty() => home.join(owner),
        _ => home.to_owned(),
    };
    if !path.exists() && owner.is_dir() {
        // One that cannot be made is not shown.
        let _ = std::fs::create_dir(&path);
    }
    path
}

/// Names beside `path` that are protected with it.
fn variants(path: &Path) -> Vec<PathBuf> {
    let Some(folder) = path.parent() else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let folded = fold(path);
    entries
        .take(MAX_ENTRIES)
        .flatten()
        .map(|entry| entry.path())
        .filter(|entry| entry != path && is_within_or_variant(&fold(entry), &folded))
        .collect()
}

impl View {
    /// Shows what `path` leads to, and `path` as a link to it if it is one.
    fn show(&mut self, path: &Path, how: Shown) {
        let Ok(target) = path.canonicalize() else {
            return;
        };
        if target == Path::new("/") {
            return;
        }
        if target != path {
            self.links.push(Link {
                path: path.to_owned(),
                target: target.clone(),
            });
        }
        let shown = self.shown.entry(target).or_insert(how);
        *shown = (*shown).max(how);
    }

    /// Shows where a link in the settings leads, if that is not shown anyway.
    fn show_target(&mut self, path: &Path) {
        if let Ok(target) = path.canonicalize()
            && !self.shows(&target)
        {
            self.shown.insert(target, Shown::Settings);
        }
    }

    fn link_to(&mut self, named: &Path) {
        if let Ok(target) = named.canonicalize()
            && target != named
        {
            self.links.push(Link {
                path: named.to_owned(),
                target,
            });
        }
    }

    fn around(&self, path: &Path) -> Option<(&Path, Shown)> {
        path.ancestors()
            .find_map(|each| self.shown.get_key_value(each))
            .map(|(path, shown)| (path.as_path(), *shown))
    }

    fn shows(&self, path: &Path) -> bool {
        self.around(path).is_some()
    }

    /// Whether a command may stand in `folder`.
    pub(crate) fn has_folder(&self, folder: &Path) -> bool {
        let Some((around, _)) = self.around(folder) else {
            return false;
        };
        // What is closed on the way from there.
        !folder
            .ancestors()
            .take_while(|each| each.starts_with(around) && *each != around)
            .any(|each| self.closed.contains_key(each))
    }

    /// A tree inside another that is shown no less needs no place of its own, unless something
    /// between them is closed.
    fn drop_what_is_shown_anyway(&mut self) {
        let redundant: Vec<PathBuf> = self
            .shown
            .iter()
            .filter(|(path, shown)| {
                let Some(parent) = path.parent() else {
                    return false;
                };
                let Some((around, outer)) = self.around(parent) else {
                    return false;
                };
                let is_apart = self
                    .closed
                    .keys()
                    .any(|closed| closed.starts_with(around) && path.starts_with(closed));
                let is_no_less = outer == **shown
                    || (outer == Shown::Writable && **shown == Shown::Programs)
                    || (outer == Shown::Programs && **shown != Shown::Writable);
                !is_apart && is_no_less && !self.roots.contains(*path)
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in redundant {
            self.shown.remove(&path);
        }
    }

    /// The pieces of the view, outer ones first.
    pub(crate) fn mounts(&self) -> Vec<Mount> {
        let mut mounts: Vec<Mount> = self
            .shown
            .iter()
            .map(|(path, shown)| Mount {
                path: path.clone(),
                kind: match shown {
                    Shown::Writable => MountKind::Writable,
                    Shown::Settings | Shown::Programs | Shown::ReadOnly => MountKind::ReadOnly,
                },
            })
            .chain(self.closed.iter().map(|(path, kind)| Mount {
                path: path.clone(),
                kind: *kind,
            }))
            .collect();
        let pins = self.pins(&mounts);
        mounts.extend(pins);
        mounts.sort_by_key(|mount| mount.path.components().count());
        mounts
    }

    /// The folders between something that has a place of its own and the writable tree it lies in. As
    /// mounts on themselves they cannot be renamed, and with them would go what is closed by its name.
    fn pins(&self, mounts: &[Mount]) -> Vec<Mount> {
        let mut pinned: BTreeSet<PathBuf> = BTreeSet::new();
        for mount in mounts {
            let Some(folder) = mount.path.parent() else {
                continue;
            };
            let Some((around, Shown::Writable)) = self.around(folder) else {
                continue;
            };
            let between = folder
                .ancestors()
                .take_while(|each| each.starts_with(around) && *each != around);
            pinned.extend(between.map(Path::to_owned));
        }
        let has_place = |path: &PathBuf| mounts.iter().any(|mount| mount.path == *path);
        pinned
            .into_iter()
            .filter(|path| !has_place(path) && path.is_dir() && !path.is_symlink())
            .map(|path| Mount {
                path,
                kind: MountKind::Writable,
            })
            .collect()
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        self.links.clone()
    }

    /// What Landlock allows where the view is already narrowed to what is shown.
    pub(crate) fn rules_inside(&self) -> Vec<Rule> {
        let fixed = [
            ("/", Grant::List),
            ("/proc", Grant::Read),
            ("/dev", Grant::Devices),
            ("/dev/shm", Grant::Everything),
            ("/tmp", Grant::Everything),
        ];
        let shown = self.shown.iter().map(|(path, shown)| Rule {
            path: path.clone(),
            grant: grant(*shown),
        });
        fixed
            .map(|(path, grant)| Rule {
                path: path.into(),
                grant,
            })
            .into_iter()
            .chain(shown)
            .collect()
    }

    /// What Landlock allows where it alone decides. It cannot take a part out of a tree, so a tree
    /// with something closed in it is allowed child by child: nothing new can then be made in the
    /// folders on the way.
    pub(crate) fn rules_outside(&self, scratch: Option<&Path>) -> Vec<Rule> {
        let fixed = [
            ("/proc", Grant::Read),
            ("/dev/null", Grant::Devices),
            ("/dev/zero", Grant::Devices),
            ("/dev/full", Grant::Devices),
            ("/dev/random", Grant::Devices),
            ("/dev/urandom", Grant::Devices),
            ("/dev/ptmx", Grant::Devices),
            ("/dev/pts", Grant::Devices),
            ("/dev/shm", Grant::Everything),
        ];
        let mut rules: Vec<Rule> = fixed
            .map(|(path, grant)| Rule {
                path: path.into(),
                grant,
            })
            .into();
        rules.extend(scratch.map(|path| Rule {
            path: path.to_owned(),
            grant: Grant::Everything,
        }));
        for (path, shown) in &self.shown {
            self.take_apart(path, *shown, &mut rules);
        }
        rules
    }

    fn take_apart(&self, path: &Path, shown: Shown, rules: &mut Vec<Rule>) {
        // Rights only add up, so a part that is shown for less must be left out of the whole.
        let lesser = self
            .shown
            .iter()
            .filter(|(_, part)| shown == Shown::Writable && **part == Shown::ReadOnly)
            .map(|(part, _)| part);
        let apart: Vec<&PathBuf> = self
            .closed
            .keys()
            .chain(lesser)
            .filter(|part| part.starts_with(path))
            .collect();
        let mut pending = vec![path.to_owned()];
        while let Some(folder) = pending.pop() {
            if apart.contains(&&folder) {
                continue;
            }
            if !apart.iter().any(|part| part.starts_with(&folder)) {
                rules.push(Rule {
                    path: folder,
                    grant: grant(shown),
                });
                continue;
            }
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            let room = MAX_PARTS.saturating_sub(rules.len() + pending.len());
            pending.extend(entries.flatten().take(room).map(|entry| entry.path()));
        }
    }

    pub(crate) fn summary(&self) -> ViewSummary {
        let with = |writable: bool| {
            self.shown
                .iter()
                .filter(|(_, shown)| (**shown == Shown::Writable) == writable)
                .map(|(path, _)| path.clone())
                .collect()
        };
        ViewSummary {
            writable: with(true),
            read_only: with(false),
            masked: self.closed.keys().cloned().collect(),
        }
    }
}

fn grant(shown: Shown) -> Grant {
    match shown {
        Shown::Settings => Grant::Read,
        Shown::Programs | Shown::ReadOnly => Grant::ReadAndRun,
        Shown::Writable => Grant::Everything,
    }
}
