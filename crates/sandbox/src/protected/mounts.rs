//! Other names of protected folders: mounts that show a part of one somewhere else.
//!
//! A bind mount of a protected folder itself is recognised by identity. One of something below it
//! is not: the way to it leads through no protected folder. The kernel's table of mounts says which
//! part of which file system each mount shows, and so which of them show protected parts.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::names::{fold, is_within};

/// How long the table is trusted.
const FRESH: Duration = Duration::from_secs(30);
/// The most of the table that is read, in bytes.
const MAX_TABLE: u64 = 4 * 1024 * 1024;
const TABLE: &str = "/proc/self/mountinfo";

/// The places where mounts show protected parts of a file system.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    /// Canonical.
    closed: Vec<PathBuf>,
    /// Parts of the closed that are not closed.
    open: Vec<PathBuf>,
    known: Mutex<Option<(Instant, Vec<String>)>>,
}

impl Mounts {
    pub(super) fn new(closed: Vec<PathBuf>, open: Vec<PathBuf>) -> Self {
        Self {
            closed,
            open,
            known: Mutex::new(None),
        }
    }

    /// Whether the folded path lies where a mount shows something protected.
    pub(super) fn cover(&self, folded: &str) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = matches!(&*known, Some((read, _)) if read.elapsed() < FRESH);
        if !is_fresh {
            let places = match read_table() {
                Ok(table) => showing(&table, &self.closed, &self.open),
                Err(error) => {
                    tracing::warn!(%error, "the table of mounts cannot be read; other names of protected folders are told by identity alone");
                    known.take().map(|(_, places)| places).unwrap_or_default()
                }
            };
            *known = Some((Instant::now(), places));
        }
        known
            .as_ref()
            .is_some_and(|(_, places)| places.iter().any(|place| is_within(folded, place)))
    }
}

#[cfg(target_os = "linux")]
fn read_table() -> std::io::Result<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(TABLE)?
        .take(MAX_TABLE)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Other systems have no bind mounts.
#[cfg(not(target_os = "linux"))]
fn read_table() -> std::io::Result<String> {
    Ok(String::new())
}

/// One line of the table.
struct Mount {
    device: String,
    /// The part of the file system that is shown.
    root: PathBuf,
    /// Where.
    place: PathBuf,
}

/// The folded places, outside the closed folders themselves, at which `table` shows parts of them.
fn showing(table: &str, closed: &[PathBuf], open: &[PathBuf]) -> Vec<String> {
    let mounts: Vec<Mount> = table.lines().filter_map(parsed).collect();
    let on_disk = |path: &PathBuf| on_file_system(path.as_path(), &mounts);
    let is_open = |path: &Path| open.iter().any(|open| path.starts_with(open));
    let mut parts: Vec<(&str, PathBuf)> = closed.iter().filter_map(on_disk).collect();
    // What is mounted inside a closed folder is closed wherever else it is shown.
    let inside = mounts.iter().filter(|mount| {
        closed.iter().any(|closed| mount.place.starts_with(closed)) && !is_open(&mount.place)
    });
    parts.extend(inside.map(|mount| (mount.device.as_str(), mount.root.clone())));
    let open_parts: Vec<(&str, PathBuf)> = open.iter().filter_map(on_disk).collect();
    let lies_in = |mount: &Mount, parts: &[(&str, PathBuf)]| {
        parts
            .iter()
            .any(|(device, part)| mount.device == *device && mount.root.starts_with(part))
    };
    mounts
        .iter()
        .filter(|mount| lies_in(mount, &parts) && !lies_in(mount, &open_parts))
        .filter(|mount| !closed.iter().any(|closed| mount.place.starts_with(closed)))
        .map(|mount| fold(&mount.place))
        .collect()
}

/// The device `path` lies on and its place in that file system.
fn on_file_system<'m>(path: &Path, mounts: &'m [Mount]) -> Option<(&'m str, PathBuf)> {
    // Of two mounts at one place the later hides the earlier.
    let mount = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.place))
        .max_by_key(|mount| mount.place.components().count())?;
    let below = path.strip_prefix(&mount.place).ok()?;
    let part = if below.as_os_str().is_empty() {
        mount.root.clone()
    } else {
        mount.root.join(below)
    };
    Some((&mount.device, part))
}

fn parsed(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ').skip(2);
    Some(Mount {
        device: fields.next()?.to_owned(),
        root: unescaped(fields.next()?),
        place: unescaped(fields.next()?),
    })
}

/// Blanks and backslashes stand in the table as three octal digits.
fn unescaped(field: &str) -> PathBuf {
    let mut text = field.to_owned();
    for (escape, plain) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        text = text.replace(escape, plain);
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_protected_parts_are_found() {
        let table = "\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 8:2 /homes /home rw - ext4 /dev/sda2 rw
24 22 0:5 / /proc rw - proc proc rw
30 22 8:2 /homes/owner/.ssh/keys /mnt/keys rw - ext4 /dev/sda2 rw
31 22 8:2 /homes/owner/project /mnt/project rw - ext4 /dev/sda2 rw
32 22 8:1 /etc/ssl /srv/My\\040Certs rw - ext4 /dev/sda1 rw
33 22 0:5 / /srv/jail/proc rw - proc proc rw
34 22 8:2 /homes/owner/.fermix/skills/x /mnt/work rw - ext4 /dev/sda2 rw
35 22 8:2 /homes/owner/.fermix/oauth /mnt/oauth rw - ext4 /dev/sda2 rw
36 22 8:2 /homes/owner/.sshd /mnt/not rw - ext4 /dev/sda2 rw
37 22 8:3 /homes/owner/.ssh /mnt/other rw - ext4 /dev/sdb rw
38 23 8:4 /vault /home/owner/.ssh/vault rw - ext4 /dev/sdc rw
39 22 8:4 /vault/a /mnt/vault rw - ext4 /dev/sdc rw
40 23 8:5 /work /home/owner/.fermix/workspace rw - ext4 /dev/sdd rw
41 22 8:5 /work /srv/work rw - ext4 /dev/sdd rw
broken";
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let closed = paths(&["/etc", "/proc", "/home/owner/.ssh", "/home/owner/.fermix"]);
        let open = paths(&[
            "/home/owner/.fermix/workspace",
            "/home/owner/.fermix/skills",
        ]);
        assert_eq!(
            showing(table, &closed, &open),
            [
                "/mnt/keys",
                "/srv/my certs",
                "/srv/jail/proc",
                "/mnt/oauth",
                "/mnt/vault",
            ]
        );
    }

    #[test]
    fn this_machine_has_a_table() {
        let mounts = Mounts::new(vec!["/proc".into()], Vec::new());
        assert!(!mounts.cover(&fold(Path::new("/home"))));
        assert!(
            cfg!(not(target_os = "linux")) || read_table().is_ok_and(|table| !table.is_empty())
        );
    }
}
