//! Commands the owner approved for good, in a file of their own.
//!
//! `grants/commands.json` in the Fermix home, which no tool reaches. A file that others could have
//! written, or that cannot be read as what we wrote, approves nothing and is left as it is: it is
//! evidence.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use fermix_types::UnixMillis;
use serde::{Deserialize, Serialize};

use super::subject::Subject;

/// The most commands that are remembered. Somebody with more wants `approve = "risky"`.
pub const MAX_REMEMBERED: usize = 256;
/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 32 * 1024 * 1024;
const VERSION: u32 = 1;

/// One command the owner need not be asked about again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovedCommand {
    /// Names it. Covers everything below and nothing else.
    pub digest: String,
    /// The tool that runs it.
    pub tool: String,
    /// The whole command.
    pub command: String,
    /// The folder it may run in.
    pub folder: String,
    /// The names of the variables it gets.
    pub env_names: Vec<String>,
    /// When the owner said so.
    pub approved_at: UnixMillis,
}

/// Why the list cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum RememberError {
    /// The system's answer.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// Others may read or write it, or it is somebody else's.
    #[error(
        "{} is not private to you, so what it approves does not count; look at it, and remove it or run `chmod 600` on it",
        .0.display()
    )]
    NotPrivate(PathBuf),
    /// It is not what Fermix writes.
    #[error("{} is damaged, so what it approves does not count; look at it and remove it", .0.display())]
    Damaged(PathBuf),
    /// There are too many.
    #[error("{MAX_REMEMBERED} commands are approved already; remove one first")]
    Full,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    commands: Vec<ApprovedCommand>,
}

/// The list of commands approved for good. Blocking; clones work on one file.
#[derive(Clone, Debug)]
pub struct ApprovedCommands {
    file: PathBuf,
}

impl ApprovedCommands {
    /// The list of the Fermix home `home`.
    pub fn in_home(home: &Path) -> Self {
        Self {
            file: home.join("grants").join("commands.json"),
        }
    }

    /// Every approved command, the oldest first.
    pub fn list(&self) -> Result<Vec<ApprovedCommand>, RememberError> {
        let io = |source| self.io(source);
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(&self.file);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io(error)),
        };
        let found = file.metadata().map_err(io)?;
        let is_own = found.uid() == rustix::process::geteuid().as_raw();
        if !found.is_file() || found.mode() & 0o077 != 0 || !is_own {
            return Err(RememberError::NotPrivate(self.file.clone()));
        }
        let mut text = String::new();
        file.take(MAX_FILE)
            .read_to_string(&mut text)
            .map_err(|_| RememberError::Damaged(self.file.clone()))?;
        match serde_json::from_str::<Content>(&text) {
            Ok(content)
                if content.version == VERSION && content.commands.len() <= MAX_REMEMBERED =>
            {
                Ok(content.commands)
            }
            _ => Err(RememberError::Damaged(self.file.clone())),
        }
    }

    /// Whether exactly this was approved.
    pub(super) fn holds(&self, subject: &Subject) -> Result<bool, RememberError> {
        let digest = subject.digest();
        Ok(self
            .list()?
            .iter()
            .any(|approved| approved.digest == digest))
    }

    /// Approves exactly this from now on.
    pub(super) fn remember(&self, subject: &Subject, now: UnixMillis) -> Result<(), RememberError> {
        let approved = ApprovedCommand {
            digest: subject.digest(),
            tool: subject.tool.clone(),
            command: subject.readable(),
            folder: subject.folder.clone().unwrap_or_default(),
            env_names: subject.env_names.clone(),
            approved_at: now,
        };
        self.change(|commands| {
            if commands.iter().any(|known| known.digest == approved.digest) {
                return Ok(());
            }
            if commands.len() >= MAX_REMEMBERED {
                return Err(RememberError::Full);
            }
            commands.push(approved);
            Ok(())
        })
    }

    /// Asks again from now on about what `digest` names: at least eight digits of it, and one command
    /// only. Whether there was one.
    pub fn remove(&self, digest: &str) -> Result<bool, RememberError> {
        let mut removed = false;
        self.change(|commands| {
            let mut named = commands
                .iter()
                .enumerate()
                .filter(|(_, known)| digest.len() >= 8 && known.digest.starts_with(digest))
                .map(|(place, _)| place);
            if let (Some(place), None) = (named.next(), named.next()) {
                commands.remove(place);
                removed = true;
            }
            Ok(())
        })?;
        Ok(removed)
    }

    /// Reads, changes and replaces the list as one step among all processes.
    fn change(
        &self,
        edit: impl FnOnce(&mut Vec<ApprovedCommand>) -> Result<(), RememberError>,
    ) -> Result<(), RememberError> {
        let io = |source| self.io(source);
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(io)?;
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(folder.join("commands.lock"))
            .map_err(io)?;
        // Held for one small read and write, so whoever waits does not wait long.
        lock.lock().map_err(io)?;
        let mut commands = self.list()?;
        edit(&mut commands)?;
        let content = Content {
            version: VERSION,
            commands,
        };
        let text = serde_json::to_string_pretty(&content).expect("plain data with string keys");
        let fresh = folder.join("commands.json.new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(io)?;
        file.write_all(text.as_bytes()).map_err(io)?;
        file.sync_all().map_err(io)?;
        fs::rename(&fresh, &self.file).map_err(io)?;
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(io)
    }

    fn io(&self, source: io::Error) -> RememberError {
        RememberError::Io {
            path: self.file.clone(),
            source,
        }
    }
}
