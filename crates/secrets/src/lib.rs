//! Secret values: reading the tokens of `auth.json`, and keeping secrets out of what is written.

pub mod auth_json;
pub mod redaction;

pub use auth_json::{AuthError, AuthFile, Tokens};
pub use redaction::{Redactor, TooManySecrets, is_secret_parameter};
pub use secrecy::{ExposeSecret, SecretString};
