//! The access gate: who passes, who is asked, and what the trace says of it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fermix_approvals::Prompts;
use fermix_approvals::commands::{ApprovalRules, ApprovedCommands, CallApprovals};
use fermix_capability::{
    ApprovalPort, ApprovalPrompt, Audience, Caller, Capability, Choice, Deferral, Depth,
    Dispatcher, FrameId, JobGrant, OutsideSource, OutsideSources, Ports, Presence, PromptOrigin,
    Registry, TurnScope,
};
use fermix_sandbox::{EnvPolicy, Sandbox, SandboxSettings, Surroundings};
use fermix_types::clock::FixedClock;
use fermix_types::trace::MemorySink;
use fermix_types::{
    Category, ConversationKey, PolicyClass, SandboxMode, ToolCall, ToolOutput, TraceIds, TraceKind,
    Trust,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A plugin's tool that acts in the owner's name, one that does not, and a guard.
struct World {
    registry: Registry,
    dispatcher: Dispatcher,
    approvals: Arc<CallApprovals>,
    trace: Arc<MemorySink>,
    sent: Arc<AtomicUsize>,
    _home: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let trace = Arc::new(MemorySink::default());
        let sent = Arc::new(AtomicUsize::new(0));
        let registry = Registry::new(Deferral::Off);
        let counted = Arc::clone(&sent);
        let sensitive = |name: &str, tag: Value| {
            let counted = Arc::clone(&counted);
            Capability::builtin(
                name,
                PolicyClass::ExternalApi,
                Category::Plugin,
                Audience::Anyone,
            )
            .description("Sends a letter.")
            .tag("plugin_owned?", true)
            .tag("plugin", "mail")
            .tag("access_sensitive?", tag)
            .raw_handler(json!({"type": "object"}), move |_, _| {
                counted.fetch_add(1, Ordering::SeqCst);
                async { Ok(ToolOutput::from("sent")) }
            })
            .unwrap()
        };
        registry
            .register_all([
                sensitive("mail_send", json!(true)),
                sensitive("mail_misspelled", json!("yes")),
                sensitive("mail_plain", json!(false)),
            ])
            .unwrap();
        let sandbox = sandbox(home.path(), &trace);
        let approvals = Arc::new(CallApprovals::new(
            sandbox,
            ApprovalRules::default(),
            ApprovedCommands::in_home(&home.path().join(".fermix")),
            Arc::new(Prompts::default()),
            Arc::new(FixedClock::default()),
        ));
        let guard = Arc::clone(&approvals);
        Self {
            dispatcher: Dispatcher::new(trace.clone()).with_guard(guard),
            registry,
            approvals,
            trace,
            sent,
            _home: home,
        }
    }

    fn turn(&self, caller: Caller, chat: Option<&Arc<Chat>>) -> TurnScope {
        TurnScope {
            view: Arc::new(self.registry.view(&Arc::new(caller))),
            ids: TraceIds::default(),
            conversation: None,
            cwd: None,
            session_env: Arc::from([]),
            cancel: CancellationToken::new(),
            outside_sources: OutsideSources::clean(),
            origin: chat.map(|chat| chat.origin.clone()),
            approval: chat.map(|chat| chat.clone() as Arc<dyn ApprovalPort>),
            frame: FrameId::random(),
        }
    }

    /// What became of a call: its outcome and the gate's label.
    async fn call(&self, turn: &TurnScope, tool: &str) -> (String, String) {
        let call = ToolCall {
            call_id: "1".into(),
            name: tool.into(),
            arguments: r#"{"to": "a@example.com"}"#.into(),
        };
        let before = self.sent.load(Ordering::SeqCst);
        let outcome = self.dispatcher.call(turn, call).await;
        let ran = self.sent.load(Ordering::SeqCst) > before;
        assert_eq!(ran, outcome.ran, "{}", outcome.text);
        let rows = self.trace.rows();
        let row = rows
            .iter()
            .rfind(|row| row.kind == TraceKind::ToolExec)
            .unwrap();
        let label = row.fields.get("access").and_then(Value::as_str);
        (
            outcome.outcome.to_owned(),
            label.unwrap_or("none").to_owned(),
        )
    }
}

fn sandbox(home: &Path, trace: &Arc<MemorySink>) -> Sandbox {
    let fermix_home = home.join(".fermix");
    let workspace = fermix_home.join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    let settings = SandboxSettings {
        mode: SandboxMode::Strict,
        workspace_root: workspace,
        allowed_roots: Vec::new(),
        read_roots: Vec::new(),
        blocked_roots: Vec::new(),
        confine: fermix_sandbox::ConfineSettings::default(),
        trusted_repos: Vec::new(),
        env: EnvPolicy::default(),
    };
    let surroundings = Surroundings {
        home: home.to_owned(),
        fermix_home,
        launch_dir: None,
        executable: home.join("fermix"),
        launcher: None,
        environment: Default::default(),
    };
    Sandbox::new(settings, surroundings, trace.clone()).unwrap()
}

#[derive(Debug)]
struct Chat {
    approvals: Arc<CallApprovals>,
    origin: PromptOrigin,
    says: Choice,
    is_private: bool,
    shown: Mutex<Vec<ApprovalPrompt>>,
}

impl Chat {
    fn new(world: &World, says: Choice, is_private: bool) -> Arc<Self> {
        Arc::new(Self {
            approvals: Arc::clone(&world.approvals),
            origin: PromptOrigin {
                conversation: ConversationKey::root("telegram", "1"),
                user: "7".into(),
            },
            says,
            is_private,
            shown: Mutex::default(),
        })
    }
}

#[async_trait]
impl ApprovalPort for Chat {
    async fn show(&self, prompt: &ApprovalPrompt) -> Result<(), String> {
        self.shown.lock().unwrap().push(prompt.clone());
        self.approvals
            .answer(&prompt.token, self.says, &self.origin)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }

    fn is_private(&self) -> bool {
        self.is_private
    }
}

fn ports() -> Ports {
    Ports {
        reply: true,
        approval: true,
        ..Ports::default()
    }
}

fn owner() -> Caller {
    Caller::owner(Presence::vouched_by_ingress(), ports())
}

fn job(tools: &[&str]) -> Caller {
    Caller::job(
        Trust::Operator,
        JobGrant {
            job_id: "nightly".into(),
            allowed_tools: (!tools.is_empty())
                .then(|| tools.iter().map(|tool| (*tool).to_owned()).collect()),
            policy: None,
        },
    )
}

fn expect(outcome: &str, label: &str) -> (String, String) {
    (outcome.to_owned(), label.to_owned())
}

#[tokio::test]
async fn the_conditions_hold_in_their_order() {
    let world = World::new();
    let chat = Chat::new(&world, Choice::Once, true);
    let shared = Chat::new(&world, Choice::Once, false);
    let refusing = Chat::new(&world, Choice::Deny, false);
    let cases = [
        (
            owner().worker(),
            Some(&chat),
            expect("refused", "refused_delegated"),
        ),
        (
            job(&["mail_send"]).worker(),
            None,
            expect("refused", "refused_delegated"),
        ),
        (
            owner().skill(Trust::Operator, None, None),
            Some(&chat),
            expect("refused", "refused_delegated"),
        ),
        (job(&[]), None, expect("refused", "refused_scheduled")),
        (job(&["mail_send"]), None, expect("ok", "scheduled")),
        (
            Caller::detached(),
            None,
            expect("refused", "refused_unattended"),
        ),
        (
            Caller::continuation(Depth::TOP, ports()),
            Some(&chat),
            expect("refused", "refused_unattended"),
        ),
        (owner(), Some(&chat), expect("ok", "direct")),
        (owner(), Some(&shared), expect("ok", "confirmed")),
        (
            owner(),
            Some(&refusing),
            expect("approval_denied", "held_denied"),
        ),
        (
            owner(),
            None,
            expect("approval_unavailable", "refused_unavailable"),
        ),
    ];
    for (caller, chat, expected) in cases {
        let shown = format!("{caller:?}");
        let turn = world.turn(caller, chat);
        assert_eq!(world.call(&turn, "mail_send").await, expected, "{shown}");
    }
    assert_eq!(chat.shown.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn reading_others_asks_and_reading_the_same_plugin_does_not() {
    let world = World::new();
    let chat = Chat::new(&world, Choice::Once, true);
    let turn = world.turn(owner(), Some(&chat));
    turn.outside_sources
        .add(OutsideSource::new("plugin", "mail"));
    assert_eq!(world.call(&turn, "mail_send").await, expect("ok", "direct"));
    turn.outside_sources
        .add(OutsideSource::new("web", "web_fetch"));
    assert_eq!(
        world.call(&turn, "mail_send").await,
        expect("ok", "confirmed")
    );
    {
        let shown = chat.shown.lock().unwrap();
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].choices, [Choice::Once, Choice::Deny]);
        assert!(shown[0].body.contains("a@example.com"), "{}", shown[0].body);
    }
    // What nobody vouches for counts as read.
    let unknown = TurnScope {
        outside_sources: OutsideSources::unknown(),
        ..world.turn(owner(), Some(&chat))
    };
    unknown
        .outside_sources
        .add(OutsideSource::new("plugin", "mail"));
    assert_eq!(
        world.call(&unknown, "mail_send").await,
        expect("ok", "confirmed")
    );
}

#[tokio::test]
async fn a_flag_that_is_no_flag_keeps_the_gate_closed() {
    let world = World::new();
    let detached = world.turn(Caller::detached(), None);
    let refused = expect("refused", "refused_unattended");
    assert_eq!(world.call(&detached, "mail_misspelled").await, refused);
    assert_eq!(
        world.call(&detached, "mail_plain").await,
        expect("ok", "none")
    );
}

#[tokio::test]
async fn a_tainted_turn_asks_before_data_goes_out() {
    let world = World::new();
    world.approvals.reconfigure(ApprovalRules {
        when_tainted: true,
        ..ApprovalRules::default()
    });
    let chat = Chat::new(&world, Choice::Deny, true);
    let turn = world.turn(owner(), Some(&chat));
    assert_eq!(world.call(&turn, "mail_plain").await, expect("ok", "none"));
    turn.outside_sources
        .add(OutsideSource::new("web", "web_fetch"));
    assert_eq!(
        world.call(&turn, "mail_plain").await,
        expect("approval_denied", "none")
    );
}
