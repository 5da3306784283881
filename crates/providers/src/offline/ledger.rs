//! What was called in this turn and what came back.
//!
//! The answer to a request is worked out from the beginning each time. Whoever needs a result asks
//! for the call; when it was made before, the result is there, and when not, the work stops and
//! the call is made. So no call is made twice, and a turn ends because each round adds a call or
//! is the last.

use serde_json::{Map, Value};

/// A call that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    /// JSON text; the same arguments are always the same text.
    pub(super) arguments: String,
}

impl Call {
    pub(super) fn new(name: &str, arguments: Map<String, Value>) -> Self {
        Self {
            name: name.to_owned(),
            arguments: Value::Object(arguments).to_string(),
        }
    }
}

/// A call that was made, with its result.
#[derive(Clone, Debug)]
pub(super) struct Record<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
    pub(super) text: &'a str,
    pub(super) is_error: bool,
}

/// The work stops here until these calls were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending(pub(super) Vec<Call>);

/// The calls of the turn so far.
pub(super) struct Ledger<'a> {
    records: Vec<Record<'a>>,
    /// Results before this one are out of date: something was changed since.
    valid_from: usize,
    last_used: usize,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(records: Vec<Record<'a>>) -> Self {
        Self {
            records,
            valid_from: 0,
            last_used: 0,
        }
    }

    /// The result of `call`.
    pub(super) fn ask(&mut self, call: Call) -> Result<Record<'a>, Pending> {
        let known = self.records[self.valid_from..]
            .iter()
            .position(|record| record.name == call.name && record.arguments == call.arguments);
        let Some(place) = known else {
            return Err(Pending(vec![call]));
        };
        self.last_used = self.last_used.max(self.valid_from + place);
        Ok(self.records[self.valid_from + place].clone())
    }

    /// The results of all `calls`, which are made at the same time.
    pub(super) fn ask_all(&mut self, calls: Vec<Call>) -> Result<Vec<Record<'a>>, Pending> {
        let mut results = Vec::with_capacity(calls.len());
        let mut pending = Vec::new();
        for call in calls {
            match self.ask(call) {
                Ok(record) => results.push(record),
                Err(Pending(calls)) => pending.extend(calls),
            }
        }
        if pending.is_empty() {
            Ok(results)
        } else {
            Err(Pending(pending))
        }
    }

    /// Something was changed by the calls used so far, so that what was read before them has to be
    /// read again.
    pub(super) fn has_changed_things(&mut self) {
        self.valid_from = (self.last_used + 1).min(self.records.len());
    }
}
