//! Office documents are zip archives. Before anything is read from one it is unpacked into
//! nowhere, so that its real size is known and not only the size it claims.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::read::ZipFile;

use super::extraction::{Extraction, Stop};

/// The most parts an archive may have.
const MAX_PARTS: usize = 10_000;
/// The most bytes all parts together may unpack to.
const MAX_UNPACKED: u64 = 128 * 1024 * 1024;
/// How many times its packed size a part may unpack to, once it is larger than [`SMALL`].
const MAX_RATIO: u64 = 200;
/// Parts up to this size may be packed as tightly as they like.
const SMALL: u64 = 1024 * 1024;

/// An archive that is safe to read.
pub(super) type Package<'a> = ZipArchive<Cursor<&'a [u8]>>;

/// Opens `bytes` and proves that all of it unpacks within the limits.
pub(super) fn open<'a>(bytes: &'a [u8], found: &Extraction) -> Result<Package<'a>, Stop> {
    let mut package = ZipArchive::new(Cursor::new(bytes)).map_err(|error| damaged(&error))?;
    if package.len() > MAX_PARTS {
        return Err(Stop::refused(format!(
            "it has {} parts; the limit is {MAX_PARTS}",
            package.len()
        )));
    }
    let mut total = 0;
    let mut piece = vec![0; 64 * 1024];
    for index in 0..package.len() {
        let mut part = package.by_index(index).map_err(|error| damaged(&error))?;
        let mut size: u64 = 0;
        loop {
            let count = part.read(&mut piece).map_err(|error| damaged(&error))?;
            if count == 0 {
                break;
            }
            size += count as u64;
            total += count as u64;
            let packed = part.compressed_size().max(1);
            if total > MAX_UNPACKED || (size > SMALL && size / packed > MAX_RATIO) {
                return Err(Stop::refused(
                    "it unpacks to far more than it holds, as an archive made to fill the memory does",
                ));
            }
            found.check()?;
        }
    }
    Ok(package)
}

/// One part by name; nothing when there is none.
pub(super) fn part<'p, 'a>(
    package: &'p mut Package<'a>,
    name: &str,
) -> Result<Option<ZipFile<'p, Cursor<&'a [u8]>>>, Stop> {
    match package.by_name(name) {
        Ok(part) => Ok(Some(part)),
        Err(zip::result::ZipError::FileNotFound) => Ok(None),
        Err(error) => Err(damaged(&error)),
    }
}

pub(super) fn damaged(error: &dyn std::fmt::Display) -> Stop {
    Stop::refused(format!("it is damaged ({error})"))
}
