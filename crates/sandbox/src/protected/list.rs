//! What is protected: the names.

pub(super) const OS_ROOTS: &[&str] = &[
    "/etc", "/usr", "/bin", "/sbin", "/System", "/Library", "/proc", "/sys", "/dev",
];

pub(super) const SYSTEM_OBJECTS: &[&str] = &["/var/run/docker.sock", "/run/docker.sock"];

/// Credentials and browser profiles, relative to the OS home.
pub(super) const IN_HOME: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".docker",
    ".kube",
    ".codex",
    ".anthropic",
    ".config/fermix",
    ".claude.json",
    ".claude/.credentials.json",
    ".claude/.claude.json",
    ".netrc",
    ".git-credentials",
    ".config/gh",
    ".config/gcloud",
    ".config/op",
    ".azure",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".password-store",
    ".local/share/keyrings",
    "Library/Keychains",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    "snap/firefox",
    "snap/chromium",
    ".var/app/org.mozilla.firefox",
    ".var/app/com.google.Chrome",
    ".var/app/org.chromium.Chromium",
    ".var/app/com.brave.Browser",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Chromium",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Microsoft Edge",
    "Library/Application Support/Firefox",
    "Library/Safari",
    "Library/Cookies",
    ".config/systemd/user/fermix.service",
    "Library/LaunchAgents/fermix.plist",
    "Library/LaunchAgents/ai.fermix.plist",
];

/// Fermix's own state, relative to its home. Its home is closed as a whole; what is named here is so
/// also under names that begin like it, and also where the workspace was put around it.
pub(super) const IN_FERMIX_HOME: &[&str] = &[
    "config.toml",
    "auth.json",
    "chatgpt_host.json",
    "secrets",
    "secret_key_base",
    "setup-token",
    "setup-launch-token.json",
    "acp_identities",
    "mobile",
    "plugins/run",
    "browser/profiles",
    "bootstrap",
    "memory.db",
    "grants",
    "logs",
    "traces",
];

/// The parts of Fermix's home that tools may reach, besides a workspace that was put inside it.
pub(super) const OPEN_IN_FERMIX_HOME: &[&str] = &["workspace", "skills"];
