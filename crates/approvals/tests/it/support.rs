//! A home, a sandbox and a desk of its own for each test, on clocks of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use fermix_approvals::policy::{
    By, DirectoryAnswer, DirectoryRefusal, DirectoryRequest, Operation, Outcome, Resume,
    ResumePort, Who,
};
use fermix_approvals::{PolicyDesk, PolicyError, PolicyParts, Prompts};
use fermix_capability::{ApprovalPort, ApprovalPrompt, OutsideSources, PromptOrigin};
use fermix_config::{Config, Environment, Home, Overrides, SandboxConfig};
use fermix_sandbox::{EnvPolicy, Sandbox, SandboxSettings, Scope, Surroundings};
use fermix_testkit::TestHome;
use fermix_types::clock::FixedClock;
use fermix_types::trace::MemorySink;
use fermix_types::{ConversationKey, TraceIds, UnixMillis};
use serde_json::Value;

pub struct World {
    pub test: TestHome,
    pub home: Home,
    pub sandbox: Sandbox,
    pub desk: PolicyDesk,
    pub trace: Arc<MemorySink>,
    /// The tools of `[sandbox.commands]` each time they were registered anew.
    pub registered: Arc<Mutex<Vec<Vec<String>>>>,
    elapsed: Arc<AtomicU64>,
}

fn settings(config: &SandboxConfig) -> SandboxSettings {
    SandboxSettings {
        confine: fermix_sandbox::ConfineSettings::default(),
        trusted_repos: Vec::new(),
        mode: config.mode,
        workspace_root: config.workspace_root.clone(),
        allowed_roots: config.allowed_roots.clone(),
        read_roots: config.read_roots.clone(),
        blocked_roots: config.blocked_roots.clone(),
        env: EnvPolicy::default(),
    }
}

impl World {
    /// A home whose configuration is `toml`.
    pub fn new(toml: &str) -> Self {
        let test = TestHome::new();
        if !toml.is_empty() {
            test.write_config(&toml.replace("$HOME", &test.os_home().display().to_string()));
        }
        Self::in_home(test)
    }

    /// A process that starts in an existing home.
    pub fn in_home(test: TestHome) -> Self {
        let environment = Environment::from_pairs([("HOME", test.os_home())]);
        let home = Home::resolve(Some(&test.fermix_home()), &environment).unwrap();
        let config = Config::load(&home, &environment, &Overrides::default()).unwrap();
        let trace = Arc::new(MemorySink::default());
        let surroundings = Surroundings {
            home: test.os_home().to_owned(),
            fermix_home: test.fermix_home(),
            launch_dir: None,
            executable: test.os_home().join("fermix"),
            launcher: None,
            environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        };
        let sandbox = Sandbox::new(settings(&config.sandbox), surroundings, trace.clone()).unwrap();
        let registered = Arc::new(Mutex::new(Vec::new()));
        let elapsed = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let desk = PolicyDesk::new(PolicyParts {
            home: home.clone(),
            sandbox: sandbox.clone(),
            in_force: config.sandbox,
            settings_of: Arc::new(settings),
            commands_changed: {
                let registered = Arc::clone(&registered);
                Arc::new(move |config| {
                    let tools = config.commands.tools();
                    let names = tools.into_iter().map(|tool| tool.name).collect();
                    registered.lock().unwrap().push(names);
                })
            },
            prompts: Arc::new(Prompts::default()),
            clock: Arc::new(FixedClock::at(UnixMillis(1_700_000_000_000))),
            monotonic: {
                let elapsed = Arc::clone(&elapsed);
                Arc::new(move || start + Duration::from_secs(elapsed.load(Ordering::SeqCst)))
            },
            trace: trace.clone(),
        });
        Self {
            test,
            home,
            sandbox,
            desk,
            trace,
            registered,
            elapsed,
        }
    }

    /// Time goes by.
    pub fn pass(&self, seconds: u64) {
        self.elapsed.fetch_add(seconds, Ordering::SeqCst);
    }

    /// A folder below the home; its path.
    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.test.os_home().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    pub fn config(&self) -> String {
        fs::read_to_string(self.test.config_path()).unwrap_or_default()
    }

    /// An operation of the owner on the command line.
    pub fn run(&self, operation: &Operation, confirmed: bool) -> Result<Outcome, PolicyError> {
        let by = By::command_line(None);
        self.desk.run_blocking(operation, confirmed, &by)
    }

    /// A command of the owner in a chat.
    pub async fn say(&self, line: &str, origin: &PromptOrigin) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let reply = self.desk.chat_command(&words, origin, Who::Owner).await;
        reply.text
    }

    /// The agent asks in turn `turn` of the owner's chat.
    pub async fn ask(
        &self,
        path: &Path,
        turn: &str,
        port: &Port,
    ) -> Result<DirectoryAnswer, DirectoryRefusal> {
        self.ask_for(path, "it is needed", turn, port, &OutsideSources::clean())
            .await
    }

    pub async fn ask_for(
        &self,
        path: &Path,
        reason: &str,
        turn: &str,
        port: &Port,
        outside: &OutsideSources,
    ) -> Result<DirectoryAnswer, DirectoryRefusal> {
        let origin = owner();
        let request = DirectoryRequest {
            path: path.to_str().unwrap(),
            reason,
            scope: Scope {
                conversation: Some(origin.conversation.clone()),
                attended: true,
                ..Scope::default()
            },
            turn: ids(turn),
            origin: &origin,
            port,
            outside,
        };
        self.desk.request_directory(request).await
    }

    pub fn may_write(&self, path: &Path, origin: &PromptOrigin) -> bool {
        let scope = Scope {
            conversation: Some(origin.conversation.clone()),
            attended: true,
            ..Scope::default()
        };
        let file = path.join("file").display().to_string();
        self.sandbox.writable(&file, &scope).is_ok()
    }

    pub fn may_read(&self, path: &Path) -> bool {
        let path = path.display().to_string();
        self.sandbox.readable(&path, &Scope::default()).is_ok()
    }

    /// Every grant record, by file name.
    pub fn records(&self) -> Vec<Value> {
        let Ok(entries) = fs::read_dir(self.test.fermix_home().join("grants")) else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let read = |path: &PathBuf| serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        paths.iter().map(read).collect()
    }
}

pub fn ids(turn: &str) -> TraceIds {
    TraceIds {
        session_id: "s".into(),
        parent_session: None,
        turn_id: turn.into(),
    }
}

/// The owner in their chat.
pub fn owner() -> PromptOrigin {
    origin("chat", "7")
}

pub fn origin(chat: &str, user: &str) -> PromptOrigin {
    PromptOrigin {
        conversation: ConversationKey::root("telegram", chat),
        user: user.into(),
    }
}

/// The token a text names.
#[track_caller]
pub fn token(text: &str) -> String {
    let after = text
        .split_once("/confirm ")
        .unwrap_or_else(|| panic!("no token: {text}"))
        .1;
    after.chars().take(8).collect()
}

/// Keeps the prompts it is to show.
#[derive(Debug, Default)]
pub struct Port {
    shown: Mutex<Vec<ApprovalPrompt>>,
    is_gone: bool,
}

impl Port {
    /// A port that nobody is behind.
    pub fn gone() -> Self {
        Self {
            is_gone: true,
            ..Self::default()
        }
    }

    pub fn shown(&self) -> Vec<ApprovalPrompt> {
        self.shown.lock().unwrap().clone()
    }

    /// The one prompt there is.
    #[track_caller]
    pub fn only(&self) -> ApprovalPrompt {
        let shown = self.shown();
        assert_eq!(shown.len(), 1, "{shown:?}");
        shown[0].clone()
    }
}

#[async_trait]
impl ApprovalPort for Port {
    async fn show(&self, prompt: &ApprovalPrompt) -> Result<(), String> {
        if self.is_gone {
            return Err("the client is gone".into());
        }
        self.shown.lock().unwrap().push(prompt.clone());
        Ok(())
    }
}

/// Keeps what it is to send again.
#[derive(Debug, Default)]
pub struct Again(pub Mutex<Vec<Resume>>);

#[async_trait]
impl ResumePort for Again {
    async fn resume(&self, resume: Resume) -> Result<(), String> {
        self.0.lock().unwrap().push(resume);
        Ok(())
    }
}
