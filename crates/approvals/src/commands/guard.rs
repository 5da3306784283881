//! Decides about each call: runs, is asked about, or is refused.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use async_trait::async_trait;
use fermix_capability::guard::Refusal;
use fermix_capability::{
    Arguments, CallGuard, Capability, Choice, CommandPreview, CommandText, GuardedCall,
    PromptOrigin, Ruling, TurnScope,
};
use fermix_config::{ApproveMode, Config};
use fermix_sandbox::{Sandbox, Scope};
use fermix_types::{Clock, PolicyClass, ToolError};
use serde_json::Value;

use super::access::{Access, gate};
use super::asking::{Asked, Desk, Told, turn_key};
use super::harmless::{Ground, judge_argv, judge_script};
use super::remembered::ApprovedCommands;
use super::subject::{Subject, What};
use super::tainted;
use crate::confirmations::ConfirmError;
use crate::scope::sandbox_scope;
use crate::waiting::Prompts;

/// How many refused calls are kept, so that a turn does not ask the same again.
const MAX_REFUSED: usize = 256;

/// What became of a call that was not let through, in the words of the trace.
pub mod outcome {
    /// It needs the owner, and nobody can be asked.
    pub const UNAVAILABLE: &str = "approval_unavailable";
    /// The owner said no.
    pub const DENIED: &str = "approval_denied";
    /// Nobody answered in time.
    pub const EXPIRED: &str = "approval_expired";
    /// Another call of the turn waits for the owner.
    pub const WAITING: &str = "access_waiting";
    /// What was approved is not what would run by now.
    pub const CHANGED: &str = "approval_changed";
    /// The sandbox refuses the command in any case, so nobody is asked.
    pub const SANDBOX: &str = "sandbox_denied";
}

/// When the owner is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApprovalRules {
    /// Which commands are asked about.
    pub commands: ApproveMode,
    /// Whether a turn that has read outside content asks before it acts.
    pub when_tainted: bool,
}

impl ApprovalRules {
    /// The rules of a configuration.
    pub fn of(config: &Config) -> Self {
        Self {
            commands: config.sandbox.approve,
            when_tainted: config.agent.ask_when_tainted,
        }
    }
}

/// The guard of calls.
pub struct CallApprovals {
    sandbox: Sandbox,
    rules: RwLock<ApprovalRules>,
    approved: ApprovedCommands,
    clock: Arc<dyn Clock>,
    desk: Desk,
    /// Turns with the digests they were refused, the oldest first.
    refused: Mutex<VecDeque<(String, String)>>,
}

impl fmt::Debug for CallApprovals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallApprovals")
            .field("rules", &self.rules())
            .finish_non_exhaustive()
    }
}

/// Why the owner is asked about a call.
#[derive(Default)]
struct Reasons {
    /// Ends of the sentence "Asked because".
    words: Vec<String>,
    /// Whether a yes for good is an answer to all of them.
    may_be_remembered: bool,
    /// The gate that holds the call, if it is one.
    is_held: bool,
}

impl CallApprovals {
    /// Asks by `rules`. Questions wait in `questions`; what is approved for good is in `approved`.
    pub fn new(
        sandbox: Sandbox,
        rules: ApprovalRules,
        approved: ApprovedCommands,
        prompts: Arc<Prompts>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            sandbox,
            rules: RwLock::new(rules),
            approved,
            clock,
            desk: Desk::new(prompts),
            refused: Mutex::default(),
        }
    }

    /// Puts other rules in force. Questions that wait go on waiting.
    pub fn reconfigure(&self, rules: ApprovalRules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// The commands that are approved for good.
    pub fn approved(&self) -> &ApprovedCommands {
        &self.approved
    }

    /// Gives the owner's answer to a question, as `/confirm` and `/deny` do. Only `origin`, the one who
    /// was asked, can; a wrong one burns nothing.
    pub async fn answer(
        &self,
        token: &str,
        choice: Choice,
        origin: &PromptOrigin,
    ) -> Result<String, ConfirmError> {
        let now = Instant::now();
        crate::waiting::answer(self.desk.prompts(), token, Some(choice), origin, now).await
    }

    fn rules(&self) -> ApprovalRules {
        *self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    async fn decide(&self, call: GuardedCall<'_>) -> Result<Option<&'static str>, Refusal> {
        let GuardedCall {
            turn,
            capability,
            arguments,
        } = call;
        if self.desk.has_question(turn) {
            return Err(waiting());
        }
        let mut label = None;
        let mut reasons = Reasons {
            may_be_remembered: true,
            ..Reasons::default()
        };
        if capability.is_access_sensitive() {
            match gate(turn, capability) {
                Access::Given(given) => label = Some(given),
                Access::Held(why) => reasons.held(why),
                Access::Refused(refusal) => return Err(refusal),
            }
        }
        let rules = self.rules();
        let asks_about_commands =
            capability.class() == PolicyClass::Exec && rules.commands != ApproveMode::Never;
        let heeds_taint = turn.outside_sources.is_tainted() && self.heeds_taint(turn, capability);
        if !reasons.is_held && !asks_about_commands && !heeds_taint {
            return Ok(label);
        }

        let work = Work::new(self, turn, capability, arguments, rules);
        let examined = work
            .clone()
            .examine(asks_about_commands, heeds_taint)
            .await?;
        if let Some(effect) = examined.effect {
            if turn.view.caller().is_within_job() {
                return Err(unavailable(&format!(
                    "this scheduled run has read text from outside, and the call {effect}; a job may do that only with \
                     tools that its own allowed_tools names"
                )));
            }
            reasons.words.push(format!(
                "this turn has read text from outside, and the call {effect}"
            ));
            reasons.may_be_remembered = false;
        }
        if let Some(why) = examined.doubt {
            reasons.words.push(why);
        }
        if reasons.words.is_empty() {
            return Ok(label);
        }
        // What only a command's own doubt asks about may have been answered for good.
        if reasons.may_be_remembered && examined.is_remembered {
            return Ok(Some("approved_before"));
        }
        let subject = examined.subject;
        let choice = self.ask(turn, &subject, &reasons).await?;
        let again = work.subject_now().await?;
        if again != subject {
            return Err(Refusal::new(
                "approval",
                outcome::CHANGED,
                "approval_changed: the folder or the variables changed while the owner was asked, so nothing ran; \
                 make the call again",
            ));
        }
        if choice == Choice::Always {
            self.remember(subject).await;
            return Ok(Some("approved_always"));
        }
        Ok(Some(if reasons.is_held {
            "confirmed"
        } else {
            "approved_once"
        }))
    }

    /// Whether the turn's reading matters to this call. A job may do what its own row names, and
    /// nothing else of the kind; for everybody else it is the owner's setting.
    fn heeds_taint(&self, turn: &TurnScope, capability: &Capability) -> bool {
        let caller = turn.view.caller();
        if caller.is_within_job() {
            return !caller.job_names(capability.name().as_str());
        }
        self.rules().when_tainted
    }

    async fn ask(
        &self,
        turn: &TurnScope,
        subject: &Subject,
        reasons: &Reasons,
    ) -> Result<Choice, Refusal> {
        let label = |refusal: Refusal, held: &'static str| {
            if reasons.is_held {
                refusal.labelled(held)
            } else {
                refusal
            }
        };
        let digest = subject.digest();
        if self.was_refused(turn, &digest) {
            return Err(label(denied(), "held_denied"));
        }
        if !turn.view.caller().is_attended_owner()
            || turn.approval.is_none()
            || turn.origin.is_none()
        {
            return Err(label(
                unavailable("nobody is there to be asked in this run"),
                "refused_unavailable",
            ));
        }
        let why = reasons.words.join("; and because ");
        let asked = Asked {
            fingerprint: &digest,
            title: subject.title(),
            body: subject.body(&why),
            offers_always: reasons.may_be_remembered,
        };
        match self.desk.ask(turn, asked).await {
            Told::Yes(choice) => Ok(choice),
            Told::No => {
                self.refuse_from_now_on(turn, digest);
                Err(label(denied(), "held_denied"))
            }
            Told::Expired => {
                self.refuse_from_now_on(turn, digest);
                let refusal = Refusal::new(
                    "approval",
                    outcome::EXPIRED,
                    "approval_expired: the owner did not answer in time, so nothing ran; go on without it, and say what \
                     you would have run",
                );
                Err(label(refusal, "held_expired"))
            }
            Told::Busy => Err(label(waiting(), "held_waiting")),
            Told::Unseen(why) => Err(label(
                unavailable(&format!("the owner could not be asked ({why})")),
                "refused_unavailable",
            )),
        }
    }

    fn was_refused(&self, turn: &TurnScope, digest: &str) -> bool {
        let turn = turn_key(turn);
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|(by, what)| *by == turn && what == digest)
    }

    fn refuse_from_now_on(&self, turn: &TurnScope, digest: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= MAX_REFUSED {
            refused.pop_front();
        }
        refused.push_back((turn_key(turn), digest));
    }

    async fn remember(&self, subject: Subject) {
        let (approved, now) = (self.approved.clone(), self.clock.now());
        let kept = tokio::task::spawn_blocking(move || approved.remember(&subject, now)).await;
        match kept {
            Ok(Ok(())) => {}
            // The owner will be asked again, which is the narrower mistake.
            Ok(Err(error)) => tracing::warn!(%error, "an approval for good could not be kept"),
            Err(error) => tracing::error!(%error, "keeping an approval failed"),
        }
    }
}

#[async_trait]
impl CallGuard for CallApprovals {
    async fn rule(&self, call: GuardedCall<'_>) -> Ruling {
        match self.decide(call).await {
            Ok(label) => Ruling::Run(label),
            Err(refusal) => Ruling::Refuse(refusal),
        }
    }
}

impl Reasons {
    fn held(&mut self, why: String) {
        self.words.push(why);
        self.is_held = true;
        self.may_be_remembered = false;
    }
}

/// Looking at one call, on a thread that may wait for the disk.
#[derive(Clone)]
struct Work {
    sandbox: Sandbox,
    scope: Scope,
    capability: Capability,
    arguments: Arguments,
    preview: Option<CommandPreview>,
    mode: ApproveMode,
    approved: ApprovedCommands,
}

/// What was found out.
struct Examined {
    subject: Subject,
    /// Why the command is asked about, if it is.
    doubt: Option<String>,
    /// What outside content may have talked the model into.
    effect: Option<&'static str>,
    is_remembered: bool,
}

impl Work {
    fn new(
        guard: &CallApprovals,
        turn: &TurnScope,
        capability: &Capability,
        arguments: &Arguments,
        rules: ApprovalRules,
    ) -> Self {
        Self {
            sandbox: guard.sandbox.clone(),
            scope: sandbox_scope(turn),
            capability: capability.clone(),
            preview: capability.command(arguments),
            arguments: arguments.clone(),
            mode: rules.commands,
            approved: guard.approved.clone(),
        }
    }

    async fn examine(
        self,
        asks_about_commands: bool,
        heeds_taint: bool,
    ) -> Result<Examined, Refusal> {
        blocking(move || self.examine_now(asks_about_commands, heeds_taint)).await
    }

    fn examine_now(
        &self,
        asks_about_commands: bool,
        heeds_taint: bool,
    ) -> Result<Examined, Refusal> {
        let effect = heeds_taint
            .then(|| {
                tainted::effect(
                    &self.capability,
                    &self.arguments,
                    &self.sandbox,
                    &self.scope,
                )
            })
            .flatten();
        let subject = self.subject()?;
        let doubt = if asks_about_commands {
            self.doubt(&subject)
        } else {
            None
        };
        let is_remembered = doubt.is_some()
            && effect.is_none()
            && self.approved.holds(&subject).unwrap_or_else(|error| {
                tracing::warn!(%error, "approvals for good do not count");
                false
            });
        Ok(Examined {
            subject,
            doubt,
            effect,
            is_remembered,
        })
    }

    fn doubt(&self, subject: &Subject) -> Option<String> {
        if self.mode == ApproveMode::Always {
            return Some("`[sandbox] approve` is \"always\"".to_owned());
        }
        let Some(folder) = &subject.folder else {
            return Some("what it runs cannot be told beforehand".to_owned());
        };
        let ground = Ground {
            sandbox: &self.sandbox,
            scope: &self.scope,
            folder: folder.as_ref(),
        };
        match &subject.what {
            What::Script(script) => judge_script(script, ground),
            What::Argv(argv) => judge_argv(argv, ground),
            What::Call(_) => Err("what it runs cannot be told beforehand".to_owned()),
        }
        .err()
    }

    async fn subject_now(self) -> Result<Subject, Refusal> {
        blocking(move || self.subject()).await
    }

    /// What would run by now. A command that the sandbox refuses in any case is refused here, with the
    /// sandbox's words: nobody is asked about what cannot run.
    fn subject(&self) -> Result<Subject, Refusal> {
        let tool = self.capability.name().to_string();
        let Some(preview) = &self.preview else {
            let arguments = Value::Object(self.arguments.clone());
            return Ok(Subject {
                tool,
                what: What::Call(format!("{arguments:#}")),
                folder: None,
                env_names: Vec::new(),
            });
        };
        let requested = preview.working_dir.as_deref();
        let what = match &preview.command {
            CommandText::Script(script) => What::Script(script.clone()),
            CommandText::Argv(argv) => What::Argv(argv.clone()),
        };
        let subject = Subject {
            tool,
            what,
            folder: None,
            env_names: self.sandbox.env_names(&preview.required_env, &self.scope),
        };
        self.sandbox
            .hardline(&subject.readable(), requested, &self.scope)
            .map_err(refused_by_sandbox)?;
        let folder = self
            .sandbox
            .working_dir(requested, &self.scope)
            .map_err(refused_by_sandbox)?;
        let Some(folder) = folder.path().to_str() else {
            return Err(unavailable("the folder's name cannot be shown"));
        };
        Ok(Subject {
            folder: Some(folder.to_owned()),
            ..subject
        })
    }
}

async fn blocking<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(look).await {
        Ok(looked) => looked,
        Err(error) => {
            tracing::error!(%error, "looking at a call failed");
            Err(unavailable("the check before the call failed"))
        }
    }
}

fn refused_by_sandbox(denied: fermix_sandbox::Denied) -> Refusal {
    let ToolError {
        message,
        enforcement,
        ..
    } = denied.into();
    Refusal {
        enforcement,
        ..Refusal::new("sandbox", outcome::SANDBOX, message)
    }
}

fn unavailable(why: &str) -> Refusal {
    Refusal::new(
        "approval",
        outcome::UNAVAILABLE,
        format!(
            "approval_unavailable: this call needs the owner's yes, and {why}; nothing ran. Go on without it and say what \
             you would have done"
        ),
    )
}

fn denied() -> Refusal {
    Refusal::new(
        "approval",
        outcome::DENIED,
        "approval_denied: the owner said no, so nothing ran. Do not try it another way; ask what they want instead",
    )
}

fn waiting() -> Refusal {
    Refusal::new(
        "approval",
        outcome::WAITING,
        "access_waiting: the owner is being asked about another call of this turn, so this one did not run; make it again \
         when that call has its answer",
    )
}
