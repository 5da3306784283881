//! Notices a model that repeats one call, tells it, and in the end stops it.
//!
//! Two calls are the same when their signatures are: the tool's name and its arguments with keys
//! sorted. Only an unbroken run of the same call is refused or ends the turn. Alternating an action
//! with a look at its effect is what many tools ask for, so repetition inside the window is only
//! remarked on.

use std::collections::{HashMap, HashSet, VecDeque};

use fermix_types::text;
use sha2::{Digest as _, Sha256};

/// How many of the latest calls are looked at for a warning.
const WINDOW: usize = 10;
/// The same call this often within the window is remarked on, once per signature.
const WARN_AT: usize = 3;
/// The same call this often without another between is answered without running it.
const DECLINE_AT: usize = 4;
/// The same call this often without another between ends the turn.
const KILL_AT: usize = 5;
/// How much of the previous result a declined call is reminded of, in bytes.
const REMINDER_BYTES: usize = 600;
/// How many lines of the previous result a declined call is reminded of.
const REMINDER_LINES: usize = 6;
/// How many signatures keep their last result. More than the window can need.
const MAX_REMEMBERED: usize = 32;

/// What to do with one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Run it.
    Run,
    /// Run it and append these words to its result.
    RunWithWarning(String),
    /// Answer with these words instead of running it.
    Decline(String),
    /// End the turn; these words answer the call.
    Kill(String),
}

type Digest256 = [u8; 32];

/// What the guard knows a call by. Arguments can be large, so they are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    signature: Digest256,
    is_poll: bool,
}

impl CallKey {
    /// The key of a call of `name` with the dispatcher's `signature`.
    pub(crate) fn new(name: &str, signature: &str) -> Self {
        Self {
            signature: Sha256::digest(signature).into(),
            is_poll: is_poll(name, signature),
        }
    }
}

/// The last result of a call: enough to see a change and to remind the model.
#[derive(Debug)]
struct LastResult {
    hash: Digest256,
    beginning: String,
}

/// The calls of one turn, as far as the guard remembers them.
#[derive(Debug, Default)]
pub(crate) struct LoopGuard {
    recent: VecDeque<CallKey>,
    unbroken: usize,
    warned: HashSet<CallKey>,
    results: HashMap<CallKey, LastResult>,
    order: VecDeque<CallKey>,
}

impl LoopGuard {
    /// Judges the next call, in the order the model made them.
    pub(crate) fn judge(&mut self, name: &str, key: CallKey) -> Verdict {
        self.unbroken = if self.recent.back() == Some(&key) {
            self.unbroken + 1
        } else {
            1
        };
        self.recent.push_back(key);
        if self.recent.len() > WINDOW {
            self.recent.pop_front();
        }
        if self.unbroken >= KILL_AT {
            return Verdict::Kill(format!(
                "Repeated tool call loop detected: `{name}` was called {} times in a row with the same arguments",
                self.unbroken
            ));
        }
        if self.unbroken >= DECLINE_AT {
            return Verdict::Decline(self.reminder(name, key));
        }
        let seen = self.recent.iter().filter(|call| **call == key).count();
        if seen >= WARN_AT && self.warned.insert(key) {
            return Verdict::RunWithWarning(format!(
                "Loop warning: this is call {seen} of `{name}` with identical arguments. Use the result you have, \
                 change the arguments, or answer; further repeats are not run."
            ));
        }
        Verdict::Run
    }

    /// Takes note of what a call that ran gave back. A poll whose answer changed is progress, so
    /// its count starts again.
    pub(crate) fn ran(&mut self, key: CallKey, result: &str) {
        let result = LastResult {
            hash: Sha256::digest(result).into(),
            beginning: beginning(result),
        };
        let before = self.results.get(&key);
        let changed = before.is_some_and(|before| before.hash != result.hash);
        if changed && key.is_poll {
            let was_last = self.recent.back() == Some(&key);
            self.recent.retain(|call| *call != key);
            self.warned.remove(&key);
            if was_last {
                // The poll itself stays, as the first of a new run.
                self.recent.push_back(key);
                self.unbroken = 1;
            }
        }
        if self.results.insert(key, result).is_none() {
            self.order.push_back(key);
            if self.order.len() > MAX_REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.results.remove(&oldest);
            }
        }
    }

    fn reminder(&self, name: &str, key: CallKey) -> String {
        let mut words = format!(
            "not run: `{name}` was just called {} times in a row with these exact arguments. Once more and the turn \
             ends. Use what you have, change the arguments, or answer now.",
            self.unbroken
        );
        if let Some(before) = self.results.get(&key) {
            words.push_str("\nThe previous result began:\n");
            words.push_str(&before.beginning);
        }
        words
    }
}

fn beginning(result: &str) -> String {
    let lines: Vec<&str> = text::prefix(result, REMINDER_BYTES + 1)
        .lines()
        .take(REMINDER_LINES)
        .collect();
    text::shortened(&lines.join("\n"), REMINDER_BYTES)
}

/// Tools that are meant to be asked again until their answer changes.
fn is_poll(name: &str, signature: &str) -> bool {
    match name {
        "get_job_run" | "get_coding_run" => true,
        "browser" => {
            signature.contains(r#""action":"wait""#) || signature.contains(r#""action":"snapshot""#)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges calls of (name, signature, result) in turn. Gives back one letter a verdict: r(un),
    /// w(arn), d(ecline), k(ill).
    fn verdicts(calls: &[(&str, &str, &str)]) -> String {
        let mut guard = LoopGuard::default();
        let mut judged = String::new();
        for (name, signature, result) in calls {
            let key = CallKey::new(name, signature);
            judged.push(match guard.judge(name, key) {
                Verdict::Run => 'r',
                Verdict::RunWithWarning(_) => 'w',
                Verdict::Decline(_) => 'd',
                Verdict::Kill(_) => 'k',
            });
            if judged.ends_with(['r', 'w']) {
                guard.ran(key, result);
            }
        }
        judged
    }

    #[test]
    fn runs_are_warned_declined_and_killed() {
        let same = [("t", "t{}", "x"); 5];
        assert_eq!(verdicts(&same), "rrwdk");

        let alternating: Vec<_> = (0..20)
            .map(|i| {
                if i % 2 == 0 {
                    ("a", "a", "x")
                } else {
                    ("b", "b", "y")
                }
            })
            .collect();
        let alternated = verdicts(&alternating);
        assert_eq!(alternated.matches('w').count(), 2, "{alternated}");
        assert!(!alternated.contains(['d', 'k']), "{alternated}");

        let broken = [
            ("a", "a", "x"),
            ("a", "a", "x"),
            ("a", "a", "x"),
            ("b", "b", "y"),
            ("a", "a", "x"),
            ("a", "a", "x"),
            ("a", "a", "x"),
            ("a", "a", "x"),
        ];
        assert_eq!(verdicts(&broken), "rrwrrrrd");
    }

    #[test]
    fn polls_whose_answer_changes_may_go_on() {
        let answers: Vec<String> = (0..12).map(|i| format!("{i}%")).collect();
        let moving: Vec<_> = answers
            .iter()
            .map(|answer| ("get_job_run", "get_job_run{}", answer.as_str()))
            .collect();
        assert_eq!(verdicts(&moving), "r".repeat(12));
        assert_eq!(verdicts(&[("get_job_run", "g", "5%"); 5]), "rrwdk");
        let reads: Vec<_> = answers
            .iter()
            .take(5)
            .map(|answer| ("file_read", "f", answer.as_str()))
            .collect();
        assert_eq!(verdicts(&reads), "rrwdk");
    }

    #[test]
    fn a_declined_call_is_reminded_of_the_result() {
        let mut guard = LoopGuard::default();
        let key = CallKey::new("t", "t");
        for _ in 0..3 {
            guard.judge("t", key);
            guard.ran(key, "first line\nsecond");
        }
        let Verdict::Decline(words) = guard.judge("t", key) else {
            panic!("the fourth is declined")
        };
        assert!(words.contains("first line\nsecond"), "{words}");
    }
}
