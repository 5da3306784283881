//! What no tool may read or write, whatever was granted.
//!
//! Four tests, each for what the one before cannot see: the folded name; the identity of the object
//! and of the folders it lies in (bind mounts, a member that is a link); the places where mounts
//! show a part of a protected folder; and, for a file with more than one name, whether one of its
//! names lies in a protected tree (hard links).
//!
//! Fermix's home is protected as a whole. What tools may reach lies inside it: the workspace and the
//! skills.

mod aliases;
mod list;
mod mounts;

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::aliases::Aliases;
use self::list::{IN_FERMIX_HOME, IN_HOME, OPEN_IN_FERMIX_HOME, OS_ROOTS, SYSTEM_OBJECTS};
use self::mounts::Mounts;
use crate::names::{fold, is_within, is_within_or_variant};
use crate::resolve::{Identity, Resolved, resolve};
use crate::settings::Surroundings;

/// How long the identities of the members are trusted.
const IDENTITIES_FRESH: Duration = Duration::from_secs(1);

/// The protected set of one Fermix home.
#[derive(Debug)]
pub(crate) struct Protected {
    members: Vec<Member>,
    /// Fermix's home as named and as it resolves.
    homes: Vec<Folder>,
    /// What tools may reach of it.
    open: Vec<Folder>,
    /// Folded folders that hold a member directly; anywhere else a name need not be looked at.
    parents: HashSet<String>,
    /// Folded folders whose sockets are the daemon's.
    socket_folders: Vec<String>,
    identities: Mutex<Option<(Instant, Identities)>>,
    mounts: Mounts,
    aliases: Aliases,
}

#[derive(Debug)]
struct Member {
    path: PathBuf,
    folded: String,
    /// What it holds, for the words of a refusal.
    holds: &'static str,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    folded: String,
}

impl Folder {
    fn new(path: PathBuf) -> Self {
        Self {
            folded: fold(&path),
            path,
        }
    }
}

#[derive(Debug, Default)]
struct Identities {
    members: HashSet<Identity>,
    homes: HashSet<Identity>,
    open: HashSet<Identity>,
}

const OF_THE_SYSTEM: &str = "belongs to the operating system";
const CREDENTIALS: &str = "holds credentials or private data";
const STATE: &str = "holds Fermix's own state";
const PROGRAM: &str = "is the running program";

impl Protected {
    /// The set around `workspace`, with the folders `private` added.
    pub(crate) fn new(surroundings: &Surroundings, workspace: &Path, private: &[PathBuf]) -> Self {
        let homes: Vec<Folder> = names_of(&surroundings.fermix_home)
            .into_iter()
            .map(Folder::new)
            .collect();
        let open = open_parts(&homes, workspace);
        let (members, searched) = members(surroundings, private);
        let mut socket_folders: Vec<String> =
            homes.iter().map(|home| home.folded.clone()).collect();
        if let Some(folder) = surroundings.variable("XDG_RUNTIME_DIR") {
            socket_folders.extend(names_of(Path::new(folder)).iter().map(|path| fold(path)));
        }
        let named = members.iter().map(|member| &member.path);
        let mut parents: HashSet<String> = named
            .chain(homes.iter().map(|home| &home.path))
            .filter_map(|path| path.parent().map(fold))
            .collect();
        parents.extend(socket_folders.iter().cloned());

        let paths = |folders: &[Folder]| -> Vec<PathBuf> {
            folders.iter().map(|folder| folder.path.clone()).collect()
        };
        let closed = members.iter().map(|member| member.path.clone());
        let mounts = Mounts::new(closed.chain(paths(&homes)).collect(), paths(&open));
        let trees = searched.into_iter().chain(paths(&homes)).collect();
        let aliases = Aliases::new(trees, paths(&open));
        Self {
            members,
            homes,
            open,
            parents,
            socket_folders,
            identities: Mutex::new(None),
            mounts,
            aliases,
        }
    }

    /// The members, as they were named, for `explain`.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let homes = self.homes.iter().map(|home| home.path.as_path());
        homes.chain(self.members.iter().map(|member| member.path.as_path()))
    }

    /// What commands must not see wherever it lies. The system's own folders are not among it: a
    /// command reads programs and settings there. Nor is the running program, which may be run.
    pub(crate) fn closed_to_commands(&self) -> impl Iterator<Item = &Path> {
        let is_closed = |member: &&Member| {
            matches!(member.holds, CREDENTIALS | STATE)
                || SYSTEM_OBJECTS
                    .iter()
                    .any(|path| member.path == Path::new(path))
        };
        self.members
            .iter()
            .filter(is_closed)
            .map(|member| member.path.as_path())
    }

    /// The parts of Fermix's home that tools may reach.
    pub(crate) fn open_parts(&self) -> impl Iterator<Item = &Path> {
        self.open.iter().map(|folder| folder.path.as_path())
    }

    /// Whether what a path resolved to is protected.
    pub(crate) fn covers(&self, object: &Resolved) -> bool {
        let folded = fold(&object.path);
        self.covers_folded(&folded) || self.covers_reached(&folded, &object.identities)
    }

    fn covers_folded(&self, folded: &str) -> bool {
        self.members
            .iter()
            .any(|member| is_within_or_variant(folded, &member.folded))
            || self.is_socket(folded)
            || (holds(&self.homes, folded) && !holds(&self.open, folded))
            || self.mounts.cover(folded)
    }

    fn is_socket(&self, folded: &str) -> bool {
        self.socket_folders.iter().any(|folder| {
            folded
                .strip_prefix(folder.as_str())
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|name| name.ends_with(".sock") && !name.contains('/'))
        })
    }

    /// What protects the object, in words that follow the object's name.
    pub(crate) fn why(&self, object: &Resolved) -> String {
        let folded = fold(&object.path);
        let member = self
            .members
            .iter()
            .find(|member| is_within_or_variant(&folded, &member.folded));
        if let Some(member) = member {
            let path = member.path.display();
            return if object.path == member.path {
                format!("it {}", member.holds)
            } else {
                format!("`{path}` {}", member.holds)
            };
        }
        if holds(&self.homes, &folded) {
            return "Fermix's own home is closed but for the workspace and the skills".to_owned();
        }
        "it is another name of something protected".to_owned()
    }

    /// Whether the folder holds a protected member directly, or is one that only part of is closed.
    pub(crate) fn may_hold_member(&self, folder: &Path) -> bool {
        self.parents.contains(&fold(folder)) || self.is_passage(folder)
    }

    /// Whether the folder is a closed one on the way to an open part of Fermix's home. A search goes
    /// through it and sees nothing of it.
    pub(crate) fn is_passage(&self, folder: &Path) -> bool {
        let folded = fold(folder);
        holds(&self.homes, &folded)
            && self
                .open
                .iter()
                .any(|open| open.folded != folded && is_within(&open.folded, &folded))
            && !self
                .members
                .iter()
                .any(|member| is_within_or_variant(&folded, &member.folded))
    }

    /// Whether one of `identities` is that of a protected member.
    pub(crate) fn covers_identity(&self, identities: &[Identity]) -> bool {
        self.with_identities(|known| {
            identities
                .iter()
                .any(|each| known.members.contains(each) || known.homes.contains(each))
        })
    }

    /// The same for an object and the folders it was reached through, by a name or another.
    fn covers_reached(&self, folded: &str, identities: &[Identity]) -> bool {
        self.with_identities(|known| {
            let any = |set: &HashSet<Identity>| identities.iter().any(|each| set.contains(each));
            let is_in_home = any(&known.homes) && !any(&known.open) && !holds(&self.open, folded);
            any(&known.members) || is_in_home
        })
    }

    fn with_identities(&self, ask: impl FnOnce(&Identities) -> bool) -> bool {
        let mut cached = self
            .identities
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_fresh = matches!(&*cached, Some((built, _)) if built.elapsed() < IDENTITIES_FRESH);
        if !is_fresh {
            let of = |path: &Path| {
                let found = fs::metadata(path).ok()?;
                Some((found.dev(), found.ino()))
            };
            // What is open is open as itself. A link to somewhere else opens nothing.
            let of_itself = |path: &Path| {
                let found = fs::symlink_metadata(path).ok()?;
                found.is_dir().then(|| (found.dev(), found.ino()))
            };
            let found = Identities {
                members: self
                    .members
                    .iter()
                    .filter_map(|member| of(&member.path))
                    .collect(),
                homes: self
                    .homes
                    .iter()
                    .filter_map(|home| of(&home.path))
                    .collect(),
                open: self
                    .open
                    .iter()
                    .filter_map(|open| of_itself(&open.path))
                    .collect(),
            };
            *cached = Some((Instant::now(), found));
        }
        cached.as_ref().is_some_and(|(_, known)| ask(known))
    }

    /// Whether the opened file is, or cannot be shown not to be, a protected file under another name.
    pub(crate) fn covers_alias(&self, file: &Metadata) -> bool {
        self.aliases.cover(file)
    }
}

fn holds(folders: &[Folder], folded: &str) -> bool {
    folders
        .iter()
        .any(|folder| is_within(folded, &folder.folded))
}

/// The parts of Fermix's home that tools may reach: strictly inside it.
fn open_parts(homes: &[Folder], workspace: &Path) -> Vec<Folder> {
    let fixed = homes
        .iter()
        .flat_map(|home| OPEN_IN_FERMIX_HOME.iter().map(|name| home.path.join(name)));
    fixed
        .chain(names_of(workspace))
        .map(Folder::new)
        .filter(|open| {
            holds(homes, &open.folded) && !homes.iter().any(|home| home.folded == open.folded)
        })
        .collect()
}

/// The members, and which of them are looked through for files with other names. The OS trees are
/// too large for that, and what is in them is readable under its own name to any command anyway.
fn members(surroundings: &Surroundings, private: &[PathBuf]) -> (Vec<Member>, Vec<PathBuf>) {
    let home = &surroundings.home;
    let fermix_home = &surroundings.fermix_home;
    let mut wanted: Vec<(PathBuf, &'static str)> = Vec::new();
    wanted.extend(
        OS_ROOTS
            .iter()
            .chain(SYSTEM_OBJECTS)
            .map(|path| (PathBuf::from(path), OF_THE_SYSTEM)),
    );
    wanted.extend(IN_HOME.iter().map(|path| (home.join(path), CREDENTIALS)));
    wanted.extend(
        IN_FERMIX_HOME
            .iter()
            .map(|path| (fermix_home.join(path), STATE)),
    );
    wanted.extend(private.iter().map(|path| (path.clone(), STATE)));
    if let Some(folder) = surroundings.variable("CODEX_HOME") {
        wanted.push((home.join(folder), CREDENTIALS));
    }
    if let Some(folder) = surroundings.variable("CLAUDE_CONFIG_DIR") {
        wanted.push((home.join(folder).join(".credentials.json"), CREDENTIALS));
        wanted.push((home.join(folder).join(".claude.json"), CREDENTIALS));
    }
    if let Some(folder) = surroundings.variable("XDG_RUNTIME_DIR") {
        wanted.push((Path::new(folder).join("fermix"), STATE));
    }
    wanted.push((surroundings.executable.clone(), PROGRAM));

    let mut members: Vec<Member> = Vec::new();
    let mut searched = Vec::new();
    for (path, holds) in wanted {
        for path in names_of(&path) {
            let folded = fold(&path);
            if members.iter().any(|member| member.folded == folded) {
                continue;
            }
            if matches!(holds, CREDENTIALS | STATE) || folded == "/etc" {
                searched.push(path.clone());
            }
            members.push(Member {
                path,
                folded,
                holds,
            });
        }
    }
    (members, searched)
}

/// `path` as named and as it resolves now.
pub(crate) fn names_of(path: &Path) -> Vec<PathBuf> {
    let mut names = vec![path.to_owned()];
    if let Ok(resolved) = resolve(path)
        && resolved.path != path
    {
        names.push(resolved.path);
    }
    names
}
