//! Where programs live outside the system's own folders.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The system's programs and libraries.
pub(super) const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix",
    "/run/current-system",
];

/// The system's settings and tables, readable and not run from.
pub(super) const SETTINGS: &[&str] = &["/etc", "/sys"];

/// Settings that may be links to a place outside every other part of the view, and that names,
/// times and certificates depend on.
pub(super) const LINKED_SETTINGS: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/localtime",
    "/etc/machine-id",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

/// What only the machine's root reads, for a Fermix that runs as root.
pub(super) const SETTINGS_OF_ROOT: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/etc/letsencrypt",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/krb5.keytab",
];

/// Toolchains in the owner's home, readable.
pub(super) const TOOLCHAINS: &[&str] = &[
    ".cargo/bin",
    ".cargo/config.toml",
    ".cargo/env",
    ".rustup",
    ".nvm",
    ".volta",
    ".pyenv",
    ".rbenv",
    ".asdf",
    ".local/share/mise",
    ".local/share/uv",
    ".local/bin",
    ".local/lib",
    "go",
    ".bun",
    ".deno",
    ".gitconfig",
    ".config/git",
];

/// What in there holds credentials all the same.
pub(super) const NOT_IN_TOOLCHAINS: &[&str] = &[".config/git/credentials"];

/// Caches in the owner's home, writable.
pub(super) const CACHES: &[&str] = &[
    ".cache",
    ".cargo/registry",
    ".cargo/git",
    ".npm/_cacache",
    ".gradle/caches",
    "go/pkg",
];

/// What an SSH client reads. No keys.
pub(super) const SSH_SETTINGS: &[&str] = &[".ssh/known_hosts", ".ssh/config"];

/// The most entries of one folder that are looked at for links to programs elsewhere.
const MAX_ENTRIES: usize = 4096;

/// Parts of an installation that its programs need, beside the folder they are in.
const BESIDE_PROGRAMS: &[&str] = &[
    "lib",
    "lib64",
    "libexec",
    "share",
    "include",
    "versions",
    "plugins",
    "pyvenv.cfg",
    "VERSION",
];

/// What the search path `search_path` leads to: its folders, what their programs need beside them,
/// and where programs are that stand there as links. Paths as named; the caller decides which of
/// them may be shown.
pub(super) fn on(search_path: &OsStr, home: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in std::env::split_paths(search_path).filter(|folder| folder.is_absolute()) {
        let is_of_home = folder.starts_with(home);
        if !is_of_home && !is_of_system(&folder) {
            found.push(folder.clone());
            found.extend(beside(&folder));
        }
        if !["/usr/bin", "/usr/sbin", "/bin", "/sbin"].contains(&folder.to_string_lossy().as_ref())
        {
            found.extend(linked_from(&folder, home));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Whether the system's trees hold `path` anyway.
pub(super) fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

fn holds_programs(folder: &Path) -> bool {
    folder
        .file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| ["bin", "sbin", "libexec", "shims"].contains(&name))
}

fn beside(folder: &Path) -> Vec<PathBuf> {
    match folder.parent() {
        Some(parent) if holds_programs(folder) && parent != Path::new("/") => BESIDE_PROGRAMS
            .iter()
            .map(|name| parent.join(name))
            .filter(|path| path.exists())
            .collect(),
        _ => Vec::new(),
    }
}

/// Programs that stand in `folder` as links, where they really are. In the home only the file is
/// shown, unless it lies among programs: the folder around it may hold anything.
fn linked_from(folder: &Path, home: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.take(MAX_ENTRIES).flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            continue;
        }
        let Ok(target) = entry.path().canonicalize() else {
            continue;
        };
        let Some(parent) = target.parent() else {
            continue;
        };
        if is_of_system(&target) || parent.starts_with(folder) {
            continue;
        }
        if holds_programs(parent) {
            found.push(parent.to_owned());
            found.extend(beside(parent));
        } else if target.starts_with(home) {
            found.push(target);
        } else {
            found.push(parent.to_owned());
        }
    }
    found
}
