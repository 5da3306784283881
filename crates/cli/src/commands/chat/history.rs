//! What was typed before: a bounded file in the home that only its owner can read, without what
//! looks like a secret.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fermix_config::Home;
use fermix_daemon::commands;
use fermix_secrets::Redactor;
use rustyline::history::{History as _, MemHistory};

use crate::output;

/// The longest message that is kept, in bytes.
const MAX_ENTRY: usize = 8 * 1024;
/// A file longer than this was not written here.
const MAX_FILE: u64 = 32 << 20;

/// The history's file: one JSON string a line, the oldest first. Without a file, what is typed is
/// remembered until the end of the program.
pub(super) struct History {
    file: Option<(PathBuf, File)>,
    /// Lines in the file.
    entries: usize,
    redactor: Redactor,
}

impl History {
    /// The most messages that are kept.
    pub(super) const MAX_ENTRIES: usize = 1000;

    /// Reads the file into `lines`. One that cannot be used is left as it is, and said so.
    pub(super) fn open(home: &Home, lines: &mut MemHistory) -> Self {
        let path = home.root().join("chat_history");
        let mut history = Self {
            file: None,
            entries: 0,
            redactor: Redactor::new(),
        };
        match open_private(&path).and_then(|mut file| Ok((read(&mut file)?, file))) {
            Ok((kept, file)) => {
                history.entries = kept.len();
                history.file = Some((path, file));
                let newest = kept.len().saturating_sub(Self::MAX_ENTRIES);
                for entry in kept.into_iter().skip(newest) {
                    let _ = lines.add_owned(entry);
                }
            }
            Err(error) => output::notice(&format!(
                "what you type is not kept: `{}` cannot be used: {error}; remove it to start anew",
                path.display()
            )),
        }
        history
    }

    /// Keeps a message, unless it begins with a space, is very long, looks like a secret, or is the
    /// answer to a prompt.
    pub(super) fn keep(&mut self, text: &str, lines: &mut MemHistory) {
        if !self.may_keep(text) || !lines.add(text).unwrap_or(false) {
            return;
        }
        if let Err(error) = self.write(text) {
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

    fn write(&mut self, text: &str) -> io::Result<()> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        // In one piece, so that two conversations at once do not mix their lines.
        file.write_all(line(text)?.as_bytes())?;
        self.entries += 1;
        if self.entries >= 2 * Self::MAX_ENTRIES {
            let kept = read(&mut open_private(path)?)?;
            let newest = &kept[kept.len().saturating_sub(Self::MAX_ENTRIES)..];
            *file = replace(path, newest)?;
            self.entries = newest.len();
        }
        Ok(())
    }
}

fn line(text: &str) -> io::Result<String> {
    Ok(serde_json::to_string(text)? + "\n")
}

/// What is kept. A line that was cut by a crash, or that is none of ours, is passed over.
fn read(file: &mut File) -> io::Result<Vec<String>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    if bytes.last().is_some_and(|last| *last != b'\n') {
        // What is added next begins a line of its own.
        file.write_all(b"\n")?;
    }
    Ok(bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect())
}

/// Opens the file to read it and to add to it, private, creating it when it is missing.
fn open_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
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
    Ok(file)
}

/// Puts a shorter file in the place of a long one; after a crash there is one or the other.
fn replace(path: &Path, entries: &[String]) -> io::Result<File> {
    let next = path.with_extension("new");
    match fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = open_private(&next)?;
    let text: String = entries
        .iter()
        .map(|entry| line(entry))
        .collect::<io::Result<_>>()?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    fs::rename(&next, path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use fermix_config::Environment;
    use rustyline::Config;
    use rustyline::history::SearchDirection;

    use super::*;

    fn lines() -> MemHistory {
        let config = Config::builder()
            .max_history_size(History::MAX_ENTRIES)
            .unwrap()
            .history_ignore_space(true)
            .build();
        MemHistory::with_config(&config)
    }

    fn kept(lines: &MemHistory) -> Vec<String> {
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
        let total = 2 * History::MAX_ENTRIES + 50;
        for number in 0..total {
            history.keep(&format!("line {number}"), &mut first);
        }
        let mut second = lines();
        let _history = History::open(&home, &mut second);
        let kept = kept(&second);
        assert_eq!(kept.len(), History::MAX_ENTRIES);
        assert_eq!(kept.last().unwrap(), &format!("line {}", total - 1));
        let text = fs::read_to_string(root.join("chat_history")).unwrap();
        assert_eq!(text.lines().count(), History::MAX_ENTRIES + 50);
        assert!(!root.join("chat_history.new").exists());
    }

    #[test]
    fn a_line_that_a_crash_cut_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("home");
        let home = Home::resolve(Some(&root), &Environment::default()).unwrap();
        fs::write(root.join("chat_history"), b"\"one\"\n\xff\n\"two\"\n\"thr").unwrap();
        let mut lines = lines();
        let mut history = History::open(&home, &mut lines);
        assert_eq!(kept(&lines), ["one", "two"]);
        history.keep("three", &mut lines);
        let mut again = self::lines();
        let _history = History::open(&home, &mut again);
        assert_eq!(kept(&again), ["one", "two", "three"]);
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
