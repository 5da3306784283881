//! A home of its own for each test, with every tool registered on it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use fermix_capability::{
    CallOutcome, Caller, Catalog, Deferral, Dispatcher, FrameId, OutsideSources, Ports, Presence,
    Registry, TurnScope,
};
use fermix_config::{Environment, Home, Routing};
use fermix_sandbox::{EnvPolicy, Sandbox, SandboxSettings, Surroundings};
use fermix_testkit::TestHome;
use fermix_tools::config::model_routing_config::{PrimaryRoute, RoutingAccess};
use fermix_tools::document::DocumentReader;
use fermix_tools::{ToolDeps, register_all};
use fermix_types::trace::MemorySink;
use fermix_types::{ConversationKey, SandboxMode, ToolCall, TraceIds, TraceKind, TraceRow};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// One home, one registry, one dispatcher.
pub struct World {
    pub home: TestHome,
    pub registry: Registry,
    /// What the routing tool made hold, in order.
    pub applied: Arc<Mutex<Vec<Routing>>>,
    /// The request's folder of the owner's turns.
    pub cwd: Option<PathBuf>,
    trace: Arc<MemorySink>,
    dispatcher: Dispatcher,
}

impl World {
    /// The default policy: `standard`, the workspace as the only root.
    pub fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// A world whose policy and surroundings are changed before it starts.
    pub fn with(change: impl FnOnce(&mut SandboxSettings, &mut Surroundings)) -> Self {
        Self::built(Deferral::On, change)
    }

    /// A world with or without deferred schemas.
    pub fn built(
        deferral: Deferral,
        change: impl FnOnce(&mut SandboxSettings, &mut Surroundings),
    ) -> Self {
        Self::assembled(deferral, None, change)
    }

    /// A world that reads documents in a child process of this program, or in this one.
    pub fn reading_documents_with(program: Option<PathBuf>) -> Self {
        Self::assembled(Deferral::On, program, |_, _| {})
    }

    fn assembled(
        deferral: Deferral,
        documents: Option<PathBuf>,
        change: impl FnOnce(&mut SandboxSettings, &mut Surroundings),
    ) -> Self {
        let home = TestHome::new();
        let mut settings = SandboxSettings {
            mode: SandboxMode::Standard,
            workspace_root: home.workspace(),
            allowed_roots: Vec::new(),
            blocked_roots: Vec::new(),
            env: EnvPolicy::default(),
            trusted_repos: Vec::new(),
        };
        let mut surroundings = Surroundings {
            home: home.os_home().to_owned(),
            fermix_home: home.fermix_home(),
            launch_dir: None,
            executable: home.os_home().join("fermix"),
            launcher: None,
            environment: [
                ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
                ("HOME", home.os_home().display().to_string()),
                ("LANG", "C.UTF-8".to_owned()),
                ("SECRET_TOKEN", "must stay here".to_owned()),
            ]
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        };
        change(&mut settings, &mut surroundings);
        let trace = Arc::new(MemorySink::default());
        let environment = Environment::from_pairs([("HOME", home.os_home())]);
        let applied = Arc::new(Mutex::new(Vec::new()));
        let registry = Registry::new(deferral);
        let deps = ToolDeps {
            sandbox: Sandbox::new(settings, surroundings, trace.clone()).expect("absolute paths"),
            catalog: Arc::new(Catalog::new()),
            documents: DocumentReader { program: documents },
            routing: RoutingAccess {
                home: Home::resolve(Some(&home.fermix_home()), &environment).expect("it exists"),
                primary: Arc::new(|| PrimaryRoute {
                    provider: "openai".into(),
                    model: "gpt-test".into(),
                    reasoning_effort: None,
                }),
                owner_of: Arc::new(|model| match model {
                    "qwen3:32b" => Some("ollama"),
                    "gpt-test" => Some("openai"),
                    _ => None,
                }),
                apply: {
                    let applied = Arc::clone(&applied);
                    Arc::new(move |routing: &Routing| {
                        applied
                            .lock()
                            .expect("no holder panics")
                            .push(routing.clone());
                    })
                },
                trace: trace.clone(),
            },
            trace: trace.clone(),
        };
        register_all(&registry, deps).expect("the names are unique");
        Self {
            home,
            registry,
            applied,
            cwd: None,
            dispatcher: Dispatcher::new(trace.clone()),
            trace,
        }
    }

    /// The owner's call.
    pub async fn call(&self, tool: &str, arguments: Value) -> CallOutcome {
        self.call_as(owner(), tool, arguments).await
    }

    /// Anyone's call.
    pub async fn call_as(&self, caller: Caller, tool: &str, arguments: Value) -> CallOutcome {
        self.call_in(&self.turn(caller), tool, arguments).await
    }

    /// A call in a given turn.
    pub async fn call_in(&self, turn: &TurnScope, tool: &str, arguments: Value) -> CallOutcome {
        let call = ToolCall {
            call_id: "call-1".into(),
            name: tool.into(),
            arguments: arguments.to_string(),
        };
        let outcome = self.dispatcher.call(turn, call).await;
        self.assert_documented();
        outcome
    }

    /// Every failure a tool has reported so far is among the ones it documents, whichever test
    /// brought it about.
    fn assert_documented(&self) {
        let tools = self.registry.all_for_inspection();
        for row in self.rows(TraceKind::ToolExec) {
            let Some(tag) = row.fields.get("failure").and_then(Value::as_str) else {
                continue;
            };
            let name = row.fields["tool"].as_str().expect("a name");
            let tool = tools
                .iter()
                .find(|tool| tool.name().as_str() == name)
                .expect("what ran is registered");
            assert!(
                tool.metadata()
                    .failure_modes
                    .iter()
                    .any(|failure| failure.tag == tag),
                "{name} does not document `{tag}`"
            );
        }
    }

    /// A turn of `caller` on the registry as it is.
    pub fn turn(&self, caller: Caller) -> TurnScope {
        TurnScope {
            view: Arc::new(self.registry.view(&Arc::new(caller))),
            ids: TraceIds {
                session_id: "main-1".into(),
                parent_session: None,
                turn_id: "1".into(),
            },
            conversation: Some(ConversationKey::root("cli", "test")),
            cwd: self.cwd.clone(),
            session_env: Arc::default(),
            cancel: CancellationToken::new(),
            outside_sources: OutsideSources::default(),
            origin: None,
            approval: None,
            frame: FrameId::new("0123abcd"),
        }
    }

    /// The rows of one kind so far.
    pub fn rows(&self, kind: TraceKind) -> Vec<TraceRow> {
        let mut rows = self.trace.rows();
        rows.retain(|row| row.kind == kind);
        rows
    }
}

/// The owner in a chat that carries everything.
pub fn owner() -> Caller {
    Caller::owner(
        Presence::vouched_by_ingress(),
        Ports {
            reply: true,
            approval: true,
            late_outcome: true,
            reactions: None,
        },
    )
}

/// Fails unless the call succeeded; its text otherwise.
#[track_caller]
pub fn ok(outcome: CallOutcome) -> String {
    assert!(!outcome.is_error, "{}", outcome.text);
    outcome.text
}

/// Fails unless the call failed with every one of `words` in its text.
#[track_caller]
pub fn refused(outcome: &CallOutcome, words: &[&str]) {
    assert!(outcome.is_error, "succeeded: {}", outcome.text);
    for words in words {
        assert!(
            outcome.text.contains(words),
            "no {words:?} in: {}",
            outcome.text
        );
    }
}
