//! What was typed before: a bounded file in the home that only its owner can read, without what
//! looks like a secret.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fermix_config::Home;
use fermix_daemon::commands;
use fermix_secrets::Redactor;
use rustyline::history::{FileHistory, History as _};

use crate::output;

/// The longest message that is kept, in bytes.
const MAX_ENTRY: usize = 8 * 1024;
/// A file longer than this was not written here.
const MAX_FILE: u64 = 16 << 20;

/// The history's file. Without one, what is typed is remembered until the end of the program.
pub(super) struct History {
    file: Option<PathBuf>,
    redactor: Redactor,
}

impl History {
    /// The most messages that are kept.
    pub(super) const MAX_ENTRIES: usize = 1000;

    /// Reads the file into `lines`. One that cannot be used is left as it is, and said so.
    pub(super) fn open(home: &Home, lines: &mut FileHistory) -> Self {
        let path = home.root().join("chat_history");
        let file = match prepare(&path).and_then(|()| {
            lines
                .load(&path)
                .map_err(|error| io::Error::other(error.to_string()))
        }) {
            Ok(()) => Some(path),
            Err(error) => {
                output::notice(&format!(
                    "what you type is not kept: `{}` cannot be used: {error}; remove it to start anew",
                    path.display()
                ));
                None
            }
        };
        Self {
            file,
            redactor: Redactor::new(),
        }
    }

    /// Keeps a message, unless it begins with a space, is very long, looks like a secret, or is the
    /// answer to a prompt.
    pub(super) fn keep(&mut self, text: &str, lines: &mut FileHistory) {
        if !self.may_keep(text) || !lines.add(text).unwrap_or(false) {
            return;
        }
        if let Some(path) = &self.file
            && let Err(error) = lines.append(path)
        {
            output::notice(&format!("what you type is no longer kept: {error}"));
            self.file = None;
        }
    }

    fn may_keep(&self, text: &str) -> bool {
        let is_answer = commands::parse(text, None)
            .is_some_and(|command| matches!(command.name.as_str(), "confirm" | "deny"));
        !text.trim().is_empty()
            && !text.starts_with(char::is_whitespace)
            && text.len() <= MAX_ENTRY
            && !is_answer
            && self.redactor.redact(text) == text
    }
}

/// Makes the file private, creating it when it is missing.
fn prepare(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if metadata.len() > MAX_FILE {
        return Err(io::Error::other("it is too long"));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fermix_config::Environment;
    use rustyline::Config;
    use rustyline::history::SearchDirection;

    use super::*;

    fn lines() -> FileHistory {
        let config = Config::builder()
            .max_history_size(History::MAX_ENTRIES)
            .unwrap()
            .history_ignore_space(true)
            .build();
        FileHistory::with_config(&config)
    }

    fn kept(lines: &FileHistory) -> Vec<String> {
        (0..lines.len())
            .map(|at| {
                let found = lines.get(at, SearchDirection::Forward).unwrap().unwrap();
                found.entry.into_owned()
            })
            .collect()
    }

    #[test]
    fn the_file_keeps_what_may_be_read_again_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("home");
        let home = Home::resolve(Some(&root), &Environment::default()).unwrap();
        let path = root.join("chat_history");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();

        let mut first = lines();
        let mut history = History::open(&home, &mut first);
        let secret = format!("my key is sk-ant-api03-{}", "a1B2c3D4".repeat(6));
        for text in [
            "hello",
            " not this",
            "two\nlines \\ here",
            &secret,
            "/confirm ABCDEFGH once",
            &"x".repeat(MAX_ENTRY + 1),
            "/help",
        ] {
            history.keep(text, &mut first);
        }
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );

        let mut second = lines();
        let _history = History::open(&home, &mut second);
        assert_eq!(kept(&second), ["hello", "two\nlines \\ here", "/help"]);
    }

    #[test]
    fn the_file_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("home");
        let home = Home::resolve(Some(&root), &Environment::default()).unwrap();
        let mut first = lines();
        let mut history = History::open(&home, &mut first);
        for number in 0..History::MAX_ENTRIES + 50 {
            history.keep(&format!("line {number}"), &mut first);
        }
        let mut second = lines();
        let _history = History::open(&home, &mut second);
        let kept = kept(&second);
        assert_eq!(kept.len(), History::MAX_ENTRIES);
        assert_eq!(
            kept.last().unwrap(),
            &format!("line {}", History::MAX_ENTRIES + 49)
        );
        let text = fs::read_to_string(root.join("chat_history")).unwrap();
        assert!(text.lines().count() <= History::MAX_ENTRIES + 1);
    }

    #[test]
    fn a_file_that_is_not_ours_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("home");
        let home = Home::resolve(Some(&root), &Environment::default()).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "precious\n").unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.join("chat_history")).unwrap();
        let mut lines = lines();
        let mut history = History::open(&home, &mut lines);
        history.keep("hello", &mut lines);
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious\n");
        assert_eq!(kept(&lines), ["hello"]);
    }
}
