//! Building the command's view of the disk: an empty root, and in it what the plan names.
//!
//! The old root is set aside, each piece is opened below it with every symbolic link refused, and
//! then the old root is let go. What the plan does not name does not exist for the command.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, mkdirat, openat2, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags as Flags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};

use crate::confine::plan::{ConfinePlan, Mount, MountKind};
use crate::confine::syscall::{MountFlags, narrow_mount};

/// Where the new root is prepared: any folder that is there on every system.
const BASES: &[&str] = &["/tmp", "/mnt", "/var", "/usr"];
/// Where the old root stands until it is let go.
const OLD: &str = "/.old";
/// What a closed folder and a closed file show.
const CLOSED_FOLDER: &str = "/.closed-folder";
const CLOSED_FILE: &str = "/.closed-file";
/// Where the empty folders are kept that passages show.
const PASSAGES: &str = "/.passages";
/// Says to a `fermix` inside that it is inside; see [`crate::is_inside_a_run`].
pub(crate) const SIGN: &str = "/.fermix-run";
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];
/// The most memory the private `/tmp` takes, and its most files.
const TMP_OPTIONS: &std::ffi::CStr = c"mode=1777,size=25%,nr_inodes=1048576";

/// Makes `plan`'s view the root of this process and of all that share its mount namespace.
pub(super) fn build(plan: &ConfinePlan) -> io::Result<()> {
    set_old_root_aside()?;
    let view = View {
        root: open_folder(Path::new("/"))?,
        old: open_folder(Path::new(OLD))?,
    };
    let closed = [(CLOSED_FOLDER, true), (CLOSED_FILE, false), (SIGN, false)];
    for (path, is_folder) in closed {
        view.make(Path::new(path), is_folder, Mode::empty())?;
    }
    view.copy_links_of_root()?;
    view.make_tmp()?;
    view.make_devices()?;
    view.make_processes(plan.allow_nested)?;
    let mut passages = Vec::new();
    for (number, piece) in plan.mounts.iter().enumerate() {
        passages.extend(view.add(piece, number)?);
    }
    for link in &plan.links {
        view.link(&link.target, &link.path);
    }
    for (target, path) in [("/run", "/var/run"), ("/tmp", "/var/tmp")] {
        view.link(Path::new(target), Path::new(path));
    }
    for passage in passages {
        narrow_mount(passage, READ_ONLY_ITSELF)?;
    }
    unmount(OLD, UnmountFlags::DETACH)?;
    rustix::fs::rmdir(OLD)?;
    narrow_mount(&view.root, READ_ONLY_ITSELF)
}

const READ_ONLY_ITSELF: MountFlags = MountFlags {
    read_only: true,
    no_devices: true,
    recursive: false,
};

fn set_old_root_aside() -> io::Result<()> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    let base = BASES
        .iter()
        .find(|base| Path::new(base).is_dir())
        .ok_or(Errno::NOENT)?;
    mount(
        "tmpfs",
        *base,
        "tmpfs",
        Flags::NOSUID | Flags::NODEV,
        c"mode=0755,size=1m",
    )?;
    rustix::process::chdir(*base)?;
    rustix::fs::mkdir(&OLD[1..], Mode::from_raw_mode(0o700))?;
    rustix::process::pivot_root(".", &OLD[1..])?;
    rustix::process::chdir("/")?;
    Ok(())
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

struct View {
    root: OwnedFd,
    old: OwnedFd,
}

impl View {
    /// Adds one piece. Gives a passage back: it is closed only when all pieces stand in it.
    fn add(&self, piece: &Mount, number: usize) -> io::Result<Option<OwnedFd>> {
        let path = piece.path.as_path();
        match piece.kind {
            MountKind::ReadOnly | MountKind::Writable => {
                // What vanished, or became a link, since the plan was made is not shown.
                let Some(source) = self.outside(path)? else {
                    return Ok(None);
                };
                let is_folder = is_folder(&source)?;
                let tree = clone_of(&source, true)?;
                narrow_mount(
                    &tree,
                    MountFlags {
                        read_only: piece.kind == MountKind::ReadOnly,
                        no_devices: true,
                        recursive: true,
                    },
                )?;
                let target = self.make(path, is_folder, Mode::from_raw_mode(0o755))?;
                place(&tree, &target)?;
                Ok(None)
            }
            MountKind::ClosedFolder | MountKind::ClosedFile => {
                let cover = if piece.kind == MountKind::ClosedFolder {
                    CLOSED_FOLDER
                } else {
                    CLOSED_FILE
                };
                let tree = clone_of(&self.inside(Path::new(cover))?, false)?;
                narrow_mount(&tree, READ_ONLY_ITSELF)?;
                place(&tree, &self.inside(path)?)?;
                Ok(None)
            }
            MountKind::Passage => {
                let folder = Path::new(PASSAGES).join(number.to_string());
                let folder = self.make(&folder, true, Mode::from_raw_mode(0o755))?;
                let tree = clone_of(&folder, false)?;
                place(&tree, &self.inside(path)?)?;
                Ok(Some(tree))
            }
        }
    }

    /// What `path` is outside; nothing when it is not there or a link leads to it.
    fn outside(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        match beneath(&self.old, path) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn inside(&self, path: &Path) -> io::Result<OwnedFd> {
        Ok(beneath(&self.root, path)?)
    }

    /// The folder or file `path` of the view, made together with the folders on the way.
    fn make(&self, path: &Path, is_folder: bool, mode: Mode) -> io::Result<OwnedFd> {
        if let Ok(found) = beneath(&self.root, path) {
            return Ok(found);
        }
        let mut made = PathBuf::from("/");
        let names: Vec<&OsStr> = path
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        let Some((last, parents)) = names.split_last() else {
            return self.inside(path);
        };
        for name in parents {
            let parent = self.inside(&made)?;
            ignoring_existing(mkdirat(&parent, *name, Mode::from_raw_mode(0o755)))?;
            made.push(name);
        }
        let parent = self.inside(&made)?;
        if is_folder {
            ignoring_existing(mkdirat(&parent, *last, mode))?;
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            ignoring_existing(rustix::fs::openat(&parent, *last, flags, mode).map(|_| ()))?;
        }
        self.inside(path)
    }

    /// A link where nothing stands; where something does, that is what is meant.
    fn link(&self, target: &Path, path: &Path) {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        if let Ok(folder) = self.make(folder, true, Mode::from_raw_mode(0o755)) {
            let _ = symlinkat(target, &folder, name);
        }
    }

    /// `/bin` and its like, where they are links.
    fn copy_links_of_root(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(OLD)? {
            let entry = entry?;
            if entry.file_type()?.is_symlink() {
                let target = std::fs::read_link(entry.path())?;
                self.link(&target, &Path::new("/").join(entry.file_name()));
            }
        }
        Ok(())
    }

    fn make_tmp(&self) -> io::Result<()> {
        self.make(Path::new("/tmp"), true, Mode::from_raw_mode(0o755))?;
        mount(
            "tmpfs",
            "/tmp",
            "tmpfs",
            Flags::NOSUID | Flags::NODEV,
            TMP_OPTIONS,
        )?;
        Ok(())
    }

    fn make_devices(&self) -> io::Result<()> {
        for name in DEVICES {
            let path = Path::new("/dev").join(name);
            let Some(device) = self.outside(&path)? else {
                continue;
            };
            let tree = clone_of(&device, false)?;
            narrow_mount(
                &tree,
                MountFlags {
                    read_only: false,
                    no_devices: false,
                    recursive: false,
                },
            )?;
            place(&tree, &self.make(&path, false, Mode::from_raw_mode(0o600))?)?;
        }
        for folder in ["/dev/pts", "/dev/shm"] {
            self.make(Path::new(folder), true, Mode::from_raw_mode(0o755))?;
        }
        mount(
            "devpts",
            "/dev/pts",
            "devpts",
            Flags::NOSUID | Flags::NOEXEC,
            c"newinstance,ptmxmode=0666,mode=0620",
        )?;
        mount(
            "tmpfs",
            "/dev/shm",
            "tmpfs",
            Flags::NOSUID | Flags::NODEV,
            TMP_OPTIONS,
        )?;
        for (target, name) in [
            ("pts/ptmx", "/dev/ptmx"),
            ("/proc/self/fd", "/dev/fd"),
            ("/proc/self/fd/0", "/dev/stdin"),
            ("/proc/self/fd/1", "/dev/stdout"),
            ("/proc/self/fd/2", "/dev/stderr"),
        ] {
            self.link(Path::new(target), Path::new(name));
        }
        Ok(())
    }

    /// The processes of this namespace alone. Nothing in there is written: some of the kernel's
    /// settings ask only whether the writer is the machine's root, and inside it may still be.
    fn make_processes(&self, allow_nested: bool) -> io::Result<()> {
        self.make(Path::new("/proc"), true, Mode::from_raw_mode(0o555))?;
        let is_root = rustix::process::getuid().is_root();
        let mut flags = Flags::NOSUID | Flags::NODEV | Flags::NOEXEC;
        if is_root || !allow_nested {
            flags |= Flags::RDONLY;
        }
        mount("proc", "/proc", "proc", flags, c"")?;
        Ok(())
    }
}

/// Opens `path`, absolute and canonical, below `root`.
fn beneath(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let relative = match path.strip_prefix("/") {
        Ok(rest) if !rest.as_os_str().is_empty() => rest,
        _ => Path::new("."),
    };
    openat2(
        root,
        relative,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

fn clone_of(source: impl AsFd, with_mounts_below: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    if with_mounts_below {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(open_tree(source, "", flags)?)
}

fn place(tree: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", target, "", flags)?)
}

fn is_folder(object: &OwnedFd) -> io::Result<bool> {
    let stat = rustix::fs::fstat(object)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

fn ignoring_existing(result: Result<(), Errno>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Goes to `path` of the view, if it is the folder with `identity`.
pub(super) fn enter(path: &Path, identity: (u64, u64)) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&folder)?;
    if (stat.st_dev, stat.st_ino) != identity {
        return Err(Errno::STALE.into());
    }
    rustix::process::fchdir(&folder)?;
    Ok(())
}
