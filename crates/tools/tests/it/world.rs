//! A home of its own for each test, with every tool registered on it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fermix_approvals::commands::{ApprovalRules, ApprovedCommands, CallApprovals};
use fermix_approvals::{PolicyDesk, PolicyParts, Prompts};
use fermix_capability::{
    CallOutcome, Caller, Catalog, Deferral, Dispatcher, FrameId, OutsideSources, Ports, Presence,
    Registry, TurnScope,
};
use fermix_config::{Config, Environment, Home, Routing};
use fermix_sandbox::{ConfineSettings, EnvPolicy, Sandbox, SandboxSettings, Surroundings};
use fermix_store::{Store, StoreOptions};
use fermix_testkit::TestHome;
use fermix_tools::config::model_routing_config::{PrimaryRoute, RoutingAccess};
use fermix_tools::document::DocumentReader;
use fermix_tools::{ToolDeps, register_all};
use fermix_types::clock::FixedClock;
use fermix_types::trace::MemorySink;
use fermix_types::{
    ConversationKey, SandboxMode, ToolCall, TraceIds, TraceKind, TraceRow, UnixMillis,
};
use fermix_undo::UndoLog;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// One home, one registry, one dispatcher.
pub struct World {
    pub home: TestHome,
    pub registry: Registry,
    pub sandbox: Sandbox,
    /// Changes what the tools reach.
    pub policy: PolicyDesk,
    /// What the routing tool made hold, in order.
    pub applied: Arc<Mutex<Vec<Routing>>>,
    /// The request's folder of the owner's turns.
    pub cwd: Option<PathBuf>,
    /// Decides which calls are asked about; none is, until a test says so.
    pub approvals: Arc<CallApprovals>,
    pub questions: Arc<Prompts>,
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
            read_roots: Vec::new(),
            blocked_roots: Vec::new(),
            env: EnvPolicy::default(),
            confine: ConfineSettings::default(),
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
        let fermix_home =
            Home::resolve(Some(&home.fermix_home()), &environment).expect("it exists");
        let sandbox =
            Sandbox::new(settings.clone(), surroundings, trace.clone()).expect("absolute paths");
        let policy = PolicyDesk::new(PolicyParts {
            home: fermix_home.clone(),
            sandbox: sandbox.clone(),
            in_force: Config::defaults(&fermix_home).sandbox,
            settings_of: Arc::new(move |config| SandboxSettings {
                mode: config.mode,
                allowed_roots: config.allowed_roots.clone(),
                read_roots: config.read_roots.clone(),
                ..settings.clone()
            }),
            commands_changed: Arc::new(|_| {}),
            prompts: Arc::new(Prompts::default()),
            clock: Arc::new(FixedClock::default()),
            monotonic: Arc::new(Instant::now),
            trace: trace.clone(),
        });
        let deps = ToolDeps {
            sandbox: sandbox.clone(),
            policy: policy.clone(),
            catalog: Arc::new(Catalog::new()),
            documents: DocumentReader { program: documents },
            routing: RoutingAccess {
                home: fermix_home,
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
            undo: undo_log(home.fermix_home()),
            trace: trace.clone(),
        };
        register_all(&registry, deps).expect("the names are unique");
        let questions = Arc::clone(policy.prompts());
        let approvals = Arc::new(CallApprovals::new(
            sandbox.clone(),
            ApprovalRules::default(),
            ApprovedCommands::in_home(&home.fermix_home()),
            Arc::clone(&questions),
            Arc::new(FixedClock::default()),
        ));
        let guard = Arc::clone(&approvals);
        Self {
            home,
            policy,
            registry,
            sandbox,
            approvals,
            questions,
            applied,
            cwd: None,
            dispatcher: Dispatcher::new(trace.clone()).with_guard(guard),
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

/// Where changes are put away in the home `fermix_home`.
pub fn undo_log(fermix_home: PathBuf) -> UndoLog {
    let database = fermix_home.join("memory.db");
    let store = std::sync::OnceLock::new();
    let open = move || {
        let opened: &Store = store.get_or_init(|| {
            Store::open(&database, &StoreOptions::default()).expect("the home is writable")
        });
        Ok(opened.clone())
    };
    UndoLog::new(
        fermix_home.join("undo"),
        Arc::new(open),
        Arc::new(FixedClock::at(UnixMillis(1_700_000_000_000))),
    )
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
