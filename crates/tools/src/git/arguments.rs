//! The arguments of a call, taken apart by the tables and put together again.
//!
//! Git never sees the caller's own spelling of a flag. Each one is looked up by its exact name and
//! written anew, one flag and its value at a time, so that what was judged is what Git reads:
//! `-am x` becomes `-a`, `-m`, `x`, and an abbreviation, which a later Git could read in another way,
//! is refused.

use fermix_types::ToolError;

use super::grammar::{Form, Grammar, Operands, Rule};

/// The most arguments of one call, and the most bytes in all of them: half of what the smallest
/// system passes to a program.
const MAX_ARGUMENTS: usize = 2000;
const MAX_BYTES: usize = 120 * 1024;

/// One accepted flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) value: Option<String>,
}

/// Accepted arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) flags: Vec<Flag>,
    /// Before `--`.
    pub(super) operands: Vec<String>,
    /// After `--`; nothing when there was none.
    pub(super) paths: Option<Vec<String>>,
}

impl Arguments {
    /// Whether one of these flags was given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.flags.iter().any(|flag| names.contains(&flag.name))
    }

    /// The flags as Git is given them.
    pub(super) fn flag_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for Flag { name, value } in &self.flags {
            match value {
                None => words.push((*name).to_owned()),
                Some(value) if name.starts_with("--") => words.push(format!("{name}={value}")),
                // An empty value cannot be attached, and one that is attached cannot be empty.
                Some(value) if value.is_empty() => {
                    words.extend([(*name).to_owned(), String::new()]);
                }
                Some(value) => words.push(format!("{name}{value}")),
            }
        }
        words
    }

    /// What follows the flags and the operands.
    pub(super) fn path_words(&self) -> Vec<String> {
        match &self.paths {
            None => Vec::new(),
            Some(paths) => std::iter::once("--".to_owned())
                .chain(paths.iter().cloned())
                .collect(),
        }
    }
}

/// Takes `args` apart, or says which one is not accepted and what is.
pub(super) fn parse(grammar: &Grammar, args: &[String]) -> Result<Arguments, ToolError> {
    check_size(args)?;
    let mut parsed = Arguments::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if let Some(paths) = &mut parsed.paths {
            check_operand(grammar, arg)?;
            paths.push(arg.clone());
        } else if arg == "--" {
            if grammar.operands == Operands::None {
                return Err(branch_operand("--"));
            }
            if grammar.operands == Operands::Remote {
                return Err(refused(grammar, arg));
            }
            parsed.paths = Some(Vec::new());
        } else if arg.starts_with("--") {
            long(grammar, arg, &mut rest, &mut parsed)?;
        } else if arg.starts_with('-') && (arg.len() > 1 || !grammar.takes_dash) {
            short(grammar, arg, &mut rest, &mut parsed)?;
        } else {
            check_operand(grammar, arg)?;
            parsed.operands.push(arg.clone());
        }
    }
    Ok(parsed)
}

fn check_size(args: &[String]) -> Result<(), ToolError> {
    if args.iter().any(|arg| arg.contains('\0')) {
        return Err(ToolError::new(
            "invalid_args",
            "git args must be strings without null bytes",
        ));
    }
    let bytes: usize = args.iter().map(|arg| arg.len() + 1).sum();
    if args.len() > MAX_ARGUMENTS || bytes > MAX_BYTES {
        return Err(ToolError::new(
            "invalid_args",
            format!(
                "{} git args with {bytes} bytes are too many; the limits are {MAX_ARGUMENTS} and {MAX_BYTES}. Name folders instead of files",
                args.len()
            ),
        ));
    }
    Ok(())
}

fn long<'a>(
    grammar: &Grammar,
    arg: &str,
    rest: &mut impl Iterator<Item = &'a String>,
    parsed: &mut Arguments,
) -> Result<(), ToolError> {
    let (name, attached) = match arg.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (arg, None),
    };
    let (name, form) = known(grammar, name).ok_or_else(|| refused(grammar, name))?;
    let value = match (form, attached) {
        (Form::Switch, None) | (Form::Optional(_), None) => None,
        (Form::Switch, Some(_)) => {
            return Err(invalid(format!(
                "`{name}` of git {} takes no value",
                grammar.name
            )));
        }
        (Form::Optional(_) | Form::Required(_), Some(value)) => Some(value.to_owned()),
        (Form::Required(_), None) => Some(next(grammar, name, rest)?),
    };
    add(grammar, name, form, value, parsed)
}

fn short<'a>(
    grammar: &Grammar,
    arg: &str,
    rest: &mut impl Iterator<Item = &'a String>,
    parsed: &mut Arguments,
) -> Result<(), ToolError> {
    let letters = &arg[1..];
    let is_count = !letters.is_empty() && letters.bytes().all(|letter| letter.is_ascii_digit());
    if grammar.takes_count && is_count {
        return add(
            grammar,
            "-n",
            Form::Required(Rule::Number),
            Some(letters.to_owned()),
            parsed,
        );
    }
    if letters.is_empty() {
        return Err(refused(grammar, "-"));
    }
    for (at, letter) in letters.char_indices() {
        let spelled = format!("-{letter}");
        let (name, form) =
            known(grammar, &spelled).ok_or_else(|| refused_in(grammar, &spelled, arg))?;
        let attached = &letters[at + letter.len_utf8()..];
        match form {
            Form::Switch => add(grammar, name, form, None, parsed)?,
            Form::Optional(_) => {
                let value = (!attached.is_empty()).then(|| attached.to_owned());
                return add(grammar, name, form, value, parsed);
            }
            Form::Required(_) if attached.is_empty() => {
                let value = next(grammar, name, rest)?;
                return add(grammar, name, form, Some(value), parsed);
            }
            Form::Required(_) => {
                return add(grammar, name, form, Some(attached.to_owned()), parsed);
            }
        }
    }
    Ok(())
}

/// The table's own spelling, which lives as long as the program.
fn known(grammar: &Grammar, name: &str) -> Option<(&'static str, Form)> {
    let form = grammar.find(name)?;
    let switches = grammar.switches.iter().flat_map(|table| table.iter());
    let valued = grammar.required.iter().chain(grammar.optional);
    let valued = valued.flat_map(|table| table.iter().map(|flag| &flag.name));
    let spelled = switches.chain(valued).find(|known| **known == name)?;
    Some((spelled, form))
}

fn next<'a>(
    grammar: &Grammar,
    name: &str,
    rest: &mut impl Iterator<Item = &'a String>,
) -> Result<String, ToolError> {
    rest.next()
        .cloned()
        .ok_or_else(|| invalid(format!("`{name}` of git {} needs a value", grammar.name)))
}

fn add(
    grammar: &Grammar,
    name: &'static str,
    form: Form,
    value: Option<String>,
    parsed: &mut Arguments,
) -> Result<(), ToolError> {
    if let (Form::Required(rule) | Form::Optional(rule), Some(value)) = (form, &value) {
        check_value(grammar, name, rule, value)?;
    }
    parsed.flags.push(Flag { name, value });
    Ok(())
}

fn check_value(grammar: &Grammar, name: &str, rule: Rule, value: &str) -> Result<(), ToolError> {
    let wrong = |expected: &str| {
        Err(invalid(format!(
            "`{name}` of git {} takes {expected}, not `{value}`",
            grammar.name
        )))
    };
    match rule {
        Rule::Any => Ok(()),
        Rule::Number => {
            match value.bytes().all(|letter| letter.is_ascii_digit()) && !value.is_empty() {
                true => Ok(()),
                false => wrong("a number"),
            }
        }
        Rule::OneOf(words) if words.contains(&value) => Ok(()),
        Rule::OneOf(words) => wrong(&format!("one of {}", words.join(", "))),
        Rule::Inside => check_inside(value),
        Rule::LineRange => match value.rsplit_once(':') {
            Some((range, file)) if !range.is_empty() => check_inside(file),
            _ => wrong("<start>,<end>:<file> or :<function>:<file>"),
        },
        Rule::PlainFixup => match value.starts_with("amend:") || value.starts_with("reword:") {
            true => wrong("a commit; the other forms open an editor"),
            false => Ok(()),
        },
    }
}

fn check_operand(grammar: &Grammar, operand: &str) -> Result<(), ToolError> {
    match grammar.operands {
        Operands::Inside => check_inside(operand),
        Operands::None => Err(branch_operand(operand)),
        Operands::Any | Operands::Remote => check_transport(operand),
    }
}

/// Git takes these for the address of a program.
fn check_transport(text: &str) -> Result<(), ToolError> {
    match text.starts_with("ext::") || text.starts_with("fd::") {
        true => Err(refusal(format!(
            "`{text}` names a program to run, which can escape sandbox containment; use the name of a configured remote"
        ))),
        false => Ok(()),
    }
}

/// A revision or path that cannot lead out of the repository.
fn check_inside(text: &str) -> Result<(), ToolError> {
    check_transport(text)?;
    if text.starts_with('/') || text == "~" || text.starts_with("~/") {
        return Err(ToolError::new(
            "path_refused",
            format!("`{text}` is an absolute path; pass repo-relative paths only"),
        ));
    }
    // `HEAD:../x`, `:(top)../x` and `:!../x` name paths as well; a range `a..b` is no component.
    let components = text.split(['/', ':', ')', ',']);
    if components
        .map(|part| part.trim_start_matches(['!', '^']))
        .any(|part| part == "..")
    {
        return Err(ToolError::new(
            "path_refused",
            format!("`{text}` resolves outside the repo via `..`; pass repo-relative paths only"),
        ));
    }
    Ok(())
}

fn invalid(message: String) -> ToolError {
    ToolError::new("invalid_args", message)
}

fn refusal(message: String) -> ToolError {
    ToolError::new("flag_refused", message)
}

fn branch_operand(operand: &str) -> ToolError {
    ToolError::new(
        "branch_writes_refused",
        format!(
            "git_read lists branches only, and git would take `{operand}` for a branch to create; give a flag its value in the = form, for example --contains=HEAD"
        ),
    )
}

fn refused_in(grammar: &Grammar, letter: &str, arg: &str) -> ToolError {
    let error = refused(grammar, letter);
    match arg.chars().count() > 2 {
        true => ToolError {
            message: format!("in `{arg}`: {}", error.message),
            ..error
        },
        false => error,
    }
}

/// The refusal of a flag that is in no table.
fn refused(grammar: &Grammar, name: &str) -> ToolError {
    if grammar.operands == Operands::None && changes_branches(name) {
        return ToolError::new(
            "branch_writes_refused",
            format!(
                "git_read lists branches only, and `{name}` would change one. Accepted: {}",
                grammar.spelled().join(" ")
            ),
        );
    }
    let accepted = grammar.spelled();
    let full: Vec<&str> = accepted
        .iter()
        .filter(|flag| name.len() > 3 && flag.starts_with(name))
        .map(|flag| flag.trim_end_matches(['=', '[', ']']))
        .take(3)
        .collect();
    let hint = match full.as_slice() {
        [] => String::new(),
        names => format!(" Write it in full: {}.", names.join(" or ")),
    };
    refusal(format!(
        "`{name}` is not accepted for git {}: {}.{hint} Accepted: {}",
        grammar.name,
        why(grammar, name),
        accepted.join(" ")
    ))
}

/// Long options that lead Git out of the repository; it takes any unambiguous beginning of one.
const ESCAPES: &[&str] = &[
    "--no-index",
    "--git-dir",
    "--work-tree",
    "--exec-path",
    "--output",
    "--output-directory",
    "--upload-pack",
    "--receive-pack",
    "--man-path",
    "--info-path",
    "--open-files-in-pager",
    "--recurse-submodules",
    "--config",
    "--config-env",
    "--exec",
];
/// Those that read a file into the repository.
const FILE_READERS: &[&str] = &["--file", "--pathspec-from-file", "--template"];
/// Those that run what the repository or the owner's configuration names.
const PROGRAMS: &[&str] = &["--ext-diff", "--textconv", "--show-signature", "--gpg-sign"];
/// Those that change a branch.
const BRANCH_WRITERS: &[&str] = &[
    "--delete",
    "--move",
    "--copy",
    "--force",
    "--set-upstream",
    "--set-upstream-to",
    "--unset-upstream",
    "--edit-description",
    "--create-reflog",
    "--track",
    "--no-track",
    "--recurse-submodules",
];

fn begins(name: &str, flags: &[&str]) -> bool {
    name.starts_with("--") && name.len() > 3 && flags.iter().any(|flag| flag.starts_with(name))
}

fn changes_branches(name: &str) -> bool {
    begins(name, BRANCH_WRITERS)
        || matches!(
            name,
            "-d" | "-D" | "-m" | "-M" | "-c" | "-C" | "-f" | "-u" | "-t"
        )
}

fn why(grammar: &Grammar, name: &str) -> &'static str {
    let is_commit = grammar.name == "commit";
    if begins(name, ESCAPES) || name.starts_with("--exec") || name.starts_with("--config") {
        "it can escape sandbox containment"
    } else if begins(name, FILE_READERS) || is_commit && matches!(name, "-F" | "-t") {
        "it reads a file of the caller's choosing into the repository. Pass the message inline with -m"
    } else if begins(name, PROGRAMS) || is_commit && name == "-S" {
        "it runs a program"
    } else if is_commit && matches!(name, "-e" | "-c" | "--edit" | "--reedit-message") {
        "there is nobody at the editor. Pass the message inline with -m"
    } else if name == "-O" {
        "it reads a file of the caller's choosing"
    } else if name == "--end-of-options" {
        "it is put where it belongs by itself"
    } else {
        "it is not on the list"
    }
}

#[cfg(test)]
mod tests;
