//! A file that is put aside when it is large: `fermix.log`, and before it `.1` to `.4`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;

/// The most bytes of one part.
const MAX_PART: u64 = 10 * 1024 * 1024;
/// How many parts there are, the present one included.
const PARTS: usize = 5;

/// The names of all parts, newest first.
pub fn parts(path: &Path) -> Vec<PathBuf> {
    (0..PARTS)
        .map(|age| match age {
            0 => path.to_owned(),
            age => {
                let mut name = path.as_os_str().to_owned();
                name.push(format!(".{age}"));
                name.into()
            }
        })
        .collect()
}

/// The log's file. Each record is one write.
pub(super) struct LogFile {
    parts: Vec<PathBuf>,
    max_part: u64,
    open: Mutex<Open>,
}

struct Open {
    file: File,
    length: u64,
}

impl LogFile {
    /// Opens the file for appending; its folder is made when it is missing.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, MAX_PART)
    }

    fn with_limit(path: &Path, max_part: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        Ok(Self {
            parts: parts(path),
            max_part,
            open: Mutex::new(Open::at(path)?),
        })
    }

    fn append(&self, record: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have moved or removed the file; what is written must be found.
        let is_there = fs::symlink_metadata(&self.parts[0]).is_ok_and(|named| {
            open.file
                .metadata()
                .is_ok_and(|ours| ours.ino() == named.ino())
        });
        if !is_there {
            *open = Open::at(&self.parts[0])?;
        }
        if open.length > 0 && open.length + record.len() as u64 > self.max_part {
            self.put_aside()?;
            *open = Open::at(&self.parts[0])?;
        }
        open.file.write_all(record)?;
        open.length += record.len() as u64;
        Ok(())
    }

    /// Makes every part one older. The oldest goes.
    fn put_aside(&self) -> io::Result<()> {
        for age in (0..self.parts.len() - 1).rev() {
            match fs::rename(&self.parts[age], &self.parts[age + 1]) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Open {
    fn at(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            // A named pipe would have its writer wait for a reader.
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        if found.mode() & 0o077 != 0 {
            rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o600))?;
        }
        Ok(Self {
            length: found.len(),
            file,
        })
    }
}

/// Writes records. One that cannot be written is lost, and nothing else is.
pub(super) struct Writer(pub(super) Arc<LogFile>);

impl Write for Writer {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.0.append(record).map(|()| record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_large_log_is_put_aside_and_the_oldest_part_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/fermix.log");
        let log = LogFile::with_limit(&path, 10).unwrap();
        for number in 0..9 {
            log.append(format!("line {number}\n").as_bytes()).unwrap();
        }
        let texts: Vec<String> = parts(&path)
            .iter()
            .map(|part| fs::read_to_string(part).unwrap())
            .collect();
        assert_eq!(
            texts,
            ["line 8\n", "line 7\n", "line 6\n", "line 5\n", "line 4\n"]
        );
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), PARTS);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        // A longer record than a part is kept whole, and a removed file comes back.
        log.append(b"a very long line\n").unwrap();
        fs::remove_file(&path).unwrap();
        log.append(b"again\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "again\n");
        assert_eq!(fs::read_to_string(&parts(&path)[1]).unwrap(), "line 8\n");
    }
}
