//! What Fermix tells the launcher about a command's confinement.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::confine::report::Confinement;
use crate::jail::Network;
use crate::plan::{put, put_count, take_count, take_text};

/// The confinement of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfinePlan {
    /// The layers to set up. Each that is named here is required.
    pub(crate) layers: Confinement,
    /// The view of the disk, outer folders first.
    pub(crate) mounts: Vec<Mount>,
    /// Links to make in the view where nothing stands.
    pub(crate) links: Vec<Link>,
    /// What Landlock lets the command open.
    pub(crate) rules: Vec<Rule>,
    /// The working folder in the view; nothing means its root.
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) network: Network,
    pub(crate) allow_nested: bool,
    /// Whether the command is the launcher's own program.
    pub(crate) runs_own_program: bool,
    /// A private folder to make and to remove, where there is no private `/tmp`.
    pub(crate) scratch: Option<PathBuf>,
    /// Control groups to make and to remove.
    pub(crate) groups: Vec<Group>,
    /// The most processes, where the user namespace counts them.
    pub(crate) max_processes: Option<u32>,
    /// The most memory of one process, in bytes, where no control group bounds all of them.
    pub(crate) max_data: Option<u64>,
    /// Whether to set everything up and then run nothing.
    pub(crate) is_probe: bool,
}

/// One piece of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Canonical, and the same outside and inside.
    pub(crate) path: PathBuf,
    pub(crate) kind: MountKind,
}

/// What a piece of the view is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MountKind {
    /// The same as outside, unchangeable.
    ReadOnly = 1,
    /// The same as outside.
    Writable,
    /// A folder nobody can look into.
    ClosedFolder,
    /// A file nobody can read.
    ClosedFile,
    /// An empty folder that other pieces stand in.
    Passage,
}

/// A symbolic link of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) path: PathBuf,
    pub(crate) target: PathBuf,
}

/// A right to a tree or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) path: PathBuf,
    pub(crate) grant: Grant,
}

/// What may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Grant {
    List = 1,
    Read,
    ReadAndRun,
    Devices,
    Everything,
}

/// A control group of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) folder: PathBuf,
    /// Files to write, with their contents.
    pub(crate) limits: Vec<(OsString, OsString)>,
}

impl ConfinePlan {
    pub(crate) fn put(&self, body: &mut Vec<u8>) {
        let layers = &self.layers;
        body.extend(
            [
                layers.namespaces,
                layers.landlock,
                layers.seccomp,
                self.network == Network::Allowed,
                self.allow_nested,
                self.runs_own_program,
                self.is_probe,
            ]
            .map(u8::from),
        );
        put_count(body, self.mounts.len());
        for mount in &self.mounts {
            body.push(mount.kind as u8);
            put(body, mount.path.as_os_str().as_bytes());
        }
        put_count(body, self.links.len());
        for link in &self.links {
            put(body, link.path.as_os_str().as_bytes());
            put(body, link.target.as_os_str().as_bytes());
        }
        put_count(body, self.rules.len());
        for rule in &self.rules {
            body.push(rule.grant as u8);
            put(body, rule.path.as_os_str().as_bytes());
        }
        for path in [&self.cwd, &self.scratch] {
            // No path is empty.
            put(
                body,
                path.as_ref()
                    .map_or(b"".as_slice(), |path| path.as_os_str().as_bytes()),
            );
        }
        put_count(body, self.groups.len());
        for group in &self.groups {
            put(body, group.folder.as_os_str().as_bytes());
            put_count(body, group.limits.len());
            for (file, value) in &group.limits {
                put(body, file.as_bytes());
                put(body, value.as_bytes());
            }
        }
        body.extend_from_slice(&self.max_processes.unwrap_or(0).to_le_bytes());
        body.extend_from_slice(&self.max_data.unwrap_or(0).to_le_bytes());
    }

    pub(crate) fn take(source: &mut &[u8]) -> io::Result<Self> {
        let mut flags = [false; 7];
        for flag in &mut flags {
            *flag = match take_byte(source)? {
                0 => false,
                1 => true,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
        }
        let [
            namespaces,
            landlock,
            seccomp,
            has_network,
            allow_nested,
            runs_own_program,
            is_probe,
        ] = flags;
        let mounts = many(source, |source| {
            Ok(Mount {
                kind: mount_kind(take_byte(source)?)?,
                path: take_path(source)?,
            })
        })?;
        let links = many(source, |source| {
            Ok(Link {
                path: take_path(source)?,
                target: take_path(source)?,
            })
        })?;
        let rules = many(source, |source| {
            Ok(Rule {
                grant: grant(take_byte(source)?)?,
                path: take_path(source)?,
            })
        })?;
        let some = |path: PathBuf| (!path.as_os_str().is_empty()).then_some(path);
        let cwd = some(take_path(source)?);
        let scratch = some(take_path(source)?);
        let groups = many(source, |source| {
            Ok(Group {
                folder: take_path(source)?,
                limits: many(source, |source| {
                    Ok((take_text(source)?, take_text(source)?))
                })?,
            })
        })?;
        let max_processes = Some(take_count(source)?).filter(|limit| *limit != 0);
        let low = u64::from(take_count(source)?);
        let high = u64::from(take_count(source)?);
        Ok(Self {
            layers: Confinement {
                namespaces,
                landlock,
                seccomp,
            },
            mounts,
            links,
            rules,
            cwd,
            network: if has_network {
                Network::Allowed
            } else {
                Network::Denied
            },
            allow_nested,
            runs_own_program,
            scratch,
            groups,
            max_processes,
            max_data: Some(low | (high << 32)).filter(|limit| *limit != 0),
            is_probe,
        })
    }
}

fn take_byte(source: &mut &[u8]) -> io::Result<u8> {
    let (first, rest) = source.split_first().ok_or(io::ErrorKind::UnexpectedEof)?;
    *source = rest;
    Ok(*first)
}

fn take_path(source: &mut &[u8]) -> io::Result<PathBuf> {
    take_text(source).map(PathBuf::from)
}

fn many<T>(source: &mut &[u8], one: impl Fn(&mut &[u8]) -> io::Result<T>) -> io::Result<Vec<T>> {
    (0..take_count(source)?).map(|_| one(source)).collect()
}

fn mount_kind(byte: u8) -> io::Result<MountKind> {
    [
        MountKind::ReadOnly,
        MountKind::Writable,
        MountKind::ClosedFolder,
        MountKind::ClosedFile,
        MountKind::Passage,
    ]
    .into_iter()
    .find(|kind| *kind as u8 == byte)
    .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn grant(byte: u8) -> io::Result<Grant> {
    [
        Grant::List,
        Grant::Read,
        Grant::ReadAndRun,
        Grant::Devices,
        Grant::Everything,
    ]
    .into_iter()
    .find(|grant| *grant as u8 == byte)
    .ok_or_else(|| io::ErrorKind::InvalidData.into())
}
