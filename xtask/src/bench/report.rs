//! Numbers beside their budget, as a table or as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::machine::Machine;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Milliseconds.
    Millis,
    /// A quarter of the bytes.
    Tokens,
    /// Millions of bytes.
    Megabytes,
    /// 1,048,576 bytes each.
    Mebibytes,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Tokens => "tokens",
            Self::Megabytes => "MB",
            Self::Mebibytes => "MiB",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Millis => format!("{value:.2} ms"),
            Self::Tokens => format!("{value:.0} tokens"),
            Self::Megabytes => format!("{value:.1} MB"),
            Self::Mebibytes => format!("{value:.1} MiB"),
        }
    }
}

/// One measure.
pub(super) struct Row {
    name: &'static str,
    value: f64,
    unit: Unit,
    /// The largest value the design allows.
    budget: f64,
}

impl Row {
    pub(super) fn new(name: &'static str, value: f64, unit: Unit, budget: f64) -> Self {
        Self {
            name,
            value,
            unit,
            budget,
        }
    }

    fn is_met(&self) -> bool {
        self.value <= self.budget
    }
}

pub(super) fn table(machine: &Machine, runs: u16, rows: &[Row]) -> String {
    let load = machine
        .load
        .map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    let mut text = format!(
        "{}, {} cores, {}, load {load}; median of {runs} runs\n\n{:<30}{:>14}{:>16}\n",
        machine.processor, machine.cores, machine.system, "measure", "value", "budget"
    );
    for row in rows {
        let budget = format!("≤ {} {}", row.budget, row.unit.name());
        let verdict = if row.is_met() { "met" } else { "over" };
        writeln!(
            text,
            "{:<30}{:>14}{budget:>16}  {verdict}",
            row.name,
            row.unit.show(row.value)
        )
        .expect("a String takes everything");
    }
    text
}

pub(super) fn json(machine: &Machine, runs: u16, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name, "value": row.value, "unit": row.unit.name(),
                "budget": row.budget, "met": row.is_met(),
            })
        })
        .collect();
    json!({
        "machine": {
            "processor": machine.processor, "cores": machine.cores,
            "system": machine.system, "load": machine.load,
        },
        "runs": runs,
        "rows": rows,
    })
}
