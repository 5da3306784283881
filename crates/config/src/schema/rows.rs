//! The rows of the table, a file for each group of sections, in the order of the reference.

mod agent;
mod commands;
mod models;
mod providers;
mod reach;

use super::kind::Kind;
use super::{KeyDoc, Setter};
use crate::providers::ProviderId;

pub(super) static GROUPS: [&[KeyDoc]; 5] = [
    agent::ROWS,
    providers::ROWS,
    models::ROWS,
    reach::ROWS,
    commands::ROWS,
];

const UNSET: &str = "unset";
const ANY_COUNT: u64 = i64::MAX as u64;
const EFFORTS: Kind = choice(&["none", "low", "medium", "high", "xhigh", "max"]);
const PROVIDERS: Kind = choice(&ProviderId::NAMES);
const MODEL_ID: Kind = Kind::Line { max: 200 };
const TOKENS: Kind = Kind::Count {
    min: 1,
    max: ANY_COUNT,
};

const fn choice(accepted: &'static [&'static str]) -> Kind {
    Kind::Choice {
        accepted,
        retired: &[],
    }
}

/// A list whose entries are of a closed list.
const fn choices(accepted: &'static [&'static str]) -> Kind {
    Kind::Choices { accepted }
}

const fn row(
    path: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
    set: Setter,
) -> KeyDoc {
    KeyDoc {
        path,
        kind,
        default,
        doc,
        variable: None,
        alias_of: None,
        set,
    }
}

impl KeyDoc {
    const fn or_variable(mut self, name: &'static str) -> Self {
        self.variable = Some(name);
        self
    }

    const fn same_as(mut self, path: &'static str) -> Self {
        self.alias_of = Some(path);
        self
    }
}

/// The name that stands where the path has a part in angle brackets.
fn first(names: &[String]) -> String {
    names.first().cloned().unwrap_or_default()
}
