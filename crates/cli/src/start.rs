//! What every command starts from: the home, the environment, this program's own file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fermix_config::{Config, Environment, Home, Overrides};
use fermix_daemon::approvals::PolicyDesk;
use fermix_daemon::secrets::Redactor;
use fermix_daemon::{Engine, LocalPeer, Parts, presence};
use tokio::runtime::{Builder, Runtime};

use crate::output::{self, Exit};

/// Threads that run turns. Tools that block have threads of their own.
const WORKERS: usize = 2;

/// Captured once, at the top.
pub struct Start {
    /// The Fermix home.
    pub home: Home,
    /// The environment.
    pub environment: Environment,
    /// This program's own file.
    pub executable: PathBuf,
    /// The folder the command was given in, when it can be read.
    pub cwd: Option<PathBuf>,
    /// Knows every secret that this process has read.
    pub redactor: Arc<Redactor>,
}

impl Start {
    /// Finds the home. A failure is told to the person.
    pub fn new(
        home: Option<&Path>,
        environment: Environment,
        redactor: Arc<Redactor>,
    ) -> Result<Self, Exit> {
        let as_json = std::env::args_os().any(|argument| argument == "--json");
        let home = Home::resolve(home, &environment)
            .map_err(|error| output::failure(as_json, &error.to_string()))?;
        let executable = std::env::current_exe().map_err(|error| {
            output::failure(
                as_json,
                &format!("cannot find Fermix's own program file: {error}"),
            )
        })?;
        Ok(Self {
            home,
            environment,
            executable,
            cwd: std::env::current_dir().ok(),
            redactor,
        })
    }

    /// Whether the owner is here in person.
    pub fn peer(&self) -> LocalPeer {
        presence::of_this_process(&self.environment, &self.executable)
    }

    /// What is wrong with settings that are valid one by one.
    pub fn problems(&self, config: &Config) -> Vec<String> {
        let parts = self.parts(config.clone(), &[]);
        fermix_daemon::problems(&parts).unwrap_or_else(|error| vec![error.to_string()])
    }

    fn parts(&self, config: Config, granted: &[PathBuf]) -> Parts {
        Parts {
            home: self.home.clone(),
            environment: self.environment.clone(),
            config,
            executable: self.executable.clone(),
            launch_dir: self.cwd.clone(),
            extra_roots: granted.to_vec(),
            redactor: Arc::clone(&self.redactor),
        }
    }

    /// The desk for changes of the sandbox, also when the settings keep Fermix from starting.
    pub fn policy_desk(&self) -> Result<PolicyDesk, String> {
        let config = self.config()?;
        fermix_daemon::policy::desk(&self.parts(config, &[])).map_err(|error| error.to_string())
    }

    /// The configuration as file and environment give it.
    pub fn config(&self) -> Result<Config, String> {
        Config::load(&self.home, &self.environment, &Overrides::default())
            .map_err(|error| error.to_string())
    }

    /// Builds Fermix from the configuration. `granted` are folders of this invocation alone.
    pub fn engine(&self, granted: &[PathBuf]) -> Result<Engine, String> {
        let config = self.config()?;
        for warning in &config.warnings {
            output::notice(&format!("warning: {warning}"));
        }
        Engine::build(self.parts(config, granted)).map_err(|error| error.to_string())
    }

    /// The threads that turns run on.
    pub fn runtime(&self) -> Result<Runtime, String> {
        Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start threads: {error}"))
    }
}
