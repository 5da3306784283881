//! Fermix in one process: ask a question, call a tool, look at the registry.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fermix_agent::{
    Agent, AgentParts, AgentSettings, ReportOnly, TurnEvent, TurnReport, TurnRequest,
};
use fermix_capability::dispatch::CallOutcome;
use fermix_capability::{FrameId, OutsideSources, Ports, Registry, TurnScope};
use fermix_channels::{LocalPeer, admit_local};
use fermix_config::Routing;
use fermix_sandbox::Scope;
use fermix_store::{Conversations, Store, StoreOptions};
use fermix_types::{ConversationKey, Image, Kind, ToolCall, TraceIds, TraceKind, TraceRow};
use serde_json::json;
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;

use crate::assemble::{Assembled, BuildError, Parts, assemble, blocking};
use crate::inspect::{self, Row, StandIn};
use crate::secrets;

/// How long a question that was interrupted may take to put its things away.
const STOP_GRACE: Duration = Duration::from_secs(8);

/// Everything, built once. The database and the providers open when the first question comes.
pub struct Engine {
    parts: Parts,
    assembled: Assembled,
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
        Ok(Self {
            parts,
            assembled,
            secrets_read: OnceCell::new(),
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

    /// Everything that can be called.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.assembled.registry
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
        let agent = self.agent()?;
        let conversation = question.conversation.clone();
        // Only the owner in person brings the folder along.
        let cwd = question
            .cwd
            .filter(|_| question.peer == LocalPeer::InPerson);
        let caller = Arc::new(admit_local(
            question.peer,
            Ports {
                reply: true,
                ..Ports::default()
            },
        ));
        let request = TurnRequest {
            images: question.images,
            working_folder: self.working_folder(cwd.as_deref()),
            cwd,
            timeout: question.timeout,
            ..TurnRequest::text(question.conversation, caller, question.text)
        };
        let asked = request.text.clone();
        let submitted = agent.submit(request, Arc::new(ReportOnly), events);
        let answer = tokio::select! {
            report = submitted.done => report.map_or(Answer::Interrupted, |report| Answer::Report(Box::new(report))),
            () = interrupt.cancelled() => {
                agent.stop(&conversation);
                Answer::Interrupted
            }
        };
        agent.shutdown(STOP_GRACE).await;
        if let Answer::Report(report) = &answer {
            self.record_messages(&conversation, &asked, report);
        }
        Ok(answer)
    }

    /// What went in and out, joined to the turn's other rows.
    fn record_messages(&self, conversation: &ConversationKey, asked: &str, report: &TurnReport) {
        let ids = TraceIds {
            session_id: report.session_id.clone(),
            turn_id: report.turn_id.clone(),
            parent_session: None,
        };
        for (direction, text) in [("in", asked), ("out", report.response.as_str())] {
            let fields = json!({
                "channel": conversation.channel,
                "conversation": conversation.to_string(),
                "direction": direction,
                "text": text,
            });
            let row = TraceRow::new(TraceKind::ChannelMsg, &ids, fields).with_content(&["text"]);
            self.assembled.trace.record(row);
        }
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
            Ok(_) if blocking(&self.parts, &cwd).is_some() => "[sandbox] blocked_roots closes it",
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
    fn working_folder(&self, cwd: Option<&Path>) -> Option<PathBuf> {
        let scope = Scope {
            cwd: cwd.map(Path::to_owned),
            attended: true,
            ..Scope::default()
        };
        let working = self.assembled.sandbox.working_dir(None, &scope).ok()?;
        Some(working.path().to_owned())
    }

    /// Opens the database and the providers and makes an agent of them.
    fn agent(&self) -> Result<Agent, BuildError> {
        let options = StoreOptions {
            checkpoint_on_close: false,
            ..StoreOptions::default()
        };
        let store = Store::open(&self.parts.home.database(), &options)?;
        let mut settings = AgentSettings::from_config(&self.parts.config, &self.parts.home);
        settings.timezone = settings.timezone.or_else(|| {
            jiff::tz::TimeZone::try_system()
                .ok()?
                .iana_name()
                .map(str::to_owned)
        });
        Ok(Agent::new(AgentParts {
            registry: Arc::clone(&self.assembled.registry),
            dispatcher: Arc::clone(&self.assembled.dispatcher),
            providers: self.assembled.providers.get()?,
            conversations: Arc::new(Conversations::new(store)),
            settings,
            clock: Arc::clone(&self.assembled.clock),
            trace: Arc::clone(&self.assembled.trace),
        }))
    }
}

/// Eight random bytes as hex: names a run that nothing else names.
pub fn random_hex() -> String {
    let mut bytes = [0_u8; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    hex::encode(bytes)
}
