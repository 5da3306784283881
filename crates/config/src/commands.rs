//! `[sandbox.commands]`: programs the owner made into tools.

use std::collections::BTreeMap;
use std::str::FromStr;

use fermix_types::UnknownName;

use crate::settings::unknown;

/// How long a call may take unless configured, in milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 30_000;

/// `[sandbox.commands]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandsConfig {
    /// Whether presets count at all.
    pub profile: CommandProfile,
    /// The presets that count.
    pub presets: Vec<CommandPreset>,
    /// `[sandbox.commands.NAME]`, as written.
    pub by_name: BTreeMap<String, CommandEntry>,
}

/// `[sandbox.commands] profile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandProfile {
    /// No presets.
    #[default]
    Bare,
    /// The listed presets.
    Assistant,
    /// The listed presets, under the name of an older configuration.
    Extended,
}

impl FromStr for CommandProfile {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "bare" => Ok(Self::Bare),
            "assistant" => Ok(Self::Assistant),
            "extended" => Ok(Self::Extended),
            _ => Err(unknown("profile", text, &["bare", "assistant", "extended"])),
        }
    }
}

/// A set of commands that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandPreset {
    /// `codex` and `claude_code`.
    AiTools,
    /// `git`, `gh` and `make`.
    DevTools,
}

/// One command of a preset: the tool's name, its program, the variable it needs, what it is.
type PresetCommand = (
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static str,
);

impl CommandPreset {
    pub(crate) const NAMES: &'static [&'static str] = &["ai_tools", "dev_tools"];
    const ALL: [Self; 2] = [Self::AiTools, Self::DevTools];

    const fn commands(self) -> &'static [PresetCommand] {
        match self {
            Self::AiTools => &[
                (
                    "codex",
                    "codex",
                    Some("OPENAI_API_KEY"),
                    "Run the `codex` coding agent once.",
                ),
                (
                    "claude_code",
                    "claude",
                    Some("ANTHROPIC_API_KEY"),
                    "Run the `claude` coding agent once.",
                ),
            ],
            Self::DevTools => &[
                (
                    "git",
                    "git",
                    None,
                    "Run one git command; `args` come before `prompt`.",
                ),
                (
                    "gh",
                    "gh",
                    None,
                    "Run one GitHub CLI command; `args` come before `prompt`.",
                ),
                (
                    "make",
                    "make",
                    None,
                    "Build a make target; `prompt` is the target.",
                ),
            ],
        }
    }
}

impl FromStr for CommandPreset {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "ai_tools" => Ok(Self::AiTools),
            "dev_tools" => Ok(Self::DevTools),
            _ => Err(unknown("preset", text, Self::NAMES)),
        }
    }
}

/// `[sandbox.commands.NAME]` as written. [`CommandsConfig::declared`] says what it means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandEntry {
    /// The program; absent in a section that changes a preset's command.
    pub command: Option<String>,
    /// Arguments before those of a call.
    pub args: Option<Vec<String>>,
    /// Variables it cannot work without.
    pub pass_env: Option<Vec<String>>,
    /// Milliseconds a call may take.
    pub timeout_ms: Option<u64>,
    /// What the model reads.
    pub description: Option<String>,
    /// Whether the tool exists.
    pub enabled: Option<bool>,
    /// Whether `git` may push.
    pub allow_push: Option<bool>,
}

/// One command that is to be a tool, every default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredCommand {
    /// The tool's name.
    pub name: String,
    /// An absolute path, or a name on the search path.
    pub program: String,
    /// Arguments before those of a call.
    pub args: Vec<String>,
    /// Variables it cannot work without.
    pub pass_env: Vec<String>,
    /// Milliseconds a call may take.
    pub timeout_ms: u64,
    /// What the model reads.
    pub description: String,
    /// Whether `git` may push.
    pub allow_push: bool,
}

impl DeclaredCommand {
    /// Whether it runs Git, which is told apart because it runs what a repository names.
    pub fn is_git(&self) -> bool {
        is_git(&self.name, &self.program)
    }
}

fn is_git(name: &str, program: &str) -> bool {
    name == "git" || program.rsplit('/').next() == Some("git")
}

impl CommandsConfig {
    /// The commands that are to be tools, sorted by name: those of the presets that count, as
    /// changed by a section of their name, and those with a section of their own.
    pub fn declared(&self) -> Vec<DeclaredCommand> {
        let mut commands = BTreeMap::new();
        if self.profile != CommandProfile::Bare {
            for preset in &self.presets {
                for (name, program, variable, description) in preset.commands() {
                    let command = DeclaredCommand {
                        name: (*name).to_owned(),
                        program: (*program).to_owned(),
                        args: Vec::new(),
                        pass_env: variable.iter().map(|name| (*name).to_owned()).collect(),
                        timeout_ms: DEFAULT_TIMEOUT_MS,
                        description: (*description).to_owned(),
                        allow_push: false,
                    };
                    commands.insert(*name, command);
                }
            }
        }
        for (name, entry) in &self.by_name {
            let preset = commands.remove(name.as_str());
            let command = match (&entry.command, preset) {
                (Some(program), _) => DeclaredCommand {
                    name: name.clone(),
                    program: program.clone(),
                    args: Vec::new(),
                    pass_env: Vec::new(),
                    timeout_ms: DEFAULT_TIMEOUT_MS,
                    description: format!("Run `{program}`, a command the owner configured."),
                    allow_push: false,
                },
                (None, Some(preset)) => preset,
                // It changes a command of a preset that does not count.
                (None, None) => continue,
            };
            if entry.enabled == Some(false) {
                continue;
            }
            commands.insert(
                name,
                DeclaredCommand {
                    args: entry.args.clone().unwrap_or(command.args),
                    pass_env: entry.pass_env.clone().unwrap_or(command.pass_env),
                    timeout_ms: entry.timeout_ms.unwrap_or(command.timeout_ms),
                    description: entry.description.clone().unwrap_or(command.description),
                    allow_push: entry.allow_push.unwrap_or(false),
                    ..command
                },
            );
        }
        commands.into_values().collect()
    }

    /// What is wrong with the sections: the section's name, its key, the words.
    pub(crate) fn problems(&self) -> Vec<(&str, &'static str, String)> {
        let mut problems = Vec::new();
        for (name, entry) in &self.by_name {
            let preset = CommandPreset::ALL
                .iter()
                .flat_map(|preset| preset.commands())
                .find(|(of_preset, ..)| of_preset == name);
            let program = entry
                .command
                .as_deref()
                .or(preset.map(|(_, program, ..)| *program));
            let Some(program) = program else {
                problems.push((
                    name.as_str(),
                    "command",
                    "is missing; name the program of this tool".to_owned(),
                ));
                continue;
            };
            if program.contains('/') && !program.starts_with('/') {
                problems.push((
                    name,
                    "command",
                    "is a relative path; write it from `/`, or as a name on the search path"
                        .to_owned(),
                ));
            }
            if entry.allow_push.is_some() && !is_git(name, program) {
                problems.push((
                    name,
                    "allow_push",
                    "means nothing to a program that is not git; remove it".to_owned(),
                ));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(config: &CommandsConfig) -> Vec<String> {
        config
            .declared()
            .into_iter()
            .map(|command| command.name)
            .collect()
    }

    #[test]
    fn presets_count_only_beyond_bare_and_sections_always() {
        let mut config = CommandsConfig {
            presets: vec![CommandPreset::DevTools],
            ..CommandsConfig::default()
        };
        let deploy = CommandEntry {
            command: Some("/opt/deploy".into()),
            ..CommandEntry::default()
        };
        config.by_name.insert("deploy".into(), deploy);
        assert_eq!(names(&config), ["deploy"]);
        config.profile = CommandProfile::Assistant;
        assert_eq!(names(&config), ["deploy", "gh", "git", "make"]);

        let off = CommandEntry {
            enabled: Some(false),
            ..CommandEntry::default()
        };
        config.by_name.insert("gh".into(), off);
        let pushing = CommandEntry {
            allow_push: Some(true),
            ..CommandEntry::default()
        };
        config.by_name.insert("git".into(), pushing);
        // Changing a command of a preset that is not listed does not bring it in.
        config
            .by_name
            .insert("codex".into(), CommandEntry::default());
        assert_eq!(names(&config), ["deploy", "git", "make"]);
        assert!(config.declared()[1].allow_push);
        assert_eq!(config.problems(), []);
    }

    #[test]
    fn a_section_needs_a_program_and_push_needs_git() {
        let mut config = CommandsConfig::default();
        config.by_name.insert("x".into(), CommandEntry::default());
        let pushing = CommandEntry {
            command: Some("bin/tool".into()),
            allow_push: Some(false),
            ..CommandEntry::default()
        };
        config.by_name.insert("y".into(), pushing);
        let keys: Vec<_> = config
            .problems()
            .into_iter()
            .map(|(name, key, _)| (name.to_owned(), key))
            .collect();
        assert_eq!(
            keys,
            [
                ("x".to_owned(), "command"),
                ("y".to_owned(), "command"),
                ("y".to_owned(), "allow_push")
            ]
        );
    }
}
