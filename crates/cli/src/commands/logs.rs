//! `fermix logs`: the end of the daemon's log, and what comes after it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use fermix_daemon::logs;

use crate::output::{self, Exit};
use crate::start::Start;

/// How often a followed log is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How much of a file is read at once.
const PIECE: u64 = 64 * 1024;

/// Prints the last `lines`, and with `follow` every later one.
pub fn run(follow: bool, lines: usize, start: &Start) -> Exit {
    let path = start.home.log_file();
    if logs::existing(path).is_empty() {
        return output::failure(
            false,
            &format!(
                "there is no log yet at `{}`; `fermix run` writes one",
                path.display()
            ),
        );
    }
    let cannot = |error: io::Error| format!("cannot read the log `{}`: {error}", path.display());
    match print(path, follow, lines) {
        Ok(()) => Exit::Ok,
        Err(error) => output::failure(false, &cannot(error)),
    }
}

fn print(path: &Path, follow: bool, lines: usize) -> io::Result<()> {
    // Opened first, so that nothing is missed between its end and what follows.
    let mut followed = Followed::open(path)?;
    let mut pieces = Vec::new();
    let mut missing = lines;
    for part in logs::existing(path) {
        if missing == 0 {
            break;
        }
        let until = match &followed {
            Some(followed) if part == path => Some(followed.position),
            _ => None,
        };
        let (piece, found) = tail(&mut File::open(&part)?, until, missing)?;
        missing -= found;
        pieces.push(piece);
    }
    for piece in pieces.iter().rev() {
        output::raw(&String::from_utf8_lossy(piece));
    }
    if !follow {
        return Ok(());
    }
    loop {
        match &mut followed {
            Some(log) => {
                log.print_new()?;
                if log.was_put_aside(path) {
                    // Nothing is written to it any more.
                    log.print_new()?;
                    followed = Followed::start_of(path)?;
                    continue;
                }
            }
            None => followed = Followed::start_of(path)?,
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The last `lines` whole lines before `until`, and how many they are.
fn tail(file: &mut File, until: Option<u64>, lines: usize) -> io::Result<(Vec<u8>, usize)> {
    let end = match until {
        Some(until) => until,
        None => file.metadata()?.len(),
    };
    let mut start = end;
    let mut text = Vec::new();
    // One more than wanted: the line before the first ends right there.
    while start > 0 && count(&text) <= lines {
        let from = start.saturating_sub(PIECE);
        let mut piece = vec![0; usize::try_from(start - from).unwrap_or(0)];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut piece)?;
        piece.extend_from_slice(&text);
        text = piece;
        start = from;
    }
    let surplus = count(&text).saturating_sub(lines);
    let cut = text
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .nth(surplus.wrapping_sub(1))
        .map_or(0, |(place, _)| place + 1);
    text.drain(..cut);
    let found = count(&text).min(lines);
    Ok((text, found))
}

fn count(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// A log that is read as it grows.
struct Followed {
    file: File,
    position: u64,
    /// The beginning of a line that has no end yet.
    unfinished: Vec<u8>,
}

impl Followed {
    /// At the end of what is there; `None` when there is no file.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let log = Self::start_of(path)?;
        log.map(|mut log| {
            log.position = log.file.metadata()?.len();
            Ok(log)
        })
        .transpose()
    }

    fn start_of(path: &Path) -> io::Result<Option<Self>> {
        match File::open(path) {
            Ok(file) => Ok(Some(Self {
                file,
                position: 0,
                unfinished: Vec::new(),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Prints the lines that are new.
    fn print_new(&mut self) -> io::Result<()> {
        if self.file.metadata()?.len() < self.position {
            // Somebody emptied it.
            self.position = 0;
            self.unfinished.clear();
        }
        self.file.seek(SeekFrom::Start(self.position))?;
        loop {
            let mut piece = Vec::new();
            let read = (&self.file).take(PIECE).read_to_end(&mut piece)?;
            if read == 0 {
                return Ok(());
            }
            self.position += read as u64;
            self.unfinished.append(&mut piece);
            if let Some(end) = self.unfinished.iter().rposition(|byte| *byte == b'\n') {
                let lines: Vec<u8> = self.unfinished.drain(..=end).collect();
                output::raw(&String::from_utf8_lossy(&lines));
            }
        }
    }

    /// Whether the name belongs to another file now.
    fn was_put_aside(&self, path: &Path) -> bool {
        let same = |ours: std::fs::Metadata, named: std::fs::Metadata| {
            (ours.dev(), ours.ino()) == (named.dev(), named.ino())
        };
        match (self.file.metadata(), path.metadata()) {
            (Ok(ours), Ok(named)) => !same(ours, named),
            // In the middle of being put aside; looked at again soon.
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_has_the_last_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let check = |text: &str, lines: usize, expected: &str| {
            std::fs::write(&path, text).unwrap();
            let (tail, found) = tail(&mut File::open(&path).unwrap(), None, lines).unwrap();
            assert_eq!(String::from_utf8(tail).unwrap(), expected);
            assert_eq!(found, expected.lines().count());
        };
        check("", 3, "");
        check("a\nb\nc\n", 2, "b\nc\n");
        check("a\nb\nc\n", 3, "a\nb\nc\n");
        check("a\nb\nc\n", 9, "a\nb\nc\n");
        let long: String = (0..20_000)
            .map(|number| format!("line {number}\n"))
            .collect();
        check(&long, 10_000, &long[long.find("line 10000\n").unwrap()..]);
    }
}
