//! What the owner can do about a failure: the one table of the commands, files and variables that
//! sentences name.
//!
//! Only what exists may stand here. A command that is added later changes this file and no other.

use crate::request::ProviderId;
use crate::rows::{Auth, ROWS};

/// Who wants to connect a first model reads this.
pub(crate) const CONNECT: &str = "To connect a language model, store its key with `fermix secrets set anthropic` (or put it into \
the environment, as `ANTHROPIC_API_KEY`), choose the model with `fermix config set fermix_core.providers.anthropic.default_model MODEL`, \
and ask again. A local Ollama needs no key: `fermix config set fermix_core.providers.ollama.base_url \
http://localhost:11434/v1`, then the same for `default_model`.";

/// A conversation that has grown too long.
pub(crate) const START_AFRESH: &str =
    "Start a new one: leave out `--session`, or give it a name that is not in use";

/// How a working key for `provider` gets to where it is read.
pub(crate) fn give_key(provider: ProviderId) -> String {
    let row = ROWS.iter().find(|row| row.id == provider);
    match row.map(|row| row.auth) {
        Some(Auth::Key(variable) | Auth::OptionalKey(variable)) => {
            format!(
                "Store a working key with `fermix secrets set {provider}`, or put it into the environment variable \
                 `{variable}`"
            )
        }
        Some(Auth::SignIn) => sign_in(),
        Some(Auth::None) | None => format!(
            "Let the server take requests without a key, or give its address with `fermix config set \
             fermix_core.providers.{provider}.base_url URL`"
        ),
    }
}

/// How a sign-in to ChatGPT, the one there is, gets to where it is read.
pub(crate) fn sign_in() -> String {
    "Sign in with the vendor's own `codex login`, then copy its `auth.json` to the folder of Fermix's config.toml \
     (`fermix config path` names it) with mode 0600"
        .to_owned()
}

/// How to have another provider asked instead of `provider`.
pub(crate) fn use_another(provider: ProviderId) -> String {
    format!(
        "use another provider: store its key with `fermix secrets set`, set `primary` to `true` in its block with `fermix \
         config set` and, where it is set, unset `fermix_core.providers.{provider}.primary` first"
    )
}
