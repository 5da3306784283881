//! Secret values: the stores that keep them, the tokens of `auth.json`, and keeping secrets out of
//! what is written.

pub mod auth_json;
mod harden;
mod item;
mod lock_file;
pub mod redaction;
mod store;
mod vault;

pub use auth_json::{AuthDocument, AuthError, AuthFile, NewTokens, RefreshError, Tokens, Updated};
pub use harden::{HardenError, harden_process};
pub use item::{InvalidName, Item};
pub use redaction::{RecordRedactor, Redactor, TooManySecrets, is_secret_parameter};
pub use secrecy::{ExposeSecret, SecretString};
pub use store::{Attendance, MAX_VALUE, SecretError, StoreState};
pub use vault::{Choice, StoredSecret, Vault};
