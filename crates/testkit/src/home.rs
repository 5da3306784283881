//! A throw-away Fermix home with its workspace and operating-system home.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::server::FakeModel;

/// Where a child process of a test looks for programs. Fixed, so that the developer's own
/// environment cannot change a test.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The address of a session bus that is not there.
const NO_BUS: &str = "unix:path=/nonexistent/bus";

/// A temporary operating-system home, the Fermix home inside it, and the workspace inside that.
/// All of it is gone when the value is dropped.
#[derive(Debug)]
pub struct TestHome {
    // Held for its Drop.
    _root: TempDir,
    os_home: PathBuf,
}

impl TestHome {
    /// A home with an empty workspace and no configuration.
    ///
    /// # Panics
    /// When the temporary folders cannot be made; a test cannot go on without them.
    pub fn new() -> Self {
        let root = tempfile::Builder::new()
            .prefix("fermix-test-")
            .tempdir()
            .expect("the temporary folder is writable");
        // The sandbox compares canonical paths, and on some systems the temporary folder is a link.
        let os_home = root
            .path()
            .canonicalize()
            .expect("the folder was just made")
            .join("home");
        let home = Self {
            _root: root,
            os_home,
        };
        fs::create_dir_all(home.workspace()).expect("the temporary folder is writable");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(home.fermix_home(), fs::Permissions::from_mode(0o700))
                .expect("the folder was just made");
        }
        home
    }

    /// The operating-system home of the pretended user.
    pub fn os_home(&self) -> &Path {
        &self.os_home
    }

    /// `FERMIX_HOME`: `.fermix` in the operating-system home.
    pub fn fermix_home(&self) -> PathBuf {
        self.os_home.join(".fermix")
    }

    /// The default workspace: `workspace` in the Fermix home.
    pub fn workspace(&self) -> PathBuf {
        self.fermix_home().join("workspace")
    }

    /// The path of `config.toml`, which need not exist.
    pub fn config_path(&self) -> PathBuf {
        self.fermix_home().join("config.toml")
    }

    /// Writes `config.toml`.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn write_config(&self, toml: &str) {
        fs::write(self.config_path(), toml).expect("the temporary home is writable");
    }

    /// Writes a `config.toml` whose only provider is `model`, through `openai_compatible`.
    /// `more` is appended, so it may hold further tables.
    pub fn use_model(&self, model: &FakeModel, more: &str) {
        self.write_config(&format!(
            "[fermix_core.providers.openai_compatible]\n\
             base_url = \"{}\"\ndefault_model = \"fake-model\"\nprimary = true\n\n{more}",
            model.base_url()
        ));
    }

    /// Writes a file into the workspace, its folders included, and returns its path.
    ///
    /// # Panics
    /// When `path` is absolute or leaves the workspace, or the file cannot be written.
    pub fn file(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = path.as_ref();
        assert!(
            path.components()
                .all(|part| matches!(part, std::path::Component::Normal(_))),
            "{} is not a plain path inside the workspace",
            path.display()
        );
        let full = self.workspace().join(path);
        let folder = full
            .parent()
            .expect("a file inside the workspace has a folder");
        fs::create_dir_all(folder).expect("the temporary home is writable");
        fs::write(&full, bytes).expect("the temporary home is writable");
        full
    }

    /// The bytes of a file in the workspace, or `None` when there is none.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        fs::read(self.workspace().join(path)).ok()
    }

    /// The whole environment of a child process: clear the inherited one, then set these.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        let pairs: [(&str, OsString); 7] = [
            ("HOME", self.os_home.clone().into()),
            ("FERMIX_HOME", self.fermix_home().into()),
            ("PATH", SEARCH_PATH.into()),
            ("LANG", "C.UTF-8".into()),
            ("TZ", "UTC".into()),
            ("OPENAI_COMPATIBLE_API_KEY", FakeModel::KEY.into()),
            // Without it, the bus is looked for where the developer's own keyring listens.
            ("DBUS_SESSION_BUS_ADDRESS", NO_BUS.into()),
        ];
        pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect()
    }
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}
