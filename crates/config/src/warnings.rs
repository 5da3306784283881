//! What is accepted, and yet will not do what its writer wants: blocks of providers that cannot
//! be asked or are passed over.

use crate::home::Home;
use crate::providers::{ProviderId, ProviderSettings};
use crate::schema;
use crate::settings::Config;

/// Adds a warning, with the key and the fix, for each such block. Called when the environment has
/// been read, because a key may be there.
pub(crate) fn add(config: &mut Config, home: &Home) {
    let primary = config.named_primary();
    let found: Vec<String> = config
        .providers
        .iter()
        .flat_map(|(id, block)| about(id, block, primary == Some(id), home))
        .collect();
    config.warnings.extend(found);
}

fn about(
    id: ProviderId,
    block: &ProviderSettings,
    is_primary: bool,
    home: &Home,
) -> Option<String> {
    let section = format!("fermix_core.providers.{id}");
    let needs = |what: &str, fix: String| {
        let said = if is_primary {
            format!(
                "[{section}] is the first provider to ask but has no {what}, so no question can be answered"
            )
        } else {
            format!("{id} is ignored: no {what}")
        };
        Some(format!("{said}; {fix}"))
    };
    match id {
        ProviderId::OpenaiCodex => (is_primary && !home.auth_file().exists()).then(|| {
            format!(
                "[{section}] is the first provider to ask but nobody is signed in, so no question can be answered; \
                 sign in so that `{}` exists, or unset `{section}.primary`",
                home.auth_file().display()
            )
        }),
        ProviderId::Openai
        | ProviderId::Anthropic
        | ProviderId::Xai
        | ProviderId::Openrouter
        | ProviderId::Mistral => {
            let is_wanted = is_primary || block.default_model.is_some();
            if block.api_key.is_some() || !is_wanted {
                return None;
            }
            let key = format!("{section}.api_key");
            let variable = schema::keys().find(|row| row.path() == key)?.variable()?;
            needs(
                "key",
                format!("run `fermix secrets set {id}` or set the environment variable {variable}"),
            )
        }
        ProviderId::Ollama | ProviderId::OpenaiCompatible => {
            // A primary Ollama is looked for where it usually listens.
            let has_address =
                block.base_url.is_some() || (is_primary && id == ProviderId::Ollama);
            if !has_address {
                let is_wanted = is_primary || block.default_model.is_some();
                return is_wanted
                    .then(|| needs("base_url", format!("set `{section}.base_url`")))
                    .flatten();
            }
            block.default_model.is_none().then(|| {
                format!(
                    "[{section}] has no default_model and the provider has none of its own, so no question can be \
                     answered; set `{section}.default_model`"
                )
            })
        }
    }
}
