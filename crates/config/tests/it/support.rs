//! A home of its own for each test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fermix_config::{Config, ConfigError, ConfigFile, Environment, Home, Overrides};
use tempfile::TempDir;

/// An operating system home in a temporary folder, with a Fermix home inside.
pub struct TestHome {
    folder: TempDir,
    pub home: Home,
    pub environment: Environment,
}

impl TestHome {
    /// Without a file.
    pub fn new() -> Self {
        Self::with_variables(&[])
    }

    /// Without a file, with these variables besides `HOME`.
    pub fn with_variables(variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let os_home = folder.path().to_str().unwrap();
        let environment =
            Environment::from_pairs([("HOME", os_home)].iter().chain(variables).copied());
        let home = Home::resolve(None, &environment).unwrap();
        Self {
            folder,
            home,
            environment,
        }
    }

    /// With this file.
    pub fn with_file(text: &str) -> Self {
        let test = Self::new();
        test.write(text);
        test
    }

    pub fn os_home(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, text: &str) {
        let path = self.home.config_file();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn read(&self) -> String {
        fs::read_to_string(self.home.config_file()).unwrap()
    }

    pub fn load(&self) -> Result<Config, ConfigError> {
        Config::load(&self.home, &self.environment, &Overrides::default())
    }

    /// What loading says, with the file's path shortened to its name.
    pub fn refusal(&self) -> String {
        let error = self
            .load()
            .expect_err("the file is not accepted")
            .to_string();
        self.shortened(&error)
    }

    pub fn open(&self) -> ConfigFile {
        ConfigFile::open(&self.home).unwrap()
    }

    /// Opens, sets and saves; says what went wrong.
    pub fn set(&self, key: &str, value: &str) -> Result<(), String> {
        let mut file = self.open();
        let outcome = file.set(key, value).and_then(|()| file.save());
        outcome
            .map(drop)
            .map_err(|error| self.shortened(&error.to_string()))
    }

    fn shortened(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.home.root().display()), "")
    }
}
