//! The Fermix home: where it is, and the names of what lies in it.

mod privacy;

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::env::{self, Environment};

/// The folder that holds everything Fermix keeps. It exists, and only its owner can enter it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    os_home: Option<PathBuf>,
    traces: PathBuf,
    log_file: PathBuf,
}

/// Why there is no usable home.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Nothing says where the home is.
    #[error("no Fermix home: HOME is not set; pass `--home PATH` or set FERMIX_HOME")]
    Unknown,
    /// A variable or flag names something that cannot be a home.
    #[error("`{}` cannot be the Fermix home: {reason}; choose a folder of its own", path.display())]
    Unsuitable {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Others can enter the folder, and what lies in it is not a Fermix home.
    #[error(
        "`{}` holds other things than a Fermix home and other users may enter it; name an empty or new folder, \
         or run `chmod 700 {}` first if it really is a Fermix home", path.display(), path.display()
    )]
    Occupied {
        /// The folder, which was left alone.
        path: PathBuf,
    },
    /// The folder could not be made or made private.
    #[error("cannot {doing} the Fermix home `{}`: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl Home {
    /// Finds the home, and creates it with mode 0700 when it is missing. A folder that is there
    /// and that others can enter is made private only when it is empty or a Fermix home already.
    ///
    /// Precedence: 1. `flag` (`--home`), 2. `FERMIX_HOME`, 3. `$HOME/.fermix`. A blank variable
    /// counts as unset: a blank home would make every path relative to the working folder.
    pub fn resolve(flag: Option<&Path>, environment: &Environment) -> Result<Self, HomeError> {
        let os_home = environment
            .get_os(env::HOME)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let root = match (flag, environment.get_os(env::FERMIX_HOME)) {
            (Some(flag), _) => absolute(flag, os_home.as_deref())?,
            (None, Some(variable)) => absolute(Path::new(variable), os_home.as_deref())?,
            (None, None) => os_home
                .as_deref()
                .ok_or(HomeError::Unknown)?
                .join(".fermix"),
        };
        privacy::ensure(&root, os_home.as_deref())?;
        let traces = match environment.get_os(env::FERMIX_TRACE_DIR) {
            Some(variable) => absolute(Path::new(variable), os_home.as_deref())?,
            None => root.join("traces"),
        };
        let log_file = match environment.get_os(env::FERMIX_LOG_FILE) {
            Some(variable) => absolute(Path::new(variable), os_home.as_deref())?,
            None => root.join("logs/fermix.log"),
        };
        Ok(Self {
            root,
            os_home,
            traces,
            log_file,
        })
    }

    /// The home itself, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The operating system's home folder, when `HOME` names one.
    pub fn os_home(&self) -> Option<&Path> {
        self.os_home.as_deref()
    }

    /// `config.toml`.
    pub fn config_file(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// `auth.json`: sign-ins of providers.
    pub fn auth_file(&self) -> PathBuf {
        self.root.join("auth.json")
    }

    /// `memory.db`: all durable state, in SQLite.
    pub fn database(&self) -> PathBuf {
        self.root.join("memory.db")
    }

    /// The traces, a folder a day.
    pub fn traces(&self) -> &Path {
        &self.traces
    }

    /// `workspace/`: the default workspace of the tools.
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// `bootstrap/main/`: the owner's identity files of the main agent.
    pub fn bootstrap(&self) -> PathBuf {
        self.root.join("bootstrap/main")
    }

    /// `memory/main/`: what the main agent remembers as files.
    pub fn memory(&self) -> PathBuf {
        self.root.join("memory/main")
    }

    /// `skills/`: the owner's skills.
    pub fn skills(&self) -> PathBuf {
        self.root.join("skills")
    }

    /// The old contents of what tools changed.
    pub fn undo(&self) -> PathBuf {
        self.root.join("undo")
    }

    /// `secrets/`: the file store of secrets.
    pub fn secrets(&self) -> PathBuf {
        self.root.join("secrets")
    }

    /// The daemon's log. Older parts lie beside it as `.1` to `.4`.
    pub fn log_file(&self) -> &Path {
        &self.log_file
    }

    /// `daemon.sock`: where the daemon listens.
    pub fn daemon_socket(&self) -> PathBuf {
        self.root.join("daemon.sock")
    }

    /// `daemon.lock`: held for life by the one daemon of this home; holds its process id.
    pub fn daemon_lock(&self) -> PathBuf {
        self.root.join("daemon.lock")
    }

    /// The daemon's control socket.
    pub fn socket(&self) -> PathBuf {
        self.root.join("daemon.sock")
    }

    /// The file whose lock says that a process owns this home.
    pub fn home_lock(&self) -> PathBuf {
        self.root.join("fermix.lock")
    }

    /// `text` as an absolute path, with `~` and `~/…` expanded. `~user` is an ordinary name.
    pub(crate) fn expand(&self, text: &str) -> Result<PathBuf, String> {
        let path = match tilde_rest(Path::new(text)) {
            Some(rest) => match &self.os_home {
                Some(os_home) => os_home.join(rest),
                None => return Err("`~` needs HOME to be set; write the whole path".to_owned()),
            },
            None => PathBuf::from(text),
        };
        if path.is_absolute() {
            Ok(path)
        } else {
            Err("a relative path has no fixed meaning here; start it with `/` or `~/`".to_owned())
        }
    }
}

fn tilde_rest(path: &Path) -> Option<&Path> {
    path.strip_prefix("~").ok()
}

fn absolute(path: &Path, os_home: Option<&Path>) -> Result<PathBuf, HomeError> {
    let expanded = match (tilde_rest(path), os_home) {
        (Some(rest), Some(os_home)) => os_home.join(rest),
        (Some(_), None) => return Err(HomeError::Unknown),
        (None, _) => path.to_owned(),
    };
    if expanded.as_os_str().is_empty() {
        return Err(HomeError::Unsuitable {
            path: expanded,
            reason: "the name is empty",
        });
    }
    let whole = std::path::absolute(&expanded).map_err(|source| HomeError::Io {
        doing: "locate",
        path: expanded,
        source,
    })?;
    // `std::path::absolute` keeps `..`, which would make string comparisons of paths meaningless.
    if whole.components().any(|part| part == Component::ParentDir) {
        return Ok(whole.canonicalize().unwrap_or(whole));
    }
    Ok(whole)
}
