//! What a command prints, for the command after the pipe.

use super::find::Search;
use super::is_keyword;
use crate::hardline::Simple;
use crate::hardline::lexer::GLOB;

/// The most rounds in which `printf` uses its format again.
const MAX_ROUNDS: usize = 16;

/// What `command` would print, where that can be told.
pub(in crate::hardline) fn printed(command: &Simple) -> Option<String> {
    let mut words = command
        .words
        .iter()
        .skip_while(|word| !word.is_quoted && is_keyword(&word.text))
        .map(|word| word.text.as_str());
    let name = words.next()?;
    let args: Vec<&str> = words.collect();
    let operands = || -> Vec<&str> {
        let is_operand = |arg: &&&str| !arg.starts_with('-');
        args.iter().filter(is_operand).copied().collect()
    };
    match name.rsplit('/').next().unwrap_or(name) {
        "echo" => {
            let is_option = |arg: &&&str| {
                arg.strip_prefix('-').is_some_and(|letters| {
                    !letters.is_empty() && letters.chars().all(|letter| "neE".contains(letter))
                })
            };
            let text: Vec<&str> = args.iter().skip_while(is_option).copied().collect();
            Some(unescaped(&text.join(" ")))
        }
        "printf" => {
            let args = args.strip_prefix(&["--"]).unwrap_or(&args);
            let (format, values) = args.split_first()?;
            Some(formatted(format, values))
        }
        "yes" => Some(args.join(" ")),
        "cat" | "tee" if name == "tee" || operands().is_empty() => command.input.clone(),
        // The names alone, of which only the folder's says how bad it is.
        "ls" => {
            let folders = operands();
            let all: Vec<String> = folders
                .iter()
                .map(|folder| format!("{folder}/{GLOB}"))
                .collect();
            Some(if all.is_empty() {
                GLOB.to_string()
            } else {
                all.join("\n")
            })
        }
        "find" => Some(Search::new(&args).finds().join("\n")),
        _ => None,
    }
}

fn formatted(format: &str, values: &[&str]) -> String {
    let mut text = String::new();
    let mut values = values.iter();
    for _ in 0..MAX_ROUNDS {
        let mut letters = format.chars().peekable();
        let mut has_used = false;
        while let Some(letter) = letters.next() {
            match (letter, letters.peek()) {
                ('%', Some('s' | 'b' | 'q' | 'd' | 'i')) => {
                    letters.next();
                    text.push_str(values.next().copied().unwrap_or_default());
                    has_used = true;
                }
                ('%', Some('%')) => {
                    letters.next();
                    text.push('%');
                }
                (other, _) => text.push(other),
            }
        }
        if !has_used || values.len() == 0 {
            break;
        }
    }
    unescaped(&text)
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\0", "\n")
}
