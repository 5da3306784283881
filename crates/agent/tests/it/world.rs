//! A whole agent in a throw-away home, with a fake model and an inbox for its answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fermix_agent::{
    Agent, AgentParts, AgentSettings, DeliveryError, ReplyPort, TurnReport, TurnRequest,
};
use fermix_capability::{Caller, Capability, Deferral, Dispatcher, Ports, Presence, Registry};
use fermix_config::{Config, Environment, Home, Overrides};
use fermix_net::Net;
use fermix_providers::offline::OfflineAdapter;
use fermix_providers::{Backoff, Providers};
use fermix_secrets::{AuthFile, Vault};
use fermix_store::{
    ConversationLog, Conversations, HistoryLimits, Store, StoreOptions, StoredMessage,
};
use fermix_testkit::{FakeModel, TestHome};
use fermix_types::clock::FixedClock;
use fermix_types::trace::MemorySink;
use fermix_types::{ConversationKey, TraceKind, UnixMillis};
use serde_json::Value;

/// No test waits longer than this for a turn.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps what was delivered.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) delivered: Mutex<Vec<(String, Option<String>)>>,
    pub(crate) fails: bool,
    pub(crate) panics: bool,
}

#[async_trait]
impl ReplyPort for Inbox {
    async fn deliver(&self, text: &str, note: Option<&str>) -> Result<(), DeliveryError> {
        assert!(!self.panics, "this channel is broken");
        if self.fails {
            return Err(DeliveryError("the platform is down".to_owned()));
        }
        self.delivered
            .lock()
            .unwrap()
            .push((text.to_owned(), note.map(str::to_owned)));
        Ok(())
    }
}

impl Inbox {
    pub(crate) fn texts(&self) -> Vec<String> {
        self.delivered
            .lock()
            .unwrap()
            .iter()
            .map(|(text, _)| text.clone())
            .collect()
    }
}

/// How a world is made.
pub(crate) struct Plan<'a> {
    pub(crate) model: &'a FakeModel,
    pub(crate) config: String,
    pub(crate) tools: Vec<Capability>,
    pub(crate) change: Box<dyn FnOnce(&mut AgentSettings)>,
    pub(crate) through_log: Box<dyn FnOnce(Arc<Conversations>) -> Arc<dyn ConversationLog>>,
}

pub(crate) struct World {
    pub(crate) home: TestHome,
    pub(crate) agent: Agent,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log: Arc<Conversations>,
    pub(crate) trace: Arc<MemorySink>,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) inbox: Arc<Inbox>,
}

/// A configuration with `model` behind `provider`.
pub(crate) fn provider_block(provider: &str, model: &FakeModel) -> String {
    format!(
        "[fermix_core.providers.{provider}]\nbase_url = \"{}\"\ndefault_model = \"fake-model\"\nprimary = true\n",
        model.base_url()
    )
}

impl<'a> Plan<'a> {
    pub(crate) fn new(model: &'a FakeModel, tools: Vec<Capability>) -> Self {
        Self {
            config: provider_block("openai_compatible", model),
            model,
            tools,
            change: Box::new(|_| {}),
            through_log: Box::new(|log| log),
        }
    }

    pub(crate) fn through(mut self, provider: &str) -> Self {
        self.config = provider_block(provider, self.model);
        self
    }

    pub(crate) fn with_config(mut self, more: &str) -> Self {
        self.config.push_str(more);
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut AgentSettings) + 'static) -> Self {
        self.change = Box::new(change);
        self
    }

    pub(crate) fn build(self) -> World {
        let home = TestHome::new();
        home.write_config(&self.config);
        let mut pairs = home.env();
        // A key alone would configure the real provider.
        for (provider, name) in [("anthropic", "ANTHROPIC_API_KEY"), ("xai", "XAI_API_KEY")] {
            if self.config.contains(&format!(".providers.{provider}]")) {
                pairs.push((name.into(), FakeModel::KEY.into()));
            }
        }
        let environment = Environment::from_pairs(pairs);
        let folders = Home::resolve(None, &environment).unwrap();
        let config = Config::load(&folders, &environment, &Overrides::default()).unwrap();
        let trace = Arc::new(MemorySink::default());
        let clock = Arc::new(FixedClock::at(UnixMillis(1_796_083_200_000)));
        let quick = Backoff {
            delay: Duration::from_millis(1),
            times: 3,
        };
        let providers = Providers::from_config(
            &config,
            Net::new("fermix-test"),
            AuthFile::open(folders.auth_file()),
            &Vault::new(folders.secrets(), &config.profile, Arc::default()),
            clock.clone(),
            trace.clone(),
        )
        .unwrap()
        .with_backoff(quick, quick)
        .with_offline(Arc::new(OfflineAdapter));
        let registry = Arc::new(Registry::new(Deferral::On));
        registry.register_all(self.tools).unwrap();
        let store = Store::open(&folders.database(), &StoreOptions::default()).unwrap();
        let log = Arc::new(Conversations::new(store));
        let mut settings = AgentSettings::from_config(&config, &folders);
        (self.change)(&mut settings);
        let agent = Agent::new(AgentParts {
            registry: Arc::clone(&registry),
            dispatcher: Arc::new(Dispatcher::new(trace.clone())),
            providers: Arc::new(providers),
            conversations: (self.through_log)(log.clone()),
            settings,
            clock: clock.clone(),
            trace: trace.clone(),
        });
        World {
            home,
            agent,
            registry,
            log,
            trace,
            clock,
            inbox: Arc::new(Inbox::default()),
        }
    }
}

/// The conversation most tests use.
pub(crate) fn here() -> ConversationKey {
    ConversationKey::root("cli", "1")
}

pub(crate) fn owner() -> Arc<Caller> {
    Arc::new(Caller::owner(
        Presence::vouched_by_ingress(),
        Ports {
            reply: true,
            ..Ports::default()
        },
    ))
}

pub(crate) fn guest() -> Arc<Caller> {
    Arc::new(Caller::guest(Ports {
        reply: true,
        ..Ports::default()
    }))
}

impl World {
    pub(crate) fn submit(&self, text: &str) -> fermix_agent::Submitted {
        self.send(TurnRequest::text(here(), owner(), text))
    }

    pub(crate) fn send(&self, request: TurnRequest) -> fermix_agent::Submitted {
        self.agent.submit(request, self.inbox.clone(), None)
    }

    /// One turn of the owner, to its end.
    pub(crate) async fn ask(&self, text: &str) -> TurnReport {
        ended(self.submit(text)).await
    }

    pub(crate) async fn history(&self) -> Vec<StoredMessage> {
        let limits = HistoryLimits {
            max_messages: 100,
            max_bytes: 1 << 20,
        };
        self.log.history(&here(), limits).await.unwrap()
    }

    /// The fields of all rows of a kind, in order.
    pub(crate) fn rows(&self, kind: TraceKind) -> Vec<serde_json::Map<String, Value>> {
        self.trace
            .rows()
            .into_iter()
            .filter(|row| row.kind == kind)
            .map(|row| row.fields)
            .collect()
    }

    /// The outcome of every tool row, in order.
    pub(crate) fn tool_rows(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.rows(TraceKind::ToolExec)
            .iter()
            .map(|row| (text(&row["tool"]), text(&row["outcome"])))
            .collect()
    }
}

pub(crate) async fn ended(submitted: fermix_agent::Submitted) -> TurnReport {
    tokio::time::timeout(PATIENCE, submitted.done)
        .await
        .expect("a turn ends in time")
        .expect("a turn reports how it ended")
}
