//! Which providers are configured, and in which order they are asked.

use std::sync::Arc;

use fermix_config::{Config, KeySetting, ProviderSettings};
use fermix_net::Net;
use fermix_secrets::{AuthError, AuthFile, Vault};
use fermix_types::{Clock, Effort, TraceSink};
use url::Url;

use crate::adapter::{Credentials, HttpAdapter};
use crate::advice;
use crate::breaker::Breaker;
use crate::catalog::{Catalog, UNKNOWN_CONTEXT_WINDOW, UNKNOWN_MAX_OUTPUT};
use crate::effort::{self, EffortBelowFloor};
use crate::patience::Patience;
use crate::request::{Adapter, ProviderId};
use crate::retry::Backoff;
use crate::rows::{Auth, ROWS};
use crate::sign_in::SignIn;

/// One model of one provider, ready to be asked.
#[derive(Clone)]
pub struct Route {
    /// The provider.
    pub provider: ProviderId,
    /// The model's id.
    pub model: String,
    /// The effort of this route; absent means the provider's default.
    pub effort: Option<Effort>,
    /// What a prompt may hold, in tokens.
    pub context_window: u64,
    /// The longest answer, in tokens.
    pub max_output: u64,
    /// Whether the model takes images.
    pub vision: bool,
    /// Whether the model takes tools.
    pub tools: bool,
    /// What people call the model.
    pub label: String,
    /// How it is asked.
    pub adapter: Arc<dyn Adapter>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Route({} {})", self.provider, self.model)
    }
}

/// Every configured provider. Immutable; a changed configuration makes a new value.
pub struct Providers {
    pub(crate) configured: Vec<Configured>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) breaker: Breaker,
    pub(crate) trace: Arc<dyn TraceSink>,
    pub(crate) first_call: Backoff,
    pub(crate) continuation: Backoff,
    routes: Arc<[Route]>,
}

/// One configured provider, from which routes are made.
pub(crate) struct Configured {
    pub(crate) id: ProviderId,
    pub(crate) default_model: Option<String>,
    effort: Option<Effort>,
    context_window: Option<u64>,
    vision: Option<bool>,
    tools: bool,
    adapter: Arc<dyn Adapter>,
}

/// A configuration that names a provider which cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigProblem {
    /// The primary has nothing to identify us with.
    #[error(
        "`{provider}` is primary but has no key; run `fermix secrets set {provider}`, set {variable}, or choose another primary in [fermix_core.providers]"
    )]
    PrimaryWithoutKey {
        /// The provider.
        provider: ProviderId,
        /// The environment variable that may hold the key.
        variable: &'static str,
    },
    /// The primary needs a sign-in that is not there.
    #[error(
        "`{provider}` is primary but nobody is signed in. {}",
        advice::sign_in()
    )]
    PrimaryWithoutSignIn {
        /// The provider.
        provider: ProviderId,
    },
    /// The primary has no address.
    #[error(
        "`{provider}` is primary but has no address; set `base_url` in [fermix_core.providers.{provider}]"
    )]
    PrimaryWithoutAddress {
        /// The provider.
        provider: ProviderId,
    },
    /// The address is none.
    #[error(
        "[fermix_core.providers.{provider}] base_url `{base_url}` is not a valid http or https URL; correct it"
    )]
    BadAddress {
        /// The provider.
        provider: ProviderId,
        /// What was given.
        base_url: String,
    },
    /// Nobody said which model to run.
    #[error(
        "[fermix_core.providers.{provider}] has no `default_model`, and the provider has none of its own; set it"
    )]
    NoModel {
        /// The provider.
        provider: ProviderId,
    },
    /// The effort is below what the provider has.
    #[error("[fermix_core.providers.{0}] reasoning_effort: {1}")]
    Effort(ProviderId, EffortBelowFloor),
}

impl Providers {
    /// The providers that `config` makes usable, primary first, then in table order.
    ///
    /// A provider that is not primary and has no credentials is left out. What is configured and
    /// cannot work is a problem with a name. Keys that a store keeps are read from `vault` when a
    /// call needs them.
    pub fn from_config(
        config: &Config,
        net: Net,
        auth: AuthFile,
        vault: &Vault,
        clock: Arc<dyn Clock>,
        trace: Arc<dyn TraceSink>,
    ) -> Result<Self, ConfigProblem> {
        let catalog = Arc::new(Catalog::new(config.models.clone()));
        let primary = config.named_primary().map(ProviderId::from);
        let redactor = Arc::clone(vault.redactor());
        let mut configured = Vec::new();
        for (id, settings) in config.providers.iter() {
            let id = ProviderId::from(id);
            let Some(credentials) = credentials(id, settings, &auth, vault, primary == Some(id))?
            else {
                continue;
            };
            let address = address(id, settings)?;
            let adapter = HttpAdapter {
                provider: id,
                patience: Patience::with(id, &address),
                base: address,
                own_address: settings.base_url.is_none(),
                credentials,
                fast: settings.fast,
                net: net.clone(),
                catalog: catalog.clone(),
                clock: clock.clone(),
                redactor: redactor.clone(),
            };
            if let Some(effort) = settings.reasoning_effort {
                effort::check(id, effort).map_err(|error| ConfigProblem::Effort(id, error))?;
            }
            configured.push(Configured {
                id,
                default_model: settings
                    .default_model
                    .clone()
                    .or_else(|| catalog.default_model(id).map(str::to_owned)),
                effort: settings.reasoning_effort,
                context_window: settings.context_window,
                vision: settings.vision,
                tools: settings.tools.unwrap_or(true),
                adapter: Arc::new(adapter),
            });
        }
        if let Some(position) = configured
            .iter()
            .position(|entry| Some(entry.id) == primary)
        {
            configured[..=position].rotate_right(1);
        }
        let mut providers = Self {
            configured,
            catalog,
            breaker: Breaker::new(clock),
            trace,
            first_call: Backoff::FIRST_CALL,
            continuation: Backoff::CONTINUATION,
            routes: Arc::new([]),
        };
        let routes: Result<Vec<Route>, ConfigProblem> = providers
            .configured
            .iter()
            .map(|entry| {
                let model = entry
                    .default_model
                    .clone()
                    .ok_or(ConfigProblem::NoModel { provider: entry.id })?;
                Ok(providers.route_of(entry, model))
            })
            .collect();
        providers.routes = routes?.into();
        Ok(providers)
    }

    /// Adds the embedded provider, which answers when no other is configured.
    #[must_use]
    pub fn with_offline(mut self, adapter: Arc<dyn Adapter>) -> Self {
        if self.routes.is_empty() {
            let model = ProviderId::Offline.as_str().to_owned();
            self.routes = Arc::new([Route {
                provider: ProviderId::Offline,
                label: "offline".to_owned(),
                model,
                effort: None,
                context_window: UNKNOWN_CONTEXT_WINDOW,
                max_output: UNKNOWN_MAX_OUTPUT,
                vision: false,
                tools: true,
                adapter,
            }]);
        }
        self
    }

    /// Replaces the patience of calls, for callers with a deadline of their own.
    #[must_use]
    pub fn with_backoff(mut self, first_call: Backoff, continuation: Backoff) -> Self {
        self.first_call = first_call;
        self.continuation = continuation;
        self
    }

    /// Primary first, then fallback order; the embedded provider alone when nothing is configured.
    pub fn routes(&self) -> Arc<[Route]> {
        self.routes.clone()
    }

    /// What is known about models.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    pub(crate) fn route_of(&self, entry: &Configured, model: String) -> Route {
        let facts = self.catalog.facts(entry.id, &model);
        // What a block says about its server holds for the model the block names.
        let is_default = entry.default_model.as_ref() == Some(&model);
        Route {
            provider: entry.id,
            effort: entry.effort,
            context_window: entry
                .context_window
                .filter(|_| is_default)
                .unwrap_or(facts.context_window),
            max_output: facts.max_output,
            vision: entry.vision.filter(|_| is_default).unwrap_or(facts.vision),
            tools: entry.tools,
            label: facts.label,
            model,
            adapter: entry.adapter.clone(),
        }
    }
}

/// How the provider knows us, or nothing when it is not configured.
fn credentials(
    provider: ProviderId,
    settings: &ProviderSettings,
    auth: &AuthFile,
    vault: &Vault,
    is_primary: bool,
) -> Result<Option<Credentials>, ConfigProblem> {
    let Some(row) = ROWS.iter().find(|row| row.id == provider) else {
        return Ok(None);
    };
    let key = |variable: &str| match &settings.api_key {
        Some(KeySetting::Text(key)) => Some(Credentials::Key(key.clone())),
        Some(KeySetting::Stored(store)) => {
            Some(Credentials::Stored(vault.stored(*store, variable)))
        }
        None => None,
    };
    match row.auth {
        Auth::SignIn => {
            // A damaged sign-in is one all the same: its calls say what is wrong with it, while a
            // provider left out in silence would only be missed.
            let nobody = matches!(
                auth.provider(provider.as_str()),
                Err(AuthError::NoAuthFile { .. }
                    | AuthError::NoProviders { .. }
                    | AuthError::ProviderMissing { .. })
            );
            match (nobody, is_primary) {
                (false, _) => Ok(Some(Credentials::SignIn(SignIn {
                    file: auth.clone(),
                    provider,
                }))),
                (true, true) => Err(ConfigProblem::PrimaryWithoutSignIn { provider }),
                (true, false) => Ok(None),
            }
        }
        Auth::Key(variable) => match key(variable) {
            Some(key) => Ok(Some(key)),
            None if is_primary => Err(ConfigProblem::PrimaryWithoutKey { provider, variable }),
            None => Ok(None),
        },
        // A local server is configured by its address; being primary is enough where it has a usual one.
        Auth::OptionalKey(_) | Auth::None => {
            let variable = match row.auth {
                Auth::OptionalKey(variable) => Some(variable),
                Auth::Key(_) | Auth::SignIn | Auth::None => None,
            };
            let is_configured =
                settings.base_url.is_some() || (is_primary && row.address.is_some());
            if !is_configured && is_primary {
                return Err(ConfigProblem::PrimaryWithoutAddress { provider });
            }
            let credentials = variable.and_then(key).unwrap_or(Credentials::None);
            Ok(is_configured.then_some(credentials))
        }
    }
}

fn address(provider: ProviderId, settings: &ProviderSettings) -> Result<Url, ConfigProblem> {
    let own = ROWS
        .iter()
        .find(|row| row.id == provider)
        .and_then(|row| row.address)
        .unwrap_or_default();
    let base_url = settings.base_url.as_deref().unwrap_or(own);
    Url::parse(base_url)
        .ok()
        .filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.has_host() && !url.cannot_be_a_base()
        })
        .ok_or_else(|| ConfigProblem::BadAddress {
            provider,
            base_url: base_url.to_owned(),
        })
}

impl From<fermix_config::ProviderId> for ProviderId {
    fn from(id: fermix_config::ProviderId) -> Self {
        use fermix_config::ProviderId as Block;
        match id {
            Block::OpenaiCodex => Self::OpenaiCodex,
            Block::Openai => Self::Openai,
            Block::Anthropic => Self::Anthropic,
            Block::Xai => Self::Xai,
            Block::Openrouter => Self::Openrouter,
            Block::Mistral => Self::Mistral,
            Block::Ollama => Self::Ollama,
            Block::OpenaiCompatible => Self::OpenaiCompatible,
        }
    }
}
