//! The last question before a call runs, for whoever may have to ask the owner.
//!
//! The dispatcher asks its [`CallGuard`] after everything that can be decided without a person, and
//! before anything runs. A guard may wait for a person: the wait is not part of the tool's time, a
//! turn that stops ends it, and a guard that fails has said no.

use std::fmt;

use async_trait::async_trait;
use fermix_types::{Enforcement, EnforcementDecision};

use crate::call::TurnScope;
use crate::capability::{Arguments, Capability};

/// A call that would run next.
#[derive(Clone, Copy, Debug)]
pub struct GuardedCall<'a> {
    /// The turn it belongs to.
    pub turn: &'a TurnScope,
    /// What would run.
    pub capability: &'a Capability,
    /// Its checked arguments.
    pub arguments: &'a Arguments,
}

/// What a guard decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It may run. The label tells the trace by whose leave; `None` when nobody had to be asked.
    Run(Option<&'static str>),
    /// It does not run.
    Refuse(Refusal),
}

/// Why a call does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The words for the model, without `Error: `.
    pub words: String,
    /// What became of the call, in the words of the trace. A stable name.
    pub outcome: &'static str,
    /// How the gate came to it (`held_denied`, `refused_delegated`), for the trace.
    pub access: Option<&'static str>,
    /// Marks it as a decision that was taken before anything ran.
    pub enforcement: Option<Enforcement>,
}

impl Refusal {
    /// A refusal by `source`, taken before anything ran.
    pub fn new(source: &'static str, outcome: &'static str, words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            outcome,
            access: None,
            enforcement: Some(Enforcement {
                source,
                decision: EnforcementDecision::Deny,
                phase: "pre_execution",
            }),
        }
    }

    /// The same refusal with the access gate's label.
    #[must_use]
    pub fn labelled(mut self, access: &'static str) -> Self {
        self.access = Some(access);
        self
    }
}

/// Decides about calls that would run next.
#[async_trait]
pub trait CallGuard: Send + Sync + fmt::Debug {
    /// Whether `call` may run. The future is dropped when the turn is stopped; what it showed to a
    /// person is to be taken back then.
    async fn rule(&self, call: GuardedCall<'_>) -> Ruling;
}

/// A command that a call would run, as the owner is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPreview {
    /// What would run.
    pub command: CommandText,
    /// The folder the caller asked for; `None` means the turn's own.
    pub working_dir: Option<String>,
    /// Variables it cannot work without.
    pub required_env: Vec<String>,
}

/// A command as it is handed to the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandText {
    /// A script for `sh -c`.
    Script(String),
    /// A program with its arguments; no shell reads them.
    Argv(Vec<String>),
}
