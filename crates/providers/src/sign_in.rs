//! The token of a sign-in, read from `auth.json` at each call.
//!
//! The newest token on disk is the only one to use: another process may have renewed it, and a
//! renewed token makes the older one worthless.

use fermix_secrets::AuthFile;
use fermix_types::UnixMillis;
use secrecy::SecretString;

use crate::request::ProviderId;

/// Where the tokens of one provider are kept.
#[derive(Clone)]
pub(crate) struct SignIn {
    pub file: AuthFile,
    pub provider: ProviderId,
}

/// What a call needs of a sign-in.
pub(crate) struct Token {
    pub access_token: SecretString,
    pub account_id: Option<String>,
}

impl SignIn {
    /// The token, or why there is none in words for the owner.
    pub(crate) async fn token(&self, now: UnixMillis) -> Result<Token, String> {
        let (file, name) = (self.file.clone(), self.provider.as_str());
        // A file on a slow disk must not hold up the runtime's workers.
        let tokens = tokio::task::spawn_blocking(move || file.provider(name))
            .await
            .map_err(|_| "the sign-in could not be read".to_owned())?
            .map_err(|error| error.to_string())?;
        if tokens
            .expires_at
            .is_some_and(|expires_at| expires_at <= now)
        {
            return Err("the sign-in has expired".to_owned());
        }
        Ok(Token {
            access_token: tokens.access_token,
            account_id: tokens.account_id,
        })
    }
}
