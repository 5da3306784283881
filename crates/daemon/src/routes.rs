//! The providers of this process: built when they are first asked for, replaced when the
//! configuration is read again.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use fermix_config::Config;
use fermix_net::Net;
use fermix_providers::offline::OfflineAdapter;
use fermix_providers::{Catalog, ConfigProblem, Providers};
use fermix_secrets::{AuthFile, Vault};
use fermix_tools::config::model_routing_config::PrimaryRoute;
use fermix_types::{Clock, TraceSink};

/// How Fermix names itself to servers.
const IDENTITY: &str = concat!("fermix/", env!("CARGO_PKG_VERSION"));

/// The providers, built when they are first asked for: listing tools needs none.
pub(crate) struct LazyProviders {
    auth_file: PathBuf,
    vault: Vault,
    clock: Arc<dyn Clock>,
    trace: Arc<dyn TraceSink>,
    current: ArcSwap<Configured>,
}

/// The providers of one configuration.
pub(crate) struct Configured {
    config: Config,
    catalog: Catalog,
    built: OnceLock<Result<Arc<Providers>, ConfigProblem>>,
}

impl Configured {
    fn new(config: Config) -> Self {
        Self {
            catalog: Catalog::new(config.models.clone()),
            config,
            built: OnceLock::new(),
        }
    }
}

impl LazyProviders {
    pub(crate) fn new(
        config: Config,
        auth_file: PathBuf,
        vault: Vault,
        clock: Arc<dyn Clock>,
        trace: Arc<dyn TraceSink>,
    ) -> Self {
        Self {
            auth_file,
            vault,
            clock,
            trace,
            current: ArcSwap::from_pointee(Configured::new(config)),
        }
    }

    pub(crate) fn get(&self) -> Result<Arc<Providers>, ConfigProblem> {
        self.providers_of(&self.current.load())
    }

    /// Builds the providers of another configuration, for [`LazyProviders::replace`]. Nothing is in
    /// force before that.
    pub(crate) fn prepare(&self, config: Config) -> Result<Arc<Configured>, ConfigProblem> {
        let configured = Arc::new(Configured::new(config));
        self.providers_of(&configured)?;
        Ok(configured)
    }

    pub(crate) fn replace(&self, configured: Arc<Configured>) {
        self.current.store(configured);
    }

    fn providers_of(&self, configured: &Configured) -> Result<Arc<Providers>, ConfigProblem> {
        configured
            .built
            .get_or_init(|| {
                let providers = Providers::from_config(
                    &configured.config,
                    Net::new(IDENTITY),
                    AuthFile::open(&self.auth_file),
                    &self.vault,
                    Arc::clone(&self.clock),
                    Arc::clone(&self.trace),
                )?;
                Ok(Arc::new(providers.with_offline(Arc::new(OfflineAdapter))))
            })
            .clone()
    }

    /// Whose model an id is.
    pub(crate) fn owner_of(&self, model: &str) -> Option<&'static str> {
        self.current.load().catalog.owner_of(model)
    }

    pub(crate) fn primary(&self) -> PrimaryRoute {
        match self.get() {
            Ok(providers) => {
                let routes = providers.routes();
                let lead = routes.first();
                PrimaryRoute {
                    provider: lead
                        .map_or_else(|| "none".to_owned(), |route| route.provider.to_string()),
                    model: lead.map(|route| route.model.clone()).unwrap_or_default(),
                    reasoning_effort: lead.and_then(|route| route.effort),
                }
            }
            Err(problem) => PrimaryRoute {
                provider: format!("unusable: {problem}"),
                model: String::new(),
                reasoning_effort: None,
            },
        }
    }
}
