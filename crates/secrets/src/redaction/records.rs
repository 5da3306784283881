//! Records that follow one another: a private key that was logged line by line.
//!
//! Each record is redacted on its own first. What is left is a key whose first line is in one
//! record and whose body is in those behind it: no line of the body looks like anything.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use regex::Regex;

use super::Redactor;

/// A key has fewer lines, and what never ends was no key.
const MAX_RECORDS: u32 = 512;
/// So many records without a line of a key, and it is over.
const MAX_OTHERS: u32 = 8;

/// Redacts the records of one sink, in their order.
pub struct RecordRedactor {
    redactor: Arc<Redactor>,
    open: Option<Open>,
}

/// A key has begun and not ended.
struct Open {
    records: u32,
    /// Records in a row that held no line of it.
    others: u32,
}

struct Patterns {
    begin: Regex,
    end: Regex,
    /// A line of a body, or its shorter last one.
    piece: Regex,
    line: Regex,
}

fn patterns() -> &'static Patterns {
    static PATTERNS: OnceLock<Patterns> = OnceLock::new();
    let pattern = |text: &str| Regex::new(text).expect("a constant, and a test uses each");
    PATTERNS.get_or_init(|| Patterns {
        begin: pattern("BEGIN [A-Z0-9 ]*PRIVATE KEY"),
        end: pattern("END [A-Z0-9 ]*PRIVATE KEY"),
        piece: pattern("[A-Za-z0-9+/=]{8,}"),
        line: pattern("[A-Za-z0-9+/=]{32,}"),
    })
}

impl RecordRedactor {
    /// A sink that has no records yet.
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor,
            open: None,
        }
    }

    /// `record` without secrets.
    pub fn redact(&mut self, record: &str) -> String {
        let clean = self.redactor.redact(record);
        // Nearly every record, so that it costs nothing more.
        if self.open.is_none() && !record.contains("PRIVATE KEY") {
            return clean.into_owned();
        }
        let patterns = patterns();
        let clean = match &mut self.open {
            None => clean,
            Some(open) => {
                open.records += 1;
                open.others = match patterns.line.is_match(record) {
                    true => 0,
                    false => open.others + 1,
                };
                let is_over = open.records > MAX_RECORDS || open.others > MAX_OTHERS;
                if is_over {
                    self.open = None;
                    clean
                } else {
                    let pieces = patterns
                        .piece
                        .replace_all(&clean, "[REDACTED:private-key]")
                        .into_owned();
                    Cow::Owned(pieces)
                }
            }
        };
        let last = |pattern: &Regex| pattern.find_iter(record).last().map(|found| found.start());
        match (last(&patterns.begin), last(&patterns.end)) {
            (Some(begin), end) if end.is_none_or(|end| end < begin) => {
                self.open = Some(Open {
                    records: 0,
                    others: 0,
                });
            }
            (_, Some(_)) => self.open = None,
            (_, None) => {}
        }
        clean.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sink() -> RecordRedactor {
        RecordRedactor::new(Arc::new(Redactor::new()))
    }

    #[test]
    fn a_key_logged_line_by_line_leaves_nothing() {
        let config = ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let lines = proptest::collection::vec("[A-Za-z0-9+/]{64}", 1..8);
        proptest!(config, |(lines in lines, last in "[A-Za-z0-9+/]{8,60}={0,2}", as_json in any::<bool>())| {
            let mut sink = sink();
            let mut all = vec!["-----BEGIN RSA PRIVATE KEY-----".to_owned()];
            all.extend(lines.iter().cloned());
            all.push(last.clone());
            all.push("-----END RSA PRIVATE KEY-----".to_owned());
            let mut written = String::new();
            for line in &all {
                let record = match as_json {
                    true => serde_json::json!({ "message": line }).to_string(),
                    false => format!("WARN a tool said: {line}\n"),
                };
                let clean = sink.redact(&record);
                prop_assert!(!as_json || serde_json::from_str::<serde_json::Value>(&clean).is_ok(), "{clean}");
                written.push_str(&clean);
            }
            for line in lines.iter().chain([&last]) {
                prop_assert!(!written.contains(line.trim_end_matches('=')), "{written}");
            }
            let after = "INFO the next record stays as it is\n";
            prop_assert_eq!(sink.redact(after), after);
        });
    }

    #[test]
    fn a_key_that_never_ends_does_not_take_the_log_with_it() {
        let mut sink = sink();
        sink.redact("a header: BEGIN PRIVATE KEY");
        let ordinary = "WARN connection refused by the server";
        let kept = (0..20)
            .filter(|_| sink.redact(ordinary) == ordinary)
            .count();
        assert_eq!(kept, 12);
    }
}
