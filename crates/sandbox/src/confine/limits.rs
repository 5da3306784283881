//! Bounds on what a command takes from the machine.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::confine::plan::{ConfinePlan, Group};
use crate::confine::settings::ConfineSettings;

/// The most descriptors of one process.
const MAX_DESCRIPTORS: u64 = 4096;
/// The longest file a command may write.
const MAX_FILE: u64 = 8 << 30;
/// How soon the kernel ends a command when memory runs out: before Fermix and the desktop.
const OOM_SCORE: i32 = 500;
const MIB: u64 = 1 << 20;

/// Sets the limits of this process and of all it starts.
pub(super) fn apply(plan: &ConfinePlan) -> io::Result<()> {
    lower(Resource::Core, 0)?;
    lower(Resource::Nofile, MAX_DESCRIPTORS)?;
    lower(Resource::Fsize, MAX_FILE)?;
    if let Some(processes) = plan.max_processes {
        lower(Resource::Nproc, processes.into())?;
    }
    if let Some(bytes) = plan.max_data {
        lower(Resource::Data, bytes)?;
    }
    let path = "/proc/self/oom_score_adj";
    let current: i32 = fs::read_to_string(path)?
        .trim()
        .parse()
        .map_err(|_| Errno::INVAL)?;
    if current < OOM_SCORE {
        fs::write(path, OOM_SCORE.to_string())?;
    }
    Ok(())
}

/// Never raises anything.
fn lower(resource: Resource, limit: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let limit = Some(now.maximum.map_or(limit, |maximum| maximum.min(limit)));
    setrlimit(
        resource,
        Rlimit {
            current: limit,
            maximum: limit,
        },
    )?;
    Ok(())
}

/// The groups of one command while it runs.
#[derive(Debug, Default)]
pub(super) struct Groups {
    folders: Vec<(rustix::fd::OwnedFd, OsString)>,
    members: Vec<fs::File>,
}

impl Groups {
    /// Makes them. What was made is removed again when this value goes.
    pub(super) fn make(groups: &[Group]) -> io::Result<Self> {
        let mut made = Self::default();
        for group in groups {
            let (Some(parent), Some(name)) = (group.folder.parent(), group.folder.file_name())
            else {
                return Err(Errno::INVAL.into());
            };
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            let parent = rustix::fs::open(parent, flags, rustix::fs::Mode::empty())?;
            rustix::fs::mkdirat(&parent, name, rustix::fs::Mode::from_raw_mode(0o755))?;
            made.folders.push((parent, name.to_owned()));
            for (file, value) in &group.limits {
                fs::write(group.folder.join(file), value.as_encoded_bytes())?;
            }
            made.members.push(
                fs::OpenOptions::new()
                    .write(true)
                    .open(group.folder.join("cgroup.procs"))?,
            );
        }
        Ok(made)
    }

    /// Puts this process into them.
    pub(super) fn join(&mut self) -> io::Result<()> {
        for members in &mut self.members {
            members.write_all(b"0")?;
        }
        Ok(())
    }

    /// Removes them; they must be empty by now.
    pub(super) fn remove(&mut self) {
        for (parent, name) in self.folders.drain(..) {
            // The kernel takes a moment to forget the last member.
            for _ in 0..50 {
                match rustix::fs::unlinkat(&parent, &name, rustix::fs::AtFlags::REMOVEDIR) {
                    Err(Errno::BUSY) => std::thread::sleep(std::time::Duration::from_millis(2)),
                    _ => break,
                }
            }
        }
    }
}

/// The folders in which this process may make control groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Controllers {
    pub(crate) processes: Option<PathBuf>,
    pub(crate) memory: Option<PathBuf>,
}

impl Controllers {
    /// Looks at the mounted hierarchies and tries them out.
    pub(crate) fn find() -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self {
            processes: folder_for("pids", "pids.max", &mounts, &own),
            memory: folder_for("memory", "memory.max", &mounts, &own)
                .or_else(|| folder_for("memory", "memory.limit_in_bytes", &mounts, &own)),
        }
    }

    /// The groups of one command. Entering one makes the kernel wait for all its processors, which
    /// takes milliseconds, so processes are counted by one only where nothing else counts them.
    pub(crate) fn groups(
        &self,
        settings: &ConfineSettings,
        counts_processes: bool,
        marker: &str,
    ) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut add = |folder: &Option<PathBuf>, file: &str, value: String| {
            let Some(folder) = folder else { return };
            let folder = folder.join(format!("fermix-{marker}"));
            let limit = (file.into(), value.into());
            match groups.iter_mut().find(|group| group.folder == folder) {
                Some(group) => group.limits.push(limit),
                None => groups.push(Group {
                    folder,
                    limits: vec![limit],
                }),
            }
        };
        // The process that watches over the command inside counts as well.
        let processes = u64::from(settings.max_pids) + 1;
        if counts_processes {
            add(&self.processes, "pids.max", processes.to_string());
        }
        if settings.max_memory_mb > 0 {
            let bytes = (settings.max_memory_mb * MIB).to_string();
            let file = match &self.memory {
                Some(folder) if folder.join("memory.limit_in_bytes").exists() => {
                    "memory.limit_in_bytes"
                }
                _ => "memory.max",
            };
            add(&self.memory, file, bytes);
        }
        groups
    }
}

/// A folder below which a group with `file` can be made.
fn folder_for(controller: &str, file: &str, mounts: &str, own: &str) -> Option<PathBuf> {
    let mut candidates = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (_, Some(at), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let at = Path::new(at);
        match kind {
            "cgroup2" => {
                let place = own.lines().find_map(|line| line.strip_prefix("0::/"));
                let place = at.join(place.unwrap_or_default());
                candidates.extend(place.parent().map(Path::to_owned));
                candidates.push(place);
                candidates.push(at.to_owned());
            }
            "cgroup" if options.split(',').any(|option| option == controller) => {
                let place = own.lines().find_map(|line| {
                    let (_, rest) = line.split_once(':')?;
                    let (names, place) = rest.split_once(':')?;
                    names
                        .split(',')
                        .any(|name| name == controller)
                        .then(|| place.trim_start_matches('/'))
                });
                candidates.push(at.join(place.unwrap_or_default()));
            }
            _ => {}
        }
    }
    candidates.into_iter().find(|folder| can_hold(folder, file))
}

fn can_hold(folder: &Path, file: &str) -> bool {
    let is_writable = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_ok();
    if !is_writable(folder) || !is_writable(&folder.join("cgroup.procs")) {
        return false;
    }
    let trial = folder.join(format!("fermix-trial-{}", std::process::id()));
    let is_there = fs::create_dir(&trial).is_ok() && trial.join(file).exists();
    let _ = fs::remove_dir(&trial);
    is_there
}
