//! Changing `auth.json`: one writer at a time over all processes, from the newest state on disk.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fermix_types::UnixMillis;
use rustix::fs::{Mode, OFlags};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use super::{AuthError, AuthFile, Tokens, VERSION};
use crate::lock_file::{self, LockError};

/// How long a provider may take to renew a token.
const EXCHANGE: Duration = Duration::from_secs(30);
/// How long the processes before this one may take with theirs.
const LINE: Duration = Duration::from_secs(90);

/// Tokens that a provider has just given.
#[derive(Clone, Debug)]
pub struct NewTokens {
    /// Sent with each request.
    pub access_token: SecretString,
    /// Buys the next access token; `None` keeps the one on disk.
    pub refresh_token: Option<SecretString>,
    /// When the access token ends, if the provider said so.
    pub expires_at: Option<UnixMillis>,
}

/// What an update did.
#[derive(Debug)]
pub struct Updated<T> {
    /// What the change answered.
    pub answer: T,
    /// Where a damaged file was put aside before a new one was begun. The owner should be told.
    pub preserved: Option<PathBuf>,
}

/// Why there are no renewed tokens.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError<E> {
    /// The file.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The provider refused, in the words of the exchange.
    #[error("the sign-in could not be renewed: {0}")]
    Exchange(E),
    /// The provider did not answer in time. It may have used up the old token.
    #[error("the provider did not renew the sign-in within 30 s; try again, or sign in again")]
    TimedOut,
    /// The program is ending.
    #[error("the sign-in was not renewed because Fermix is stopping")]
    Stopped,
}

/// The file while it is being changed. Fields that this version does not know stay.
#[derive(Debug)]
pub struct AuthDocument(Map<String, Value>);

impl AuthDocument {
    fn empty() -> Self {
        Self(Map::from_iter([(
            "providers".to_owned(),
            Map::new().into(),
        )]))
    }

    fn providers(&mut self) -> &mut Map<String, Value> {
        object_in(&mut self.0, "providers")
    }

    /// Puts the tokens of `provider` in the place of those it had. `auth_mode` says how the owner
    /// signed in; `None` keeps what is there.
    pub fn set(
        &mut self,
        provider: &str,
        auth_mode: Option<&str>,
        tokens: &NewTokens,
        now: UnixMillis,
    ) {
        let entry = object_in(self.providers(), provider);
        if let Some(mode) = auth_mode {
            entry.insert("auth_mode".to_owned(), mode.into());
        }
        entry.insert("expires_at".to_owned(), moment(tokens.expires_at));
        entry.insert("last_refresh".to_owned(), moment(Some(now)));
        let pair = object_in(entry, "tokens");
        pair.insert(
            "access_token".to_owned(),
            tokens.access_token.expose_secret().into(),
        );
        if let Some(refresh) = &tokens.refresh_token {
            pair.insert("refresh_token".to_owned(), refresh.expose_secret().into());
        }
    }

    /// Forgets the sign-in to `provider`; `false` when there was none.
    pub fn remove(&mut self, provider: &str) -> bool {
        self.providers().remove(provider).is_some()
    }

    fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut whole = Map::from_iter([("version".to_owned(), VERSION.into())]);
        whole.extend(
            self.0
                .iter()
                .filter(|(name, _)| *name != "version")
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        let mut bytes = Value::Object(whole).to_string().into_bytes();
        bytes.push(b'\n');
        Zeroizing::new(bytes)
    }
}

impl AuthFile {
    /// Changes the file as a whole, starting from what is on the disk. A damaged file is put aside
    /// as `auth.json.corrupt-<time>` and a new one begun. Blocks: call it off the executor.
    ///
    /// # Errors
    /// See [`AuthError`]; the file is as it was then.
    pub fn update<T>(
        &self,
        now: UnixMillis,
        change: impl FnOnce(&mut AuthDocument) -> T,
    ) -> Result<Updated<T>, AuthError> {
        let _lock = lock_file::take(&self.lock_path()).map_err(|error| self.lock_error(error))?;
        let (mut document, damaged) = match self.document() {
            Ok(document) => (AuthDocument(document), false),
            Err(AuthError::NoAuthFile { .. }) => (AuthDocument::empty(), false),
            Err(AuthError::InvalidJson { .. }) => (AuthDocument::empty(), true),
            Err(error) => return Err(error),
        };
        let answer = change(&mut document);
        let preserved = match damaged {
            true => Some(self.put_aside(now)?),
            false => None,
        };
        self.write(&document)?;
        Ok(Updated { answer, preserved })
    }

    /// The tokens of `provider`, renewed by `exchange` unless what is on the disk by now is
    /// `good`. Over all processes one exchange runs at a time, each with the newest tokens, so that
    /// a token that is good for one use is used once. An exchange that has begun is finished and
    /// saved even if the caller goes away.
    ///
    /// # Errors
    /// See [`RefreshError`].
    pub async fn refreshed<E, F, Asked>(
        &self,
        provider: &str,
        now: UnixMillis,
        good: impl Fn(&Tokens) -> bool + Send + 'static,
        exchange: F,
    ) -> Result<Tokens, RefreshError<E>>
    where
        E: Send + 'static,
        F: FnOnce(Tokens) -> Asked + Send + 'static,
        Asked: Future<Output = Result<NewTokens, E>> + Send + 'static,
    {
        let (file, provider) = (self.clone(), provider.to_owned());
        let renewal = tokio::spawn(async move {
            let deadline = Instant::now() + LINE;
            let _lock = lock_file::take_until(&file.lock_path(), deadline)
                .await
                .map_err(|error| file.lock_error(error))?;
            let newest = file.provider(&provider)?;
            if good(&newest) {
                return Ok(newest);
            }
            let fresh = tokio::time::timeout(EXCHANGE, exchange(newest))
                .await
                .map_err(|_| RefreshError::TimedOut)?
                .map_err(RefreshError::Exchange)?;
            // Read again for the sake of the other providers: the lock keeps Fermix out, not the
            // owner's editor.
            let mut document = AuthDocument(file.document()?);
            document.set(&provider, None, &fresh, now);
            file.write(&document)?;
            Ok(file.provider(&provider)?)
        });
        renewal.await.unwrap_or(Err(RefreshError::Stopped))
    }

    fn lock_path(&self) -> PathBuf {
        beside(&self.path, ".lock")
    }

    fn lock_error(&self, error: LockError) -> AuthError {
        match error {
            LockError::Busy => AuthError::Busy {
                path: self.path.clone(),
            },
            LockError::Io(cause) => AuthError::Unwritable {
                path: self.path.clone(),
                cause,
            },
        }
    }

    /// Called under the lock.
    fn put_aside(&self, now: UnixMillis) -> Result<PathBuf, AuthError> {
        let time = moment(Some(now));
        let time: String = time
            .as_str()
            .unwrap_or("unknown-time")
            .chars()
            .filter(|letter| !matches!(letter, '-' | ':'))
            .collect();
        let kept = beside(&self.path, &format!(".corrupt-{time}"));
        // A link and then a removal, because renaming would replace one that is there already.
        fs::hard_link(&self.path, &kept)
            .and_then(|()| fs::remove_file(&self.path))
            .map_err(|cause| self.unwritable(cause))?;
        tracing::warn!(kept = %kept.display(), "a damaged auth.json was put aside; sign in again");
        Ok(kept)
    }

    /// Writes the whole file with its mode from the start, flushed and then renamed. Called under
    /// the lock.
    fn write(&self, document: &AuthDocument) -> Result<(), AuthError> {
        let fresh = beside(&self.path, ".new");
        let write = || -> io::Result<()> {
            match fs::remove_file(&fresh) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let descriptor = rustix::fs::open(&fresh, flags, Mode::from(0o600))?;
            // The process's mask may have taken bits away, and exactly these are asked for.
            rustix::fs::fchmod(&descriptor, Mode::from(0o600))?;
            let mut file = File::from(descriptor);
            file.write_all(&document.to_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)?;
            match self.path.parent() {
                Some(folder) => File::open(folder)?.sync_all(),
                None => Ok(()),
            }
        };
        write().map_err(|cause| self.unwritable(cause))
    }

    fn unwritable(&self, cause: io::Error) -> AuthError {
        AuthError::Unwritable {
            path: self.path.clone(),
            cause,
        }
    }
}

/// The object called `name`; what else is there gives way.
fn object_in<'m>(map: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    let value = map
        .entry(name)
        .and_modify(|value| {
            if !value.is_object() {
                *value = Map::new().into();
            }
        })
        .or_insert_with(|| Map::new().into());
    value.as_object_mut().expect("it was just made an object")
}

fn moment(moment: Option<UnixMillis>) -> Value {
    moment
        .and_then(|moment| jiff::Timestamp::from_millisecond(moment.0).ok())
        .map_or(Value::Null, |moment| format!("{moment:.0}").into())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
