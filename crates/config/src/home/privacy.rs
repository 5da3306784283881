//! Making the home private, and leaving every other folder as it is.
//!
//! A folder is named by a flag or a variable, and a slip there (`--home .`) must not take a
//! folder away from the people and programs that use it.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::HomeError;
use crate::load::open_regular;

/// The folder's mode: its owner alone.
const PRIVATE_DIR: u32 = 0o700;

/// Folders of the operating system, whose privacy is not ours to decide.
const OF_THE_SYSTEM: &[&str] = &[
    "/Applications",
    "/Library",
    "/System",
    "/Users",
    "/Volumes",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/tmp",
];

/// What only a Fermix home has.
const SURE_SIGNS: [&str; 2] = ["memory.db", "fermix.lock"];

/// How the names in a home begin: its files with their locks and backups.
const FILES: [&str; 4] = ["auth.json", "config.toml", "fermix.", "memory.db"];

/// The folders in a home.
const FOLDERS: [&str; 9] = [
    "bootstrap",
    "locks",
    "logs",
    "memory",
    "plugins",
    "secrets",
    "skills",
    "traces",
    "workspace",
];

/// How much of a `config.toml` is looked at, in bytes.
const MAX_LOOK: u64 = 64 * 1024;

/// Creates `root` with mode 0700 when it is missing, and otherwise makes it private if that takes
/// nothing from anybody.
pub(super) fn ensure(root: &Path, os_home: Option<&Path>) -> Result<(), HomeError> {
    let failed = |doing| {
        move |source| HomeError::Io {
            doing,
            path: root.to_owned(),
            source,
        }
    };
    let unsuitable = |reason| HomeError::Unsuitable {
        path: root.to_owned(),
        reason,
    };
    // Asked before anything is made, since a system need not have all of them.
    if is_of_the_system(root) {
        return Err(unsuitable("it is a folder of the operating system"));
    }
    DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIR)
        .create(root)
        .map_err(failed("create"))?;
    let canonical = root.canonicalize().map_err(failed("open"))?;
    if canonical.parent().is_none() {
        return Err(unsuitable("it is the root of the file system"));
    }
    if is_of_the_system(&canonical) {
        return Err(unsuitable("it is a folder of the operating system"));
    }
    // Making a person's whole home folder private to this program's taste is not ours to do.
    if os_home
        .and_then(|path| path.canonicalize().ok())
        .is_some_and(|path| path == canonical)
    {
        return Err(unsuitable("it is the home folder itself"));
    }
    // What is looked at through the descriptor is what is changed through it.
    let folder = File::open(&canonical).map_err(failed("open"))?;
    let metadata: Metadata = folder.metadata().map_err(failed("open"))?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(unsuitable("it belongs to another user"));
    }
    let mode = metadata.mode();
    if mode & 0o1000 != 0 {
        return Err(unsuitable("it is a folder that users share"));
    }
    if mode & 0o077 == 0 {
        return Ok(());
    }
    if !is_empty_or_ours(&canonical).map_err(failed("look into"))? {
        return Err(HomeError::Occupied {
            path: root.to_owned(),
        });
    }
    folder
        .set_permissions(Permissions::from_mode(PRIVATE_DIR))
        .map_err(failed("make private"))
}

fn is_of_the_system(path: &Path) -> bool {
    OF_THE_SYSTEM.iter().map(Path::new).any(|folder| {
        // Some of them are links, to different places on different systems.
        path == folder || folder.canonicalize().is_ok_and(|real| path == real)
    })
}

/// Whether all there is in the folder, if anything, is a Fermix home's.
fn is_empty_or_ours(folder: &Path) -> io::Result<bool> {
    if SURE_SIGNS.iter().any(|name| folder.join(name).is_file())
        || is_our_config(&folder.join("config.toml"))
    {
        return Ok(true);
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| {
            FILES.iter().any(|start| name.starts_with(start)) || FOLDERS.contains(&name)
        });
        if !is_ours {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the file has one of our sections. Many programs call theirs `config.toml`.
fn is_our_config(path: &Path) -> bool {
    let mut start = Vec::new();
    let is_read =
        open_regular(path).is_ok_and(|file| file.take(MAX_LOOK).read_to_end(&mut start).is_ok());
    is_read
        && String::from_utf8_lossy(&start).lines().any(|line| {
            let name = line.trim_start_matches(['\u{feff}', ' ', '\t', '[']);
            name.starts_with("fermix_core") || name.starts_with("fermix_channels")
        })
}
