//! Random files and random changes: everything that was not named stays, byte for byte.

use fermix_config::schema::{KeyDoc, keys};
use fermix_config::{ConfigFile, Shown};
use proptest::prelude::*;

use crate::support::TestHome;

/// A settable key with names filled in.
fn path_of(row: &KeyDoc) -> String {
    row.path()
        .replace("<model>", "\"a.b:c\"")
        .replace("<NAME>", "TOKEN")
        .replace("<command>", "git")
        .replace("<channel>", "discord")
        .replace("<command>", "git")
}

fn settable() -> Vec<&'static KeyDoc> {
    // Keys that another key can contradict are left to the table of refusals.
    let contradicted = ["primary", "source", "name", "reasoning_effort"];
    keys()
        .filter(|row| !row.secret() && row.alias_of().is_none())
        .filter(|row| {
            !contradicted
                .iter()
                .any(|ending| row.path().ends_with(ending))
        })
        .collect()
}

/// A file in one of three styles, with comments, blank lines and spacing of every kind.
fn any_file() -> impl Strategy<Value = String> {
    let entry = (
        0..settable().len(),
        0..3_usize,
        "[ a-z#=\\[\\]\"é]{0,12}",
        prop::bool::ANY,
    );
    (
        prop::collection::vec(entry, 0..8),
        prop::bool::ANY,
        prop::bool::ANY,
    )
        .prop_map(|(entries, crlf, finished)| {
            let rows = settable();
            let mut headed = String::new();
            let mut dotted = String::new();
            let mut seen: Vec<String> = Vec::new();
            for (index, style, comment, blank) in entries {
                let path = path_of(rows[index]);
                let value = toml_example(rows[index]);
                let (section, key) = path.rsplit_once('.').expect("every key is in a section");
                // Each section is written once, in one style; repeating it would not be TOML.
                if seen.iter().any(|other| overlaps(other, section)) {
                    continue;
                }
                seen.push(section.to_owned());
                let gap = if blank { "\n" } else { "" };
                match style {
                    0 => headed.push_str(&format!(
                        "# {comment}\n[{section}] #{comment}\n{gap}{key}={value}\n"
                    )),
                    1 => headed.push_str(&format!(
                        "{gap}[ {section} ]\n\t{key}\t=  {value}   # {comment}\n# {comment}\n"
                    )),
                    _ => {
                        dotted.push_str(&format!("{gap}#{comment}\n{path} = {value} #{comment}\n"));
                    }
                }
            }
            let text = dotted + &headed;
            let text = if finished {
                text
            } else {
                text.trim_end_matches('\n').to_owned()
            };
            if crlf {
                text.replace('\n', "\r\n")
            } else {
                text
            }
        })
}

fn overlaps(one: &str, other: &str) -> bool {
    let under = |long: &str, short: &str| {
        long.strip_prefix(short)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    under(one, other) || under(other, one)
}

fn toml_example(row: &KeyDoc) -> String {
    let takes_example = ["boolean", "some of a list"].contains(&row.type_text().as_str());
    if row.accepted().is_empty() || takes_example {
        row.example().to_owned()
    } else {
        format!("\"{}\"", row.example())
    }
}

/// The lines that are not blank, in order, without their line ends.
fn lines(text: &str) -> Vec<&str> {
    text.lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn set_and_unset_leave_every_other_byte(text in any_file(), index in 0..settable().len()) {
        let test = TestHome::with_file(&text);
        let row = settable()[index];
        let key = path_of(row);
        let mut file = test.open();
        let before = file.config().map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        let had = file.get(&key).unwrap();

        file.set(&key, row.example()).map_err(|error| TestCaseError::fail(format!("{key}\n{text}\n{error}")))?;
        let is_set = matches!(file.get(&key), Ok(Shown::Value(_)));
        prop_assert!(is_set);
        file.save().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let with_key = test.read();

        let mut again = ConfigFile::open(&test.home).unwrap();
        prop_assert!(again.unset(&key).unwrap());
        again.save().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let without_key = test.read();

        match had {
            // The key was new: what was there stays in one piece or around one new piece, and
            // comes back whole when the key is removed.
            Shown::Default(_) => {
                let common = text.bytes().zip(with_key.bytes()).take_while(|(a, b)| a == b).count();
                prop_assert!(with_key.as_bytes().ends_with(&text.as_bytes()[common..]), "{text:?}\n{with_key:?}");
                prop_assert_eq!(lines(&without_key), lines(&text));
                prop_assert_eq!(without_key.trim_end(), text.trim_end());
                prop_assert_eq!(again.config().unwrap().agent, before.agent);
            }
            // The key was there with the same value, perhaps written differently; setting it
            // changed at most its value, and removing it at most its line.
            _ => {
                let value = toml_example(row);
                prop_assert_eq!(&with_key, &text);
                let removed: Vec<&str> = lines(&text).into_iter().filter(|line| !lines(&without_key).contains(line)).collect();
                prop_assert!(removed.len() <= 1 && removed.iter().all(|line| line.contains(&value)), "{removed:?}");
                let comments = |text: &str| text.matches('#').count();
                let in_value = value.matches('#').count();
                prop_assert_eq!(comments(&without_key) + in_value, comments(&text));
            }
        }
    }

    #[test]
    fn any_text_is_answered_without_panic(text in "\\PC{0,200}", key in "\\PC{0,40}", value in "\\PC{0,40}") {
        let test = TestHome::with_file(&text);
        let loaded = test.load();
        if let Ok(mut file) = ConfigFile::open(&test.home) {
            let _ = file.get(&key);
            let _ = file.set(&key, &value);
            let _ = file.unset(&key);
            prop_assert_eq!(file.text(), &text, "no random key exists");
        } else {
            prop_assert!(loaded.is_err());
        }
    }
}
