//! What must hold of every request, whatever the test is about.

mod content;
mod pairing;
mod prefix;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::request::Seen;
use crate::wire::Issued;

/// At most this many broken rules are kept; a test that breaks more has failed long before.
const MAX_VIOLATIONS: usize = 200;

/// At most this many different tool lists are remembered as checked.
const MAX_KNOWN_TOOL_LISTS: usize = 256;

/// One kind of promise that a request keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The path is served, the body is a JSON object with `model`, messages and `stream: true`.
    Body,
    /// Parameters that the wire demands or refuses.
    Parameters,
    /// Each result follows its call, each call has its result.
    Pairing,
    /// Call ids are present and unique.
    CallIds,
    /// Tool names are legal and unique, and each tool has the form of the wire.
    ToolNames,
    /// Tool schemas are valid objects that refer only to themselves.
    Schemas,
    /// Text blocks are not empty where the wire refuses that.
    EmptyText,
    /// At most four cache marks.
    CacheControl,
    /// Assistant messages say or do something.
    BlankAssistant,
    /// What must come back verbatim did.
    Replay,
    /// The tool list of a conversation stays byte-identical.
    StableTools,
    /// The system text of a conversation stays byte-identical, but for dates between turns.
    StableSystem,
    /// Inside a turn the earlier messages stay byte-identical.
    StableMessages,
    /// Inside a turn the earlier messages stay as many, in their order, and the same but for the
    /// texts of results: what holds even where results are shortened.
    StableItems,
    /// Between turns the texts of earlier turns stay byte-identical.
    StableHistory,
    /// The script has an answer.
    Script,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 16] = [
        Self::Body,
        Self::Parameters,
        Self::Pairing,
        Self::CallIds,
        Self::ToolNames,
        Self::Schemas,
        Self::EmptyText,
        Self::CacheControl,
        Self::BlankAssistant,
        Self::Replay,
        Self::StableTools,
        Self::StableSystem,
        Self::StableMessages,
        Self::StableItems,
        Self::StableHistory,
        Self::Script,
    ];
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the request, from 0.
    pub request: usize,
    /// The rule.
    pub rule: Rule,
    /// Where and how.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "request {}: {:?}: {}",
            self.request, self.rule, self.detail
        )
    }
}

/// Which rules are enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks(BTreeSet<Rule>);

impl Checks {
    /// Every rule; what a test wants unless it has a reason.
    pub fn all() -> Self {
        Self(Rule::ALL.into())
    }

    /// No rule, for timing. A script that runs out is still reported.
    pub fn none() -> Self {
        Self([Rule::Script].into())
    }

    /// Leaves one rule out, for a test that breaks it on purpose.
    #[must_use]
    pub fn without(mut self, rule: Rule) -> Self {
        self.0.remove(&rule);
        self
    }

    /// Leaves out the stability of the prefix, for a test that changes tools, memory or history
    /// on purpose.
    #[must_use]
    pub fn without_stable_prefix(self) -> Self {
        self.without(Rule::StableTools)
            .without(Rule::StableSystem)
            .without(Rule::StableMessages)
            .without(Rule::StableItems)
            .without(Rule::StableHistory)
    }

    /// Leaves out what a turn breaks on purpose when it shortens results to hold its budget: their
    /// texts change, and a tool that reads the originals joins the list.
    #[must_use]
    pub fn for_shortened_results(self) -> Self {
        self.without(Rule::StableTools)
            .without(Rule::StableMessages)
    }

    fn contains(&self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|rule| *rule == Rule::Script)
    }
}

/// A broken rule before it is known which request broke it.
type Finding = (Rule, String);

/// Examines requests in the order they arrive and remembers what it needs for the next.
pub(crate) struct Guard {
    checks: Checks,
    conversations: prefix::Conversations,
    known_tool_lists: BTreeSet<String>,
    /// Signature of the thinking block that came with a call, by call id.
    signatures: BTreeMap<String, String>,
    violations: Vec<Violation>,
}

impl Guard {
    pub(crate) fn new(checks: Checks) -> Self {
        Self {
            checks,
            conversations: prefix::Conversations::default(),
            known_tool_lists: BTreeSet::new(),
            signatures: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    pub(crate) fn examine(&mut self, seen: &Seen) {
        if self.checks.is_empty() {
            return;
        }
        let mut findings = content::body(seen);
        findings.extend(content::parameters(seen));
        findings.extend(content::blocks(seen));
        findings.extend(pairing::check(seen.wire, &seen.body));
        findings.extend(pairing::replay(seen, &self.signatures));
        let tools = prefix::raw_field(&seen.raw, "tools").unwrap_or_default();
        if !self.known_tool_lists.contains(&tools) {
            let found = tools::check(seen);
            if found.is_empty() && self.known_tool_lists.len() < MAX_KNOWN_TOOL_LISTS {
                self.known_tool_lists.insert(tools);
            }
            findings.extend(found);
        }
        findings.extend(self.conversations.check(seen));
        for (rule, detail) in findings {
            self.report(seen.number, rule, detail);
        }
    }

    pub(crate) fn issued(&mut self, issued: Issued) {
        if let Some(signature) = issued.signature {
            for id in issued.call_ids {
                self.signatures.insert(id, signature.clone());
            }
        }
    }

    pub(crate) fn report(&mut self, request: usize, rule: Rule, detail: String) {
        if self.checks.contains(rule) && self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(Violation {
                request,
                rule,
                detail,
            });
        }
    }

    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(crate) fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }
}
