//! Requests typed the way a shell wants them.
//!
//! What this assistant can do itself it does: a plain `grep`, `head` and `tail`. Everything else
//! that looks like a command is run only when it is quoted, and the answer says how.

use super::search::Search;
use super::{Intent, Lines, Report, Target, change};
use crate::offline::values::is_path;
use crate::offline::words::{Word, spoken};

/// Names of programs that are no English requests.
const PROGRAMS: [&str; 46] = [
    "echo",
    "diff",
    "git",
    "cargo",
    "npm",
    "npx",
    "yarn",
    "pip",
    "pip3",
    "python",
    "python3",
    "node",
    "docker",
    "pwd",
    "whoami",
    "cd",
    "sudo",
    "curl",
    "wget",
    "chmod",
    "chown",
    "mkdir",
    "rmdir",
    "cp",
    "mv",
    "df",
    "du",
    "ps",
    "wc",
    "sed",
    "awk",
    "ssh",
    "scp",
    "tar",
    "zip",
    "unzip",
    "ping",
    "uname",
    "hostname",
    "systemctl",
    "apt",
    "brew",
    "rustc",
    "gcc",
    "ln",
    "ifconfig",
];
/// Programs whose names are also plain words; they count only with an option.
const AMBIGUOUS: [&str; 14] = [
    "ls", "find", "cat", "grep", "rg", "egrep", "make", "touch", "sort", "date", "tree", "which",
    "kill", "dir",
];

/// The command a clause is, or what it does when that needs no command.
pub(super) fn read(words: &[Word]) -> Option<Intent> {
    let first = &words[0];
    if first.is_one_of(&["head", "tail"])
        && let Some(intent) = end_of_file(words)
    {
        return Some(intent);
    }
    if first.is_one_of(&["grep", "rg", "egrep"])
        && let Some(search) = grep(words)
    {
        return Some(Intent::Search(search));
    }
    if words[0].is("what")
        && words.len() <= 6
        && words[1..].iter().all(|word| {
            word.is_one_of(&[
                "time", "date", "day", "is", "it", "the", "today", "current", "now",
            ])
        })
        && words[1..]
            .iter()
            .any(|word| word.is_one_of(&["time", "date", "day"]))
    {
        return Some(Intent::Declined(
            "No tool of mine tells that. A quoted command does: run `date`".to_owned(),
        ));
    }
    // What one program passes to the next, or writes to a file.
    let is_joined = words[1..].iter().any(|word| {
        !word.is_quoted() && matches!(word.text.as_str(), "|" | ">" | ">>" | "<" | "&&")
    });
    let has_option = is_joined || words[1..].iter().any(is_option);
    let is_command = first.is_one_of(&PROGRAMS)
        || (first.is_one_of(&AMBIGUOUS) && has_option)
        || (words.len() == 1 && first.is_one_of(&["date", "make", "tree", "env"]));
    if is_command {
        return Some(quote_it(words));
    }
    (first.is("rm") && words.len() > 1)
        .then(|| change::command_instead(words, "delete files", "rm"))
        .flatten()
}

/// How to have the command run.
fn quote_it(words: &[Word]) -> Intent {
    let command = spoken(words);
    let form = if command.contains('`') {
        "run `ls -la`".to_owned()
    } else {
        format!("run `{command}`")
    };
    Intent::Declined(format!(
        "That looks like a command. I run one only when it is quoted: {form}"
    ))
}

fn is_option(word: &Word) -> bool {
    !word.is_quoted()
        && word.text.starts_with('-')
        && word
            .text
            .trim_start_matches('-')
            .starts_with(|each: char| each.is_ascii_alphanumeric())
}

/// `head -5 notes.txt`, `tail -n 5 notes.txt`.
fn end_of_file(words: &[Word]) -> Option<Intent> {
    let (number, path) = match words {
        [_, number, path] => (number, path),
        [_, option, number, path] if option.is("-n") => (number, path),
        _ => return None,
    };
    let number: u64 = number.text.trim_start_matches('-').parse().ok()?;
    let fits = (1..=10_000_000).contains(&number) && (path.is_quoted() || is_path(&path.text));
    fits.then(|| Intent::Read {
        targets: vec![Target::Path(path.text.clone())],
        lines: if words[0].is("head") {
            Lines::From(1, Some(number))
        } else {
            Lines::Last(number)
        },
        left_over: String::new(),
        needs_judgement: false,
    })
}

/// `grep [-rnilcw] TEXT [PLACE]`; nothing for what a search cannot do the same way.
fn grep(words: &[Word]) -> Option<Search> {
    let mut ignore_case = false;
    let mut whole_words = false;
    let mut extended = words[0].is("egrep") || words[0].is("rg");
    let mut fixed = false;
    let mut report = Report::Lines;
    let options = words[1..].iter().take_while(|word| is_option(word)).count();
    for option in &words[1..=options] {
        for letter in option.text.trim_start_matches('-').chars() {
            match letter {
                'r' | 'R' | 'n' | 'H' | 's' => {}
                'i' => ignore_case = true,
                'w' => whole_words = true,
                'E' => extended = true,
                'F' => fixed = true,
                'l' => report = Report::Files,
                'c' => report = Report::Count,
                _ => return None,
            }
        }
    }
    let (text, path) = match &words[1 + options..] {
        [text] if options > 0 => (text, None),
        [text, path]
            if (options > 0 && !path.is_quoted())
                || is_path(&path.text)
                || path.text.ends_with('/') =>
        {
            (text, Some(path.text.as_str()))
        }
        _ => return None,
    };
    // Alternatives and groups are written differently in each kind of expression.
    if text.text.is_empty() || (!extended && text.text.contains('\\')) {
        return None;
    }
    let special: &[char] = if extended {
        &['\\', '^', '$', '.', '*', '[', '+', '?', '|', '(', '{']
    } else {
        &['^', '$', '*', '[']
    };
    let mut regex = !fixed && options > 0 && text.text.contains(special);
    let mut pattern = text.text.clone();
    if whole_words {
        let inside = if regex {
            pattern
        } else {
            regex::escape(&pattern)
        };
        pattern = format!("\\b(?:{inside})\\b");
        regex = true;
    }
    Some(Search {
        regex,
        ignore_case,
        path: path.filter(|path| *path != ".").map(str::to_owned),
        report,
        all_files: true,
        ..Search::plain(&pattern)
    })
}
