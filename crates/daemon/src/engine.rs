//! Fermix in one process: ask a question, call a tool, look at the registry. For one question or
//! for a daemon's life.

mod reload;
mod resume;
mod turn;

pub use reload::Reloaded;
pub use turn::Turn;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use fermix_agent::{Agent, AgentParts, AgentSettings, TurnEvent, TurnReport};
use fermix_approvals::PolicyDesk;
use fermix_approvals::commands::CallApprovals;
use fermix_capability::dispatch::CallOutcome;
use fermix_capability::{ApprovalPort, Deferral, FrameId, OutsideSources, Registry, TurnScope};
use fermix_channels::LocalPeer;
use fermix_channels::commands::{self, Asker, Command, Outcome};
use fermix_config::Routing;
use fermix_providers::{ConfigProblem, Providers};
use fermix_sandbox::{Jail, Network, Sandbox, Scope};
use fermix_store::{Conversations, Store, StoreError};
use fermix_types::{ConversationKey, Image, Kind, ToolCall, TraceIds, UnixMillis};
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;

use crate::assemble::{Assembled, BuildError, Parts, assemble, blocking};
use fermix_approvals::policy::ResumePort;

use self::resume::Resumes;
use crate::desk::{Desk, Machinery};
use crate::inspect::{self, Row, StandIn};
use crate::owner::{Policy, Requests};
use crate::secrets;
use crate::server::OwnerRequests;
use crate::undoing::Undoing;

/// How long a question that was interrupted may take to put its things away.
const STOP_GRACE: Duration = Duration::from_secs(8);

/// Everything, built once. The database opens and the agent is made when they are first needed.
pub struct Engine {
    parts: ArcSwap<Parts>,
    pub(crate) assembled: Assembled,
    machinery: Machinery,
    resumes: Arc<Resumes>,
    /// With the settings it was made with, which hold for its life.
    agent: Mutex<Option<(Agent, AgentSettings)>>,
    secrets_read: OnceCell<()>,
}

/// A question from the command line.
pub struct Question {
    /// The conversation it goes on with.
    pub conversation: ConversationKey,
    /// Who asks.
    pub peer: LocalPeer,
    /// What is asked.
    pub text: String,
    /// What is shown.
    pub images: Vec<Image>,
    /// The folder it was asked in.
    pub cwd: Option<PathBuf>,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// How its owner is asked meanwhile; `None` means that nobody can be.
    pub approval: Option<Arc<dyn ApprovalPort>>,
}

/// What a command that may run would see.
#[derive(Clone, Debug)]
pub struct CommandDecision {
    /// Where it starts.
    pub folder: PathBuf,
    /// What it may reach.
    pub jail: Jail,
}

impl CommandDecision {
    /// The same for people.
    pub fn lines(&self) -> Vec<String> {
        let paths = |paths: &[PathBuf]| {
            let paths: Vec<String> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            if paths.is_empty() {
                "none".to_owned()
            } else {
                paths.join(", ")
            }
        };
        vec![
            "allow".to_owned(),
            format!("folder: {}", self.folder.display()),
            format!("roots to read and change: {}", paths(&self.jail.writable)),
            format!("roots to read: {}", paths(&self.jail.readable)),
            match self.jail.network {
                Network::Allowed => "network: allowed".to_owned(),
                Network::Denied => "network: denied".to_owned(),
            },
        ]
    }
}

/// What became of a question.
#[derive(Debug)]
pub enum Answer {
    /// The turn ended, one way or another.
    Report(Box<TurnReport>),
    /// It was interrupted before it had an answer.
    Interrupted,
}

impl Engine {
    /// Puts everything together.
    pub fn build(parts: Parts) -> Result<Self, BuildError> {
        let assembled = assemble(&parts)?;
        let undoing = Undoing {
            log: assembled.undo.clone(),
            sandbox: assembled.sandbox.clone(),
        };
        let machinery = Machinery {
            policy: Some(Arc::new(Policy(assembled.policy.clone()))),
            undo: Some(Arc::new(undoing.clone())),
            owner: Some(Arc::new(Requests {
                policy: assembled.policy.clone(),
                undoing,
            })),
        };
        let resumes = Arc::new(Resumes::default());
        assembled
            .policy
            .resume_through(Arc::clone(&resumes) as Arc<dyn ResumePort>);
        Ok(Self {
            parts: ArcSwap::from_pointee(parts),
            assembled,
            machinery,
            resumes,
            agent: Mutex::default(),
            secrets_read: OnceCell::new(),
        })
    }

    /// The same with other machinery behind the slash commands.
    #[must_use]
    pub fn with_machinery(mut self, machinery: Machinery) -> Self {
        self.machinery = machinery;
        self
    }

    /// What carries out the owner's requests that are data, where there is something.
    pub(crate) fn owner_requests(&self) -> Option<&Arc<dyn OwnerRequests>> {
        self.machinery.owner.as_ref()
    }

    /// Whether the owner can answer prompts here: nobody is asked what nobody can answer.
    pub fn takes_answers(&self) -> bool {
        self.machinery.policy.is_some()
    }

    /// Carries out the slash command that `text` is; `None` means that it is none.
    pub async fn command(&self, text: &str, asker: &Asker) -> Result<Option<Outcome>, BuildError> {
        let Some(spec) = commands::parse(text, asker.bot_name.as_deref())
            .and_then(|invocation| commands::table::find(&invocation.name))
        else {
            return Ok(None);
        };
        let agent = match spec.command {
            // The only command that asks a model.
            Command::Compact => Some(self.agent()?),
            _ => self.agent_so_far(),
        };
        let desk = Desk {
            agent,
            sandbox: self.assembled.sandbox.clone(),
            conversations: self.conversations()?,
            clock: Arc::clone(&self.assembled.clock),
            trace: Arc::clone(&self.assembled.trace),
            machinery: self.machinery.clone(),
        };
        Ok(desk.carry_out(text, asker).await)
    }

    /// Looks at the sandbox and changes it, for this process and the file.
    pub fn policy(&self) -> &PolicyDesk {
        &self.assembled.policy
    }

    /// What decides about a command of the owner's from `cwd`: its folder and what it sees, or why
    /// it is refused. Runs nothing.
    pub fn decide_command(
        &self,
        command: &str,
        cwd: Option<PathBuf>,
        peer: LocalPeer,
    ) -> Result<CommandDecision, String> {
        let sandbox = &self.assembled.sandbox;
        let scope = Scope {
            cwd: cwd.filter(|_| peer == LocalPeer::InPerson),
            attended: peer == LocalPeer::InPerson,
            ..Scope::default()
        };
        sandbox
            .hardline(command, None, &scope)
            .map_err(|denied| denied.to_string())?;
        let folder = sandbox
            .working_dir(None, &scope)
            .map_err(|denied| denied.to_string())?;
        Ok(CommandDecision {
            folder: folder.path().to_owned(),
            jail: sandbox.jail(&scope),
        })
    }

    /// Reads what the stores of secrets keep, all at once and once: what is known is kept out of
    /// results and traces from the first one. A store that does not answer is waited for at most
    /// three seconds, and asked again by whoever needs it.
    pub async fn read_secrets(&self) {
        self.secrets_read
            .get_or_init(|| secrets::read_all(&self.assembled.secrets))
            .await;
    }

    /// Reads the stores of secrets again, because one may hold another value now.
    pub(crate) async fn refresh_secrets(&self) {
        secrets::refresh_all(&self.assembled.secrets).await;
    }

    /// Everything that can be called.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.assembled.registry
    }

    /// The door to the disk and to other processes.
    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.assembled.sandbox
    }

    /// The models.
    pub(crate) fn providers(&self) -> Result<Arc<Providers>, ConfigProblem> {
        self.assembled.providers.get()
    }

    /// The present moment.
    pub(crate) fn now(&self) -> UnixMillis {
        self.assembled.clock.now()
    }

    /// The most tokens a day.
    pub(crate) fn daily_token_budget(&self) -> Option<u64> {
        AgentSettings::from_config(&self.parts().config, &self.parts().home).daily_token_budget
    }

    /// Decides which calls the owner is asked about, and takes the answers.
    pub fn approvals(&self) -> &Arc<CallApprovals> {
        &self.assembled.approvals
    }

    /// Which models workers and jobs run on, as last saved by a tool.
    pub fn routing(&self) -> Routing {
        self.assembled
            .routing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Every capability, for the owner to look at.
    pub fn everything(&self, kind: Option<Kind>) -> Vec<Row> {
        inspect::everything(self.registry(), kind)
    }

    /// Exactly what a caller would have.
    pub fn view_of(&self, stand_in: StandIn, peer: LocalPeer) -> Vec<Row> {
        inspect::view_of(self.registry(), &stand_in.caller(peer))
    }

    /// Sends one call through the real dispatch, as a turn of `stand_in` would.
    pub async fn call_tool(
        &self,
        stand_in: StandIn,
        peer: LocalPeer,
        name: &str,
        arguments: String,
        cwd: Option<PathBuf>,
        cancel: CancellationToken,
    ) -> CallOutcome {
        self.read_secrets().await;
        let session_id = format!("call-{}", random_hex());
        let scope = TurnScope {
            view: Arc::new(self.registry().view(&stand_in.caller(peer))),
            ids: TraceIds {
                turn_id: session_id.clone(),
                session_id,
                parent_session: None,
            },
            conversation: None,
            cwd,
            session_env: Arc::default(),
            cancel,
            outside_sources: OutsideSources::clean(),
            origin: None,
            approval: None,
            frame: FrameId::random(),
        };
        let call = ToolCall {
            call_id: "call_1".into(),
            name: name.to_owned(),
            arguments,
        };
        self.assembled.dispatcher.call(&scope, call).await
    }

    /// Asks, and waits for the answer. When `interrupt` is cancelled the turn is stopped, with
    /// everything it runs.
    pub async fn ask(
        &self,
        question: Question,
        events: Option<mpsc::Sender<TurnEvent>>,
        interrupt: CancellationToken,
    ) -> Result<Answer, BuildError> {
        self.read_secrets().await;
        let mut turn = self.begin(question, events)?;
        tokio::select! {
            report = turn.end() => return Ok(answer(report)),
            () = interrupt.cancelled() => turn.stop(),
        }
        // What it holds is released in order; what does not come back in time ends with the process.
        let _ = tokio::time::timeout(STOP_GRACE, turn.end()).await;
        Ok(Answer::Interrupted)
    }

    /// Says that tools cannot reach the folder the owner is in, and where they work instead.
    pub fn working_elsewhere(&self, cwd: Option<&Path>, peer: LocalPeer) -> Option<String> {
        let cwd = cwd
            .filter(|_| peer == LocalPeer::InPerson)?
            .canonicalize()
            .ok()?;
        let working = self.working_folder(Some(&cwd))?;
        if working == cwd {
            return None;
        }
        let fix = match self.assembled.sandbox.grantable_root(&cwd) {
            Ok(_) if blocking(&self.parts(), &cwd).is_some() => "[sandbox] blocked_roots closes it",
            Ok(_) => "add `--root .` to reach the folder you are in",
            Err(_) => "ask from a folder below it",
        };
        Some(format!(
            "`{}` is out of reach, so this works in `{}`; {fix}",
            cwd.display(),
            working.display()
        ))
    }

    /// Where relative paths of a request from `cwd` start.
    pub(crate) fn working_folder(&self, cwd: Option<&Path>) -> Option<PathBuf> {
        let scope = Scope {
            cwd: cwd.map(Path::to_owned),
            attended: true,
            ..Scope::default()
        };
        let working = self.assembled.sandbox.working_dir(None, &scope).ok()?;
        Some(working.path().to_owned())
    }

    /// Opens the database, once. Blocks for a few milliseconds the first time.
    pub(crate) fn store(&self) -> Result<Store, StoreError> {
        self.open_store(false)
    }

    /// The same. `for_life` folds the log into the file at the end, which a process that answers
    /// one question leaves to the next start; it counts the first time.
    pub(crate) fn open_store(&self, for_life: bool) -> Result<Store, StoreError> {
        self.assembled.store.open(for_life)
    }

    /// Where conversations are kept.
    pub(crate) fn conversations(&self) -> Result<Arc<Conversations>, BuildError> {
        Ok(Arc::new(Conversations::new(self.store()?)))
    }

    /// The agent, made of the database and the providers when it is first asked for. Blocks for a
    /// few milliseconds then.
    pub(crate) fn agent(&self) -> Result<Agent, BuildError> {
        let mut made = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((agent, _)) = &*made {
            return Ok(agent.clone());
        }
        let settings = agent_settings(&self.parts());
        let agent = Agent::new(AgentParts {
            registry: Arc::clone(&self.assembled.registry),
            dispatcher: Arc::clone(&self.assembled.dispatcher),
            providers: self.assembled.providers.get()?,
            conversations: self.conversations()?,
            settings: settings.clone(),
            clock: Arc::clone(&self.assembled.clock),
            trace: Arc::clone(&self.assembled.trace),
        });
        Ok(made.insert((agent, settings)).0.clone())
    }

    /// The agent, if a message came already.
    pub(crate) fn agent_so_far(&self) -> Option<Agent> {
        let made = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        made.as_ref().map(|(agent, _)| agent.clone())
    }

    /// What of the configuration in force waits for a restart.
    pub(crate) fn waits_for_restart(&self) -> Vec<&'static str> {
        let parts = self.parts();
        let deferral = match parts.config.tool_search {
            true => Deferral::On,
            false => Deferral::Off,
        };
        let made = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other_agent = made
            .as_ref()
            .is_some_and(|(_, settings)| *settings != agent_settings(&parts));
        let mut waiting = Vec::new();
        if is_other_agent {
            waiting.push("agent");
        }
        if deferral != self.registry().deferral() {
            waiting.push("tools");
        }
        waiting
    }

    /// What it is built from now.
    pub(crate) fn parts(&self) -> Arc<Parts> {
        self.parts.load_full()
    }

    /// Lets running turns end for `drain`, stops the rest, ends every command. Whether everything
    /// is proven to be gone.
    pub async fn wind_down(&self, drain: Duration) -> bool {
        let abandoned = match self.agent_so_far() {
            Some(agent) => agent.shutdown(drain).await.abandoned,
            None => 0,
        };
        let are_gone = self.assembled.sandbox.runner().shutdown(STOP_GRACE).await;
        if abandoned > 0 {
            tracing::warn!(abandoned, "turns did not end after they were stopped");
        }
        if !are_gone {
            tracing::warn!("commands did not end after they were killed");
        }
        abandoned == 0 && are_gone
    }
}

/// The settings of the main agent. Where no time zone is set it is the machine's.
fn agent_settings(parts: &Parts) -> AgentSettings {
    let mut settings = AgentSettings::from_config(&parts.config, &parts.home);
    settings.timezone = settings.timezone.or_else(|| {
        jiff::tz::TimeZone::try_system()
            .ok()?
            .iana_name()
            .map(str::to_owned)
    });
    settings
}

fn answer(report: Option<TurnReport>) -> Answer {
    report.map_or(Answer::Interrupted, |report| {
        Answer::Report(Box::new(report))
    })
}

/// Eight random bytes as hex: names a run that nothing else names.
pub fn random_hex() -> String {
    let mut bytes = [0_u8; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    hex::encode(bytes)
}
