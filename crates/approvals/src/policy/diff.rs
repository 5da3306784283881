//! What a change of the settings gives and takes: sets of full descriptions, before and after.
//!
//! An entry says everything that matters about the thing, so that binding a known name to another
//! program, or a variable to another helper, is a new entry and has to be confirmed.

use std::collections::BTreeSet;

use fermix_config::commands::CommandTool;
use fermix_config::{EnvLookup, EnvMode, SandboxConfig};
use fermix_sandbox::{Root, RootAccess};

use crate::shown::{visible, visible_path};

/// One label and what stands under it.
type Entries = (&'static str, BTreeSet<String>);

/// What tools may reach under some settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    labels: [Entries; 6],
}

/// What changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Diff {
    /// A line each, additions before removals of the same label.
    pub(super) lines: Vec<String>,
    /// The additions, with their labels.
    pub(super) gains: BTreeSet<(&'static str, String)>,
}

impl Reach {
    /// `roots` are those that a turn without a folder of its own has under `config`.
    pub(super) fn of<'a>(config: &SandboxConfig, roots: impl Iterator<Item = &'a Root>) -> Self {
        let paths =
            |paths: &[std::path::PathBuf]| paths.iter().map(|path| visible_path(path)).collect();
        Self {
            labels: [
                ("effective_roots", roots.map(root).collect()),
                ("allowed_roots", paths(&config.allowed_roots)),
                ("read_roots", paths(&config.read_roots)),
                ("env", env(config)),
                ("presets", config.commands.presets.iter().cloned().collect()),
                (
                    "commands",
                    config.commands.tools().iter().map(command).collect(),
                ),
            ],
        }
    }

    /// What `after` has more and less.
    pub(super) fn to(&self, after: &Self) -> Diff {
        let mut diff = Diff::default();
        for ((label, before), (_, after)) in self.labels.iter().zip(&after.labels) {
            let gained: Vec<&str> = after.difference(before).map(String::as_str).collect();
            let lost: Vec<&str> = before.difference(after).map(String::as_str).collect();
            if !gained.is_empty() {
                diff.lines.push(format!("{label} + {}", gained.join(", ")));
            }
            if !lost.is_empty() {
                diff.lines.push(format!("{label} - {}", lost.join(", ")));
            }
            let gained = gained.into_iter().map(|entry| (*label, entry.to_owned()));
            diff.gains.extend(gained);
        }
        diff
    }
}

fn root(root: &Root) -> String {
    let path = visible_path(&root.path);
    match root.access {
        RootAccess::ReadWrite => path,
        RootAccess::ReadOnly => format!("{path} (read only)"),
    }
}

/// The variables that a command gets beyond the base ones.
fn env(config: &SandboxConfig) -> BTreeSet<String> {
    let env = &config.env;
    if env.mode == EnvMode::All && env.allow.is_empty() {
        return BTreeSet::from(["every variable".to_owned()]);
    }
    let passed = env.allow.iter().filter(|name| !env.deny.contains(*name));
    passed.map(|name| variable(config, name)).collect()
}

/// A variable with where its value comes from.
pub(super) fn variable(config: &SandboxConfig, name: &str) -> String {
    match config.env.lookup(name) {
        EnvLookup::Variable(variable) if variable == name => name.to_owned(),
        EnvLookup::Variable(variable) => format!("{name} (from {variable})"),
        EnvLookup::Command { command, args, .. } => {
            format!("{name} (from `{}`)", command_line(command, args))
        }
    }
}

/// A program with everything that decides what it does.
pub(super) fn command(tool: &CommandTool) -> String {
    let mut text = format!(
        "{} = `{}`",
        tool.name,
        command_line(&tool.command, &tool.args)
    );
    if !tool.pass_env.is_empty() {
        text.push_str(&format!(" with {}", tool.pass_env.join(" ")));
    }
    if tool.allow_push {
        text.push_str(", may push");
    }
    text
}

/// Words as one would type them, so that two different lists never look the same.
fn command_line(command: &str, args: &[String]) -> String {
    let words = std::iter::once(command).chain(args.iter().map(String::as_str));
    words.map(word).collect::<Vec<_>>().join(" ")
}

fn word(text: &str) -> String {
    let is_plain = !text.is_empty()
        && text
            .chars()
            .all(|letter| letter.is_alphanumeric() || "/._-+,@:=%".contains(letter));
    if is_plain {
        text.to_owned()
    } else {
        format!("'{}'", visible(&text.replace('\'', r"'\''")))
    }
}
