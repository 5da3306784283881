//! Programs that are tools of their own: `[sandbox.commands]`.

use std::collections::BTreeMap;
use std::str::FromStr;

use fermix_types::UnknownName;

/// How long a call may take unless the owner says otherwise, in milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 30_000;

/// `[sandbox.commands]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandsConfig {
    /// Whether presets count.
    pub profile: CommandProfile,
    /// The presets the owner listed.
    pub presets: Vec<String>,
    /// `[sandbox.commands.NAME]` as written. [`CommandsConfig::tools`] says what it means.
    pub explicit: BTreeMap<String, CommandEntry>,
}

/// `[sandbox.commands] profile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandProfile {
    /// Presets are off.
    #[default]
    Bare,
    /// The listed presets are tools.
    Assistant,
    /// The same.
    Extended,
}

impl CommandProfile {
    /// The accepted names.
    pub const NAMES: &'static [&'static str] = &["bare", "assistant", "extended"];

    /// The name in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Assistant => "assistant",
            Self::Extended => "extended",
        }
    }
}

impl FromStr for CommandProfile {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "bare" => Ok(Self::Bare),
            "assistant" => Ok(Self::Assistant),
            "extended" => Ok(Self::Extended),
            _ => Err(UnknownName {
                what: "command profile",
                name: text.to_owned(),
                accepted: Self::NAMES.join(", "),
            }),
        }
    }
}

/// `[sandbox.commands.NAME]` as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEntry {
    /// The program. Only an entry that amends a preset's program may lack it.
    pub command: Option<String>,
    /// Arguments before those of a call.
    pub args: Vec<String>,
    /// Variables the program cannot work without.
    pub pass_env: Vec<String>,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: u64,
    /// What the model reads about it.
    pub description: Option<String>,
    /// Whether it is a tool.
    pub enabled: bool,
    /// Whether `git` may push.
    pub allow_push: bool,
}

impl Default for CommandEntry {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            pass_env: Vec::new(),
            timeout_ms: DEFAULT_TIMEOUT_MS,
            description: None,
            enabled: true,
            allow_push: false,
        }
    }
}

/// One program of a preset.
struct PresetProgram {
    name: &'static str,
    command: &'static str,
    pass_env: &'static [&'static str],
}

const fn program(
    name: &'static str,
    command: &'static str,
    pass_env: &'static [&'static str],
) -> PresetProgram {
    PresetProgram {
        name,
        command,
        pass_env,
    }
}

const AI_TOOLS: &str = "ai_tools";
const DEV_TOOLS: &str = "dev_tools";
/// The presets there are.
pub const PRESET_NAMES: &[&str] = &[AI_TOOLS, DEV_TOOLS];

const PRESETS: &[(&str, &[PresetProgram])] = &[
    (
        AI_TOOLS,
        &[
            program("codex", "codex", &["OPENAI_API_KEY"]),
            program("claude_code", "claude", &["ANTHROPIC_API_KEY"]),
        ],
    ),
    (
        DEV_TOOLS,
        &[
            program("git", "git", &[]),
            program("gh", "gh", &[]),
            program("make", "make", &[]),
        ],
    ),
];

/// A program that is a tool under the settings as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTool {
    /// The tool's name.
    pub name: String,
    /// The program: an absolute path, or a name on the search path.
    pub command: String,
    /// Arguments before those of a call.
    pub args: Vec<String>,
    /// Variables it cannot work without.
    pub pass_env: Vec<String>,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: u64,
    /// What the model reads about it; `None` leaves the words to the tool.
    pub description: Option<String>,
    /// The preset it belongs to; `None` for one of the owner's own.
    pub preset: Option<&'static str>,
    /// Whether it may push, when it is `git`.
    pub allow_push: bool,
}

impl CommandsConfig {
    /// Every program that is a tool, sorted by name. An entry of the owner's wins over a preset's
    /// program of the same name; one without a command only amends it.
    pub fn tools(&self) -> Vec<CommandTool> {
        let mut tools = BTreeMap::new();
        for (preset, programs) in PRESETS {
            let is_on = self.profile != CommandProfile::Bare
                && self.presets.iter().any(|listed| listed == preset);
            for program in programs.iter().filter(|_| is_on) {
                let tool = CommandTool {
                    name: program.name.to_owned(),
                    command: program.command.to_owned(),
                    args: Vec::new(),
                    pass_env: program.pass_env.iter().map(|&name| name.into()).collect(),
                    timeout_ms: DEFAULT_TIMEOUT_MS,
                    description: None,
                    preset: Some(preset),
                    allow_push: false,
                };
                tools.insert(tool.name.clone(), tool);
            }
        }
        for (name, entry) in &self.explicit {
            let base = tools.remove(name);
            if !entry.enabled {
                continue;
            }
            let (command, preset) = match (&entry.command, &base) {
                (Some(command), _) => (command.clone(), None),
                (None, Some(base)) => (base.command.clone(), base.preset),
                (None, None) => continue,
            };
            let mut pass_env = base.map(|base| base.pass_env).unwrap_or_default();
            if preset.is_none() || !entry.pass_env.is_empty() {
                pass_env.clone_from(&entry.pass_env);
            }
            let tool = CommandTool {
                name: name.clone(),
                command,
                args: entry.args.clone(),
                pass_env,
                timeout_ms: entry.timeout_ms,
                description: entry.description.clone(),
                preset,
                allow_push: entry.allow_push,
            };
            tools.insert(name.clone(), tool);
        }
        tools.into_values().collect()
    }
}

/// Whether a preset brings a program under this name, so that an entry may amend it.
pub(crate) fn is_of_a_preset(name: &str) -> bool {
    PRESETS
        .iter()
        .flat_map(|(_, programs)| programs.iter())
        .any(|program| program.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(config: &CommandsConfig) -> Vec<String> {
        config.tools().into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn presets_count_outside_bare_and_entries_always() {
        let mut config = CommandsConfig {
            presets: vec![DEV_TOOLS.into()],
            ..CommandsConfig::default()
        };
        config.explicit.insert(
            "deploy".into(),
            CommandEntry {
                command: Some("/srv/deploy".into()),
                ..CommandEntry::default()
            },
        );
        assert_eq!(names(&config), ["deploy"]);
        config.profile = CommandProfile::Assistant;
        assert_eq!(names(&config), ["deploy", "gh", "git", "make"]);
        config.explicit.insert(
            "git".into(),
            CommandEntry {
                allow_push: true,
                ..CommandEntry::default()
            },
        );
        config.explicit.insert(
            "make".into(),
            CommandEntry {
                enabled: false,
                ..CommandEntry::default()
            },
        );
        let tools = config.tools();
        assert_eq!(names(&config), ["deploy", "gh", "git"]);
        let git = tools.iter().find(|tool| tool.name == "git");
        assert!(git.is_some_and(|git| git.allow_push && git.command == "git"));
    }
}
