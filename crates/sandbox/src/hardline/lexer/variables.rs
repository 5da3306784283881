//! What a script says its variables hold: `x=/`, `for x in / ~`.

use std::collections::HashMap;

use super::{CLOSE, COMMA, OPEN, UNKNOWN, Word};
use crate::hardline::rules::{is_assignment, is_keyword};

/// The most variables that are kept, and the longest value, in bytes.
const MAX_VARIABLES: usize = 32;
const MAX_VALUE: usize = 512;
/// The most values of a loop that are kept.
const MAX_CHOICES: usize = 16;

/// Variables by name, and where in a command the reading stands.
#[derive(Clone, Debug, Default)]
pub(in crate::hardline) struct Variables {
    values: HashMap<String, String>,
    stage: Stage,
}

#[derive(Clone, Debug, Default)]
enum Stage {
    /// Where assignments may stand.
    #[default]
    Start,
    /// Behind the command's name.
    Arguments,
    /// Behind `read`, whose arguments are names.
    Names,
    /// Behind `for`.
    LoopName,
    /// Behind `for NAME`.
    LoopIn(String),
    /// Behind `for NAME in`.
    LoopValues(String, Vec<String>),
}

impl Variables {
    /// What the script says the variable holds; a loop's variable holds alternatives in braces.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Takes note of what was one word before its expansion.
    pub(super) fn see(&mut self, words: &[Word]) {
        let Some(first) = words.first() else { return };
        match &mut self.stage {
            Stage::Start => self.begin(first, words),
            Stage::Arguments => {}
            Stage::Names => {
                if !first.text.starts_with('-') {
                    self.set(first.text.clone(), UNKNOWN.to_string());
                }
            }
            Stage::LoopName => self.stage = Stage::LoopIn(first.text.clone()),
            Stage::LoopIn(name) => {
                self.stage = if first.text == "in" {
                    Stage::LoopValues(std::mem::take(name), Vec::new())
                } else {
                    Stage::Arguments
                };
            }
            Stage::LoopValues(_, values) => {
                let room = MAX_CHOICES.saturating_sub(values.len());
                values.extend(words.iter().take(room).map(|word| word.text.clone()));
            }
        }
    }

    fn begin(&mut self, first: &Word, words: &[Word]) {
        if is_assignment(&first.text) {
            let name = first.text.split('=').next().unwrap_or_default().to_owned();
            let values = words.iter().filter_map(|word| word.text.split_once('='));
            let values: Vec<String> = values.map(|(_, value)| value.to_owned()).collect();
            self.set(name, choice(&values));
            return;
        }
        self.stage = match first.text.as_str() {
            "for" | "select" => Stage::LoopName,
            "read" | "mapfile" | "readarray" | "unset" => Stage::Names,
            "export" | "readonly" | "local" | "declare" | "typeset" => Stage::Start,
            word if word.starts_with('-') || is_keyword(word) => Stage::Start,
            _ => Stage::Arguments,
        };
    }

    /// Takes note of an operator or the end of a line.
    pub(super) fn end_command(&mut self) {
        if let Stage::LoopValues(name, values) = std::mem::take(&mut self.stage) {
            self.set(name, choice(&values));
        }
    }

    fn set(&mut self, name: String, value: String) {
        // An empty variable is nearly always one that something fills later.
        let is_usable = !value.is_empty() && value.len() <= MAX_VALUE;
        let value = if is_usable {
            value
        } else {
            UNKNOWN.to_string()
        };
        if self.values.len() < MAX_VARIABLES || self.values.contains_key(&name) {
            self.values.insert(name, value);
        }
    }
}

/// One value that stands for each of several.
fn choice(values: &[String]) -> String {
    match values {
        [] => String::new(),
        [value] => value.clone(),
        several => format!(
            "{OPEN}{}{CLOSE}",
            several.join(COMMA.encode_utf8(&mut [0; 4]))
        ),
    }
}
