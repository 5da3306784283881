//! Which paths must not go.

use std::path::{Path, PathBuf};

use super::lexer::{GLOB, HERE, PRINTED, UNKNOWN, USER};

/// What the owner cannot afford to lose.
pub(super) struct Ground<'a> {
    pub(super) home: &'a Path,
    pub(super) roots: &'a [PathBuf],
}

const SYSTEM: &[&str] = &[
    "/",
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library",
    "/lib",
    "/lib64",
    "/boot",
    "/dev",
    "/proc",
    "/sys",
    "/var",
    "/home",
    "/root",
    "/opt",
    "/Users",
    "/Applications",
    "/usr/bin",
    "/usr/lib",
    "/usr/sbin",
    "/var/lib",
];

/// Disks and memory as devices.
const DEVICES: &[&str] = &[
    "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "mapper/", "md", "dm-", "loop",
    "ram", "mem", "kmem", "port",
];

impl Ground<'_> {
    /// Whether deleting `target` recursively would cost a system folder, the home, a root, or
    /// something that contains one of them.
    pub(super) fn forbids_delete(&self, target: &str, cwd: Option<&Path>) -> bool {
        self.judge(target, cwd, |path, is_contents| {
            let path = Path::new(path);
            self.roots
                .iter()
                .any(|root| root.starts_with(path) && !(is_contents && root == path))
        })
    }

    /// Whether replacing what lies in `target` by something else would cost the system or the home.
    pub(super) fn forbids_emptying(&self, target: &str, cwd: Option<&Path>) -> bool {
        self.judge(target, cwd, |_, _| false)
    }

    /// Whose modes or owners `target` would change recursively.
    pub(super) fn reach(&self, target: &str, cwd: Option<&Path>) -> Reach {
        let (folder, _) = without_globs(target);
        match absolute(folder, cwd) {
            Some(path) if self.home == Path::new(&path) => Reach::Home,
            Some(path) if FOR_ADDITIONS.contains(&path.as_str()) => Reach::Elsewhere,
            _ if self.judge(target, cwd, |_, _| false) => Reach::System,
            _ => Reach::Elsewhere,
        }
    }

    fn judge(&self, target: &str, cwd: Option<&Path>, more: impl Fn(&str, bool) -> bool) -> bool {
        let (folder, is_contents) = without_globs(target);
        let Some(path) = absolute(folder, cwd) else {
            // Nothing but steps upwards leads to whatever holds the unknown folder.
            return !folder.is_empty()
                && folder
                    .split('/')
                    .all(|part| matches!(part, "" | "." | ".."))
                && folder.contains("..");
        };
        SYSTEM.contains(&path.as_str()) || self.home.starts_with(&path) || more(&path, is_contents)
    }
}

/// What a recursive change reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The home itself.
    Home,
    /// A system folder, or what contains the home.
    System,
    Elsewhere,
}

/// System folders that people put programs of their own into.
const FOR_ADDITIONS: &[&str] = &["/opt", "/Applications"];

/// A target less the patterns at its end that stand for everything in a folder.
fn without_globs(target: &str) -> (&str, bool) {
    let mut folder = target;
    let mut is_contents = false;
    loop {
        let trimmed = folder.trim_end_matches('/');
        let (above, last) = match trimmed.rfind('/') {
            Some(0) => ("/", &trimmed[1..]),
            Some(at) => (&trimmed[..at], &trimmed[at + 1..]),
            None => (".", trimmed),
        };
        if !is_everything(last) {
            return (folder, is_contents);
        }
        (folder, is_contents) = (above, true);
    }
}

/// Whether a component matches whatever there is, or whatever begins with one of some letters.
fn is_everything(component: &str) -> bool {
    let mut letters = component.chars();
    let mut has_glob = false;
    while let Some(letter) = letters.next() {
        match letter {
            GLOB => has_glob = true,
            '.' => {}
            '[' => {
                if !letters.by_ref().skip(1).any(|inside| inside == ']') {
                    return false;
                }
            }
            _ => return false,
        }
    }
    has_glob
}

/// `path` from `cwd`, without `.`, `..` and doubled separators; nothing when only the shell knows.
pub(super) fn absolute(path: &str, cwd: Option<&Path>) -> Option<String> {
    let (path, is_here) = match path.strip_prefix(HERE) {
        Some(rest) => (rest, true),
        None => (path, false),
    };
    let is_missing = path.is_empty() && !is_here;
    if is_missing || path.contains([UNKNOWN, USER, HERE, PRINTED]) {
        return None;
    }
    let joined = if is_here {
        format!("{}{path}", cwd?.to_str()?)
    } else if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", cwd?.to_str()?)
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

/// Whether writing to `path` writes to a disk.
pub(super) fn is_disk(path: &str, cwd: Option<&Path>) -> bool {
    absolute(path, cwd)
        .as_deref()
        .and_then(|path| path.strip_prefix("/dev/"))
        .is_some_and(|name| DEVICES.iter().any(|device| name.starts_with(device)))
}

/// Whether writing to the device `path` does no harm.
pub(super) fn is_harmless_device(path: &str) -> bool {
    let Some(name) = path.strip_prefix("/dev/") else {
        return true;
    };
    matches!(
        name,
        "null" | "zero" | "full" | "stdout" | "stderr" | "tty" | "random" | "urandom"
    ) || name.starts_with("fd/")
        || name.starts_with("shm/")
        || name.starts_with("pts/")
}
