//! `auth.json`, where sign-ins to model providers are kept.
//!
//! The file is read afresh at each call, because another process may have refreshed a token, and a
//! provider that rotates tokens ends the session of whoever uses an old one. A file that cannot be
//! understood is reported and left as it is: it may hold every sign-in the owner has. Whoever writes
//! holds a lock between processes, and starts from what is on the disk then.

mod update;

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fermix_types::UnixMillis;
use rustix::fs::{Mode, OFlags};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

pub use update::{AuthDocument, NewTokens, RefreshError, Updated};

/// The longest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The version of the file this binary reads.
const VERSION: u64 = 1;

/// The provider of a legacy file, which had one and did not name it.
const LEGACY_PROVIDER: &str = "openai_codex";

/// The claim of a ChatGPT access token that holds facts about the account.
const OPENAI_CLAIM: &str = "https://api.openai.com/auth";

/// Where the sign-ins are. Making one reads nothing.
#[derive(Clone, Debug)]
pub struct AuthFile {
    path: PathBuf,
}

/// One sign-in. Debug output holds no token.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// How the owner signed in, for example `chatgpt`.
    pub auth_mode: Option<String>,
    /// Sent with each request.
    pub access_token: SecretString,
    /// Buys the next access token.
    pub refresh_token: Option<SecretString>,
    /// When the access token ends: as the file says, else as the token itself says.
    pub expires_at: Option<UnixMillis>,
    /// When the tokens were last refreshed.
    pub last_refresh: Option<UnixMillis>,
    /// The ChatGPT account: as the access token says, else as the file says. Read without
    /// checking the token's signature, which is the provider's business.
    pub account_id: Option<String>,
}

/// Why there is no sign-in to use.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Nobody signed in on this machine.
    #[error("there is no {}; sign in to the provider first", path.display())]
    NoAuthFile {
        /// The file.
        path: PathBuf,
    },
    /// Others may have read it.
    #[error("{} has mode {mode:04o} and must have 0600; run `chmod 600 {}`, and sign in again if others use this machine", path.display(), path.display())]
    WrongMode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It cannot be read.
    #[error("cannot read {}; check that it is an ordinary file of yours", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// It is not what `auth.json` should be; it was left as it is.
    #[error("{} is damaged ({detail}) and was left as it is; repair it, or move it away and sign in again", path.display())]
    InvalidJson {
        /// The file.
        path: PathBuf,
        /// Where and why, without a word of its contents.
        detail: String,
    },
    /// A later Fermix wrote it.
    #[error("{} was written by a later Fermix; install a newer one", path.display())]
    UnsupportedVersion {
        /// The file.
        path: PathBuf,
    },
    /// It holds no sign-in at all.
    #[error("{} holds no sign-in; sign in to the provider first", path.display())]
    NoProviders {
        /// The file.
        path: PathBuf,
    },
    /// It holds sign-ins, but none of this provider.
    #[error("{} holds no sign-in to {provider}; sign in to it first", path.display())]
    ProviderMissing {
        /// The file.
        path: PathBuf,
        /// The provider.
        provider: String,
    },
    /// The provider's sign-in cannot be used.
    #[error("the sign-in to {provider} in {} is unusable ({detail}); sign in to it again", path.display())]
    InvalidAuthEntry {
        /// The file.
        path: PathBuf,
        /// The provider.
        provider: String,
        /// What is wrong with it, without a word of its contents.
        detail: &'static str,
    },
    /// Another process is writing it.
    #[error("another process is changing {}; try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// It could not be written, and is as it was.
    #[error("cannot write {}; check the folder and the free space", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
}

impl AuthError {
    /// A stable name for logs and reports.
    pub const fn tag(&self) -> &'static str {
        match self {
            Self::NoAuthFile { .. } => "no_auth_file",
            Self::WrongMode { .. } => "wrong_mode",
            Self::Unreadable { .. } => "unreadable",
            Self::InvalidJson { .. } => "invalid_json",
            Self::UnsupportedVersion { .. } => "unsupported_version",
            Self::NoProviders { .. } => "no_providers",
            Self::ProviderMissing { .. } => "provider_missing",
            Self::InvalidAuthEntry { .. } => "invalid_auth_entry",
            Self::Busy { .. } => "busy",
            Self::Unwritable { .. } => "unwritable",
        }
    }
}

impl AuthFile {
    /// The file at `path`, which need not exist.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The sign-in to `provider` as it is on the disk now. Blocks for one small read.
    ///
    /// # Errors
    /// See [`AuthError`]; no message holds any of the file's contents.
    pub fn provider(&self, provider: &str) -> Result<Tokens, AuthError> {
        let mut providers = self.providers()?;
        if providers.is_empty() {
            return Err(AuthError::NoProviders {
                path: self.path.clone(),
            });
        }
        let Some(entry) = providers.remove(provider) else {
            return Err(AuthError::ProviderMissing {
                path: self.path.clone(),
                provider: provider.to_owned(),
            });
        };
        tokens(entry).map_err(|detail| AuthError::InvalidAuthEntry {
            path: self.path.clone(),
            provider: provider.to_owned(),
            detail,
        })
    }

    fn providers(&self) -> Result<Map<String, Value>, AuthError> {
        match self.document()?.remove("providers") {
            Some(Value::Object(providers)) => Ok(providers),
            _ => Ok(Map::new()),
        }
    }

    /// The whole file in its present form, with an object of providers.
    pub fn document(&self) -> Result<Map<String, Value>, AuthError> {
        let contents = self.read()?;
        let invalid = |detail: String| AuthError::InvalidJson {
            path: self.path.clone(),
            detail,
        };
        // Parsed as any value first: an error about a wrong type would quote what it found.
        let document: Value = serde_json::from_slice(&contents).map_err(|error| {
            invalid(format!("line {}, column {}", error.line(), error.column()))
        })?;
        let Value::Object(mut document) = document else {
            return Err(invalid("it is not an object".to_owned()));
        };
        match document.get("version").map(Value::as_u64) {
            None | Some(Some(VERSION)) => {}
            Some(Some(later)) if later > VERSION => {
                return Err(AuthError::UnsupportedVersion {
                    path: self.path.clone(),
                });
            }
            Some(_) => return Err(invalid("its version is not 1".to_owned())),
        }
        match document.get("providers") {
            Some(Value::Object(_)) => Ok(document),
            Some(_) => Err(invalid("its providers are not an object".to_owned())),
            None if document.contains_key("tokens") => {
                let entry = Map::from_iter([(LEGACY_PROVIDER.to_owned(), Value::Object(document))]);
                Ok(Map::from_iter([("providers".to_owned(), entry.into())]))
            }
            None => {
                document.insert("providers".to_owned(), Map::new().into());
                Ok(document)
            }
        }
    }

    fn read(&self) -> Result<Zeroizing<Vec<u8>>, AuthError> {
        let unreadable = |cause| AuthError::Unreadable {
            path: self.path.clone(),
            cause,
        };
        // NONBLOCK: opening a named pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Ok(descriptor) => File::from(descriptor),
            Err(rustix::io::Errno::NOENT) => {
                return Err(AuthError::NoAuthFile {
                    path: self.path.clone(),
                });
            }
            Err(error) => return Err(unreadable(error.into())),
        };
        // Asked of the open file, so that it is the one that is read.
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(unreadable(io::Error::other("it is not a regular file")));
        }
        let mode = metadata.mode() & 0o7777;
        if mode != 0o600 {
            return Err(AuthError::WrongMode {
                path: self.path.clone(),
                mode,
            });
        }
        let mut contents = Zeroizing::new(Vec::with_capacity(16 * 1024));
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut contents)
            .map_err(unreadable)?;
        if contents.len() as u64 > MAX_BYTES {
            return Err(unreadable(io::Error::other("it is longer than 1 MiB")));
        }
        Ok(contents)
    }
}

fn tokens(entry: Value) -> Result<Tokens, &'static str> {
    let Value::Object(mut entry) = entry else {
        return Err("it is not an object");
    };
    let Some(Value::Object(mut pair)) = entry.remove("tokens") else {
        return Err("it has no tokens");
    };
    let access_token = match pair.remove("access_token") {
        // What goes into a header must be fit for one.
        Some(Value::String(token)) if is_token(&token) => SecretString::from(token),
        Some(Value::Null) | None => return Err("it has no access token"),
        Some(_) => return Err("its access token is malformed"),
    };
    let refresh_token = match pair.remove("refresh_token") {
        Some(Value::String(token)) if is_token(&token) => Some(SecretString::from(token)),
        Some(Value::Null) | None => None,
        Some(_) => return Err("its refresh token is malformed"),
    };
    let claims = claims(access_token.expose_secret());
    let expires_at = moment(entry.get("expires_at"))?.or_else(|| {
        let seconds = claims.as_ref()?.get("exp")?.as_i64()?;
        seconds.checked_mul(1000).map(UnixMillis)
    });
    let account_id = claims
        .as_ref()
        .and_then(|claims| {
            claims
                .get(OPENAI_CLAIM)?
                .get("chatgpt_account_id")?
                .as_str()
        })
        .or_else(|| pair.get("account_id")?.as_str())
        .filter(|id| is_token(id))
        .map(str::to_owned);
    Ok(Tokens {
        auth_mode: entry
            .get("auth_mode")
            .and_then(Value::as_str)
            .map(str::to_owned),
        access_token,
        refresh_token,
        expires_at,
        last_refresh: moment(entry.get("last_refresh"))?,
        account_id,
    })
}

/// Whether `text` can be sent in a header: not empty, visible ASCII only.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A moment in ISO 8601, or null.
fn moment(value: Option<&Value>) -> Result<Option<UnixMillis>, &'static str> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => text
            .parse::<jiff::Timestamp>()
            .map(|moment| Some(UnixMillis(moment.as_millisecond())))
            .map_err(|_| "a time in it is malformed"),
        Some(_) => Err("a time in it is malformed"),
    }
}

/// What a JWT says about itself; `None` for a token that is no JWT.
fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_header, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&payload).ok()
}
