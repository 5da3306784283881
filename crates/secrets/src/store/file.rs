//! Encrypted files: one for each secret, below the Fermix home.
//!
//! The key is a file of random bytes beside them. It keeps a secret out of whatever copies one file
//! without the other, and out of searches of the disk; it does not keep it from a program that runs
//! as the owner and may read both. Each file's name is bound into its ciphertext, so that two
//! entries cannot be swapped.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use fermix_types::SecretStore;
use rustix::fs::{Mode, OFlags};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::{Attendance, Backend, MAX_VALUE, SecretError, StoreState};
use crate::item::Item;
use crate::lock_file::{self, LockError};

/// What every file begins with: the format and its version.
const MAGIC: &[u8; 8] = b"fermixs1";
const NONCE: usize = 24;
const TAG: usize = 16;
const KEY: usize = 32;
/// The longest file.
const MAX_FILE: usize = MAGIC.len() + NONCE + MAX_VALUE + TAG;

/// The key of all files.
const KEY_FILE: &str = ".key";
/// Held by whoever writes.
const LOCK_FILE: &str = ".lock";
/// The ending of a file that is not finished.
const FRESH: &str = ".new";

/// The folder of the files. Making one touches nothing.
#[derive(Clone, Debug)]
pub(crate) struct FileStore {
    folder: PathBuf,
}

impl FileStore {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn path(&self, item: &Item) -> PathBuf {
        self.folder.join(item.file_name())
    }

    fn read_now(&self, item: &Item) -> Result<Option<SecretString>, SecretError> {
        let path = self.path(item);
        if !self.check_folder()? {
            return Ok(None);
        }
        let Some(sealed) = read_private(&path, MAX_FILE)? else {
            return Ok(None);
        };
        let damaged = |detail| SecretError::Damaged {
            path: path.clone(),
            detail,
        };
        let Some(key) = self.key()? else {
            return Err(damaged("the file `.key` beside it is missing"));
        };
        let Some(rest) = sealed.strip_prefix(MAGIC) else {
            return Err(damaged("it does not begin as one of these files does"));
        };
        let Some((nonce, sealed)) = rest.split_at_checked(NONCE) else {
            return Err(damaged("it is cut off"));
        };
        let opened = cipher(&key)
            .decrypt(
                XNonce::from_slice(nonce),
                Payload {
                    msg: sealed,
                    aad: item.to_string().as_bytes(),
                },
            )
            .map_err(|_| damaged("it was changed, or sealed with another key or name"))?;
        let opened = Zeroizing::new(opened);
        let text = std::str::from_utf8(&opened).map_err(|_| damaged("it holds no text"))?;
        Ok(Some(SecretString::from(text)))
    }

    fn write_now(&self, item: &Item, value: &SecretString) -> Result<(), SecretError> {
        self.make_folder()?;
        let _lock = self.lock()?;
        let path = self.path(item);
        // An entry that others could write is evidence, and must not be replaced in passing.
        read_private(&path, MAX_FILE)?;
        let key = match self.key()? {
            Some(key) => key,
            None => self.make_key()?,
        };
        let mut nonce = [0; NONCE];
        random(&mut nonce)?;
        let sealed = cipher(&key)
            .encrypt(
                XNonce::from_slice(&nonce),
                Payload {
                    msg: value.expose_secret().as_bytes(),
                    aad: item.to_string().as_bytes(),
                },
            )
            .map_err(|_| SecretError::BadValue)?;
        let mut whole = Vec::with_capacity(MAGIC.len() + NONCE + sealed.len());
        whole.extend_from_slice(MAGIC);
        whole.extend_from_slice(&nonce);
        whole.extend_from_slice(&sealed);
        replace(&path, &whole)
    }

    fn remove_now(&self, item: &Item) -> Result<bool, SecretError> {
        if !self.check_folder()? {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let path = self.path(item);
        match fs::remove_file(&path) {
            Ok(()) => {
                sync_folder(&self.folder)?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error("remove", &path, &error)),
        }
    }

    /// Whether the folder is there. One that others can enter is refused.
    fn check_folder(&self) -> Result<bool, SecretError> {
        let metadata = match fs::symlink_metadata(&self.folder) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(io_error("look at", &self.folder, &error)),
        };
        if !metadata.is_dir() {
            let error = io::Error::other("it is not a folder; move it away");
            return Err(io_error("use", &self.folder, &error));
        }
        check_private(&self.folder, &metadata)?;
        Ok(true)
    }

    fn make_folder(&self) -> Result<(), SecretError> {
        if self.check_folder()? {
            return Ok(());
        }
        // With its mode from the start: there is no moment in which others may enter.
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.check_folder().map(drop)
            }
            Err(error) => Err(io_error("make", &self.folder, &error)),
        }
    }

    fn lock(&self) -> Result<lock_file::Lock, SecretError> {
        let path = self.folder.join(LOCK_FILE);
        lock_file::take(&path).map_err(|error| match error {
            LockError::Busy => SecretError::Unavailable {
                store: SecretStore::File,
                reason: "another process is writing secrets; try again".to_owned(),
            },
            LockError::Io(error) => io_error("lock", &path, &error),
        })
    }

    fn key(&self) -> Result<Option<Zeroizing<[u8; KEY]>>, SecretError> {
        let path = self.folder.join(KEY_FILE);
        let Some(bytes) = read_private(&path, KEY)? else {
            return Ok(None);
        };
        let key = <[u8; KEY]>::try_from(bytes.as_slice()).map_err(|_| SecretError::Damaged {
            path,
            detail: "a key has 32 bytes",
        })?;
        Ok(Some(Zeroizing::new(key)))
    }

    /// A new key, unless there are secrets that an earlier one sealed. Called under the lock.
    fn make_key(&self) -> Result<Zeroizing<[u8; KEY]>, SecretError> {
        let path = self.folder.join(KEY_FILE);
        let entries =
            fs::read_dir(&self.folder).map_err(|error| io_error("list", &self.folder, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| io_error("list", &self.folder, &error))?;
            if !entry.file_name().to_string_lossy().starts_with('.') {
                return Err(SecretError::Unavailable {
                    store: SecretStore::File,
                    reason: format!(
                        "its key `{}` is missing while secrets are there; put the key back, or remove the files beside it and set the secrets again",
                        path.display()
                    ),
                });
            }
        }
        let mut key = Zeroizing::new([0; KEY]);
        random(key.as_mut_slice())?;
        replace(&path, key.as_slice())?;
        Ok(key)
    }
}

#[async_trait]
impl Backend for FileStore {
    async fn state(&self) -> StoreState {
        match self.blocking(Self::check_folder).await {
            Ok(_) => StoreState::Ready,
            Err(error) => StoreState::Unavailable(error.to_string()),
        }
    }

    async fn read(&self, item: &Item) -> Result<Option<SecretString>, SecretError> {
        let item = item.clone();
        self.blocking(move |store| store.read_now(&item)).await
    }

    async fn write(
        &self,
        item: &Item,
        value: &SecretString,
        _attendance: Attendance,
    ) -> Result<(), SecretError> {
        let (item, value) = (item.clone(), value.clone());
        self.blocking(move |store| store.write_now(&item, &value))
            .await
    }

    async fn remove(&self, item: &Item, _attendance: Attendance) -> Result<bool, SecretError> {
        let item = item.clone();
        self.blocking(move |store| store.remove_now(&item)).await
    }
}

impl FileStore {
    /// A disk may be slow, and the runtime's workers must not wait for it.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, SecretError> + Send + 'static,
    ) -> Result<T, SecretError> {
        let store = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done.unwrap_or_else(|_| {
            Err(SecretError::Unavailable {
                store: SecretStore::File,
                reason: "its work was stopped; try again".to_owned(),
            })
        })
    }
}

fn cipher(key: &[u8; KEY]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.into())
}

fn random(bytes: &mut [u8]) -> Result<(), SecretError> {
    getrandom::fill(bytes).map_err(|error| SecretError::Unavailable {
        store: SecretStore::File,
        reason: format!("the system gave no random bytes: {error}"),
    })
}

/// The contents of a file that is its owner's alone; `None` when there is no file.
fn read_private(path: &Path, most: usize) -> Result<Option<Zeroizing<Vec<u8>>>, SecretError> {
    // A link could lead to somebody else's file, and opening a pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => File::from(descriptor),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(io_error("open", path, &error.into())),
    };
    let failed = |error: io::Error| io_error("read", path, &error);
    // Asked of the open file, so that it is the one that is read.
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    check_private(path, &metadata)?;
    let mut contents = Zeroizing::new(Vec::with_capacity(most + 1));
    file.take(most as u64 + 1)
        .read_to_end(&mut contents)
        .map_err(failed)?;
    if contents.len() > most {
        return Err(SecretError::Damaged {
            path: path.to_owned(),
            detail: "it is longer than any secret",
        });
    }
    Ok(Some(contents))
}

fn check_private(path: &Path, metadata: &fs::Metadata) -> Result<(), SecretError> {
    let mode = metadata.mode() & 0o7777;
    let owner = metadata.uid();
    if mode & 0o7077 == 0 && owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(SecretError::Exposed {
        path: path.to_owned(),
        mode,
        owner,
    })
}

/// Writes a whole file: a new one with its mode from the start, flushed, then renamed. Called under
/// the lock, so that one name for the unfinished file is enough.
fn replace(path: &Path, contents: &[u8]) -> Result<(), SecretError> {
    // With a dot in front: what begins without one is a secret.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = path.with_file_name(format!(".{name}{FRESH}"));
    let write = || -> io::Result<()> {
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open(&fresh, flags, Mode::from(0o600))?);
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().map_err(|error| io_error("write", path, &error))?;
    path.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(folder: &Path) -> Result<(), SecretError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| io_error("flush", folder, &error))
}

fn io_error(doing: &'static str, path: &Path, error: &io::Error) -> SecretError {
    SecretError::Io {
        doing,
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
