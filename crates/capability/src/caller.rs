//! On whose behalf a run calls capabilities.
//!
//! A [`Caller`] is built once per run, by the place that may vouch for it, and only ever narrows
//! from there: every child of a run intersects with its parent. What is absent or malformed in a
//! stored or received context reads as the narrower right.

use std::collections::BTreeSet;
use std::sync::Arc;

use fermix_types::{Category, ClassSet, Origin, PolicyClass, Trust};

use crate::policy::{Policy, resolved_policy_classes};

/// How far below the top level a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Depth(u32);

impl Depth {
    /// Not delegated.
    pub const TOP: Self = Self(0);
    /// What a malformed depth reads as.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// Reads a stored depth: absent, `null` and the integer 0 are the top; any other value,
    /// malformed ones included, is below it.
    pub fn from_json(value: Option<&serde_json::Value>) -> Self {
        match value {
            None | Some(serde_json::Value::Null) => Self::TOP,
            Some(value) => value.as_u64().map_or(Self::UNKNOWN, |depth| {
                Self(u32::try_from(depth).unwrap_or(u32::MAX))
            }),
        }
    }

    /// One level further down.
    #[must_use]
    pub fn below(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether the run is not delegated.
    pub fn is_top(self) -> bool {
        self == Self::TOP
    }

    /// The number of levels.
    pub fn levels(self) -> u32 {
        self.0
    }
}

/// Which emoji a channel takes as reactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReactionSpec {
    /// Any.
    Any,
    /// Exactly these.
    Only(Arc<[String]>),
}

/// What a run can reach the person through. Absent ports are absent rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// A live way back to the person.
    pub reply: bool,
    /// The channel takes slash commands, so that the owner can confirm.
    pub approval: bool,
    /// The channel can carry an outcome that comes after the turn.
    pub late_outcome: bool,
    /// The channel takes reactions.
    pub reactions: Option<ReactionSpec>,
}

/// What a scheduled job's own row grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobGrant {
    /// The job.
    pub job_id: String,
    /// Tools the owner named in the row; `None` names none and narrows nothing.
    pub allowed_tools: Option<BTreeSet<String>>,
    /// The row's policy.
    pub policy: Option<Policy>,
}

/// The kinds of run there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// A message typed in a chat or on the command line.
    Message,
    /// A live call.
    Voice,
    /// A scheduled run.
    Job(JobGrant),
    /// A temporary helper of another run.
    Worker,
    /// A coding run's outcome re-entering its owner's chat.
    Continuation,
    /// A `/background` run, or a local caller that is not the owner in person.
    Detached,
}

/// Proof that the transport authenticated the person who is present. Only the ingress makes one;
/// `cargo xtask tidy` refuses the call anywhere else.
#[derive(Clone, Copy, Debug)]
pub struct Presence(());

impl Presence {
    /// The ingress vouches for the sender.
    pub fn vouched_by_ingress() -> Self {
        Self(())
    }
}

/// On whose behalf a run calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    run: Run,
    /// The scheduled run this one is, or stands below. A helper of a job is bound like the job.
    within_job: Option<JobGrant>,
    trust: Trust,
    classes: ClassSet,
    allowed_tools: Option<Arc<BTreeSet<String>>>,
    excluded_names: Arc<BTreeSet<String>>,
    excluded_categories: Arc<[Category]>,
    subagent_depth: Depth,
    skill_depth: Depth,
    continuation_depth: Depth,
    ports: Ports,
}

impl Caller {
    fn new(run: Run, trust: Trust, ports: Ports) -> Self {
        let within_job = match &run {
            Run::Job(grant) => Some(grant.clone()),
            Run::Message | Run::Voice | Run::Worker | Run::Continuation | Run::Detached => None,
        };
        Self {
            run,
            within_job,
            trust,
            classes: resolved_policy_classes(Some(trust), None),
            allowed_tools: None,
            excluded_names: Arc::default(),
            excluded_categories: Arc::default(),
            subagent_depth: Depth::TOP,
            skill_depth: Depth::TOP,
            continuation_depth: Depth::TOP,
            ports,
        }
    }

    /// The owner, present, in a chat or on the command line.
    pub fn owner(_: Presence, ports: Ports) -> Self {
        Self::new(Run::Message, Trust::Operator, ports)
    }

    /// Anyone else whom the channel lets in.
    pub fn guest(ports: Ports) -> Self {
        Self::new(Run::Message, Trust::Guest, ports)
    }

    /// The owner in a live call. The same exclusions feed the call's prompt.
    pub fn voice(_: Presence, private: bool) -> Self {
        let mut excluded = vec![Category::Channel, Category::Media, Category::Delegation];
        if private {
            excluded.push(Category::Harness);
        }
        Self {
            excluded_categories: excluded.into(),
            ..Self::new(Run::Voice, Trust::Operator, Ports::default())
        }
    }

    /// A scheduled run, at its creator's trust, within its row.
    pub fn job(creator: Trust, grant: JobGrant) -> Self {
        let classes = resolved_policy_classes(Some(creator), grant.policy.as_ref());
        let allowed_tools = grant.allowed_tools.clone().map(Arc::new);
        Self {
            classes,
            allowed_tools,
            ..Self::new(Run::Job(grant), creator, Ports::default())
        }
    }

    /// An owner's run that nobody attends: `/background`, or a local caller that the daemon itself
    /// started.
    pub fn detached() -> Self {
        Self::new(Run::Detached, Trust::Operator, Ports::default())
    }

    /// A coding run's outcome re-entering the owner's chat.
    pub fn continuation(depth: Depth, ports: Ports) -> Self {
        let continuation_depth = if depth.is_top() { depth.below() } else { depth };
        Self {
            continuation_depth,
            ..Self::new(Run::Continuation, Trust::Operator, ports)
        }
    }

    /// The same caller, at least as deep as a stored context says: an object with the members
    /// `subagent_depth`, `skill_depth` and `continuation_depth`. Each is read by
    /// [`Depth::from_json`]; what is not an object says that the depths are unknown.
    #[must_use]
    pub fn as_deep_as(mut self, stored: &serde_json::Value) -> Self {
        let depth = |name| match stored {
            serde_json::Value::Object(members) => Depth::from_json(members.get(name)),
            _ => Depth::UNKNOWN,
        };
        self.subagent_depth = self.subagent_depth.max(depth("subagent_depth"));
        self.skill_depth = self.skill_depth.max(depth("skill_depth"));
        self.continuation_depth = self.continuation_depth.max(depth("continuation_depth"));
        self
    }

    /// A temporary helper of this run: its classes less writing and the desktop, its allowlist, no
    /// way to the person.
    #[must_use]
    pub fn worker(&self) -> Self {
        Self {
            run: Run::Worker,
            classes: self
                .classes
                .without(PolicyClass::ReadWrite)
                .without(PolicyClass::GuiControl),
            subagent_depth: self.subagent_depth.below(),
            ports: Ports::default(),
            ..self.clone()
        }
    }

    /// A skill run by this run, at most at the skill's own trust.
    #[must_use]
    pub fn skill(
        &self,
        skill_trust: Trust,
        policy: Option<&Policy>,
        allowed_tools: Option<BTreeSet<String>>,
    ) -> Self {
        let trust = if skill_trust == Trust::Operator {
            self.trust
        } else {
            Trust::Guest
        };
        Self {
            trust,
            skill_depth: self.skill_depth.below(),
            ports: Ports::default(),
            ..self.clone()
        }
        .narrowed(resolved_policy_classes(Some(trust), policy))
        .only_tools(allowed_tools)
    }

    /// The same caller with no class outside `classes`.
    #[must_use]
    pub fn narrowed(mut self, classes: ClassSet) -> Self {
        self.classes = self.classes.intersection(classes);
        self
    }

    /// The same caller with no tool outside `tools`; `None` narrows nothing.
    #[must_use]
    pub fn only_tools(mut self, tools: Option<BTreeSet<String>>) -> Self {
        let Some(tools) = tools else { return self };
        self.allowed_tools = Some(Arc::new(match &self.allowed_tools {
            Some(already) => already.intersection(&tools).cloned().collect(),
            None => tools,
        }));
        self
    }

    /// The same caller without the named tools.
    #[must_use]
    pub fn without_tools(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.excluded_names = Arc::new(self.excluded_names.iter().cloned().chain(names).collect());
        self
    }

    /// The same caller without whole categories.
    #[must_use]
    pub fn without_categories(mut self, categories: impl IntoIterator<Item = Category>) -> Self {
        self.excluded_categories = self
            .excluded_categories
            .iter()
            .copied()
            .chain(categories)
            .collect();
        self
    }

    /// Whose word it is.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// The kind of run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The classes it may call.
    pub fn classes(&self) -> ClassSet {
        self.classes
    }

    /// The only tools it may call; `None` narrows nothing.
    pub fn allowed_tools(&self) -> Option<&BTreeSet<String>> {
        self.allowed_tools.as_deref()
    }

    /// Tools taken away by name.
    pub fn excluded_names(&self) -> &BTreeSet<String> {
        &self.excluded_names
    }

    /// Categories taken away.
    pub fn excluded_categories(&self) -> &[Category] {
        &self.excluded_categories
    }

    /// What it can reach the person through.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// How deep below a worker-spawning run it stands.
    pub fn subagent_depth(&self) -> Depth {
        self.subagent_depth
    }

    /// How deep inside skills it stands.
    pub fn skill_depth(&self) -> Depth {
        self.skill_depth
    }

    /// How the run came about; `None` for a scheduled run.
    pub fn origin(&self) -> Option<Origin> {
        match self.run {
            Run::Message | Run::Continuation => Some(Origin::Interactive),
            Run::Voice => Some(Origin::Voice),
            Run::Worker | Run::Detached => Some(Origin::Unattended),
            Run::Job(_) => None,
        }
    }

    /// Whether the run is neither a worker's nor a skill's.
    pub fn is_top_level(&self) -> bool {
        self.subagent_depth.is_top() && self.skill_depth.is_top()
    }

    /// A present owner typed or spoke the message that this run answers.
    pub fn is_attended_owner(&self) -> bool {
        self.trust == Trust::Operator
            && matches!(self.origin(), Some(Origin::Interactive | Origin::Voice))
            && self.is_top_level()
            && self.continuation_depth.is_top()
    }

    /// The former, or a scheduled run that the owner created.
    pub fn is_owner_read(&self) -> bool {
        self.is_attended_owner()
            || (self.trust == Trust::Operator
                && self.origin().is_none()
                && self.is_top_level()
                && self.continuation_depth.is_top())
    }

    /// Whether it is a scheduled run or stands below one.
    pub fn is_within_job(&self) -> bool {
        self.within_job.is_some()
    }

    /// Whether the row of the scheduled job it runs in names `tool`.
    pub fn job_names(&self, tool: &str) -> bool {
        self.within_job
            .as_ref()
            .and_then(|grant| grant.allowed_tools.as_ref())
            .is_some_and(|tools| tools.contains(tool))
    }
}
