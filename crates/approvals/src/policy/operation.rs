//! What can be asked of the policy, and what came of it. The same types on the command line, on the
//! daemon's socket and in chats.

use std::path::PathBuf;

use fermix_types::SandboxMode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One change of the policy, or one look at it. On the wire: `{"op": …, …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// `[sandbox] mode`.
    SetMode {
        /// The new mode.
        mode: SandboxMode,
    },
    /// Opens a folder.
    Grant {
        /// Absolute, or starting with `~/`.
        path: PathBuf,
        /// How far. Absent means for reading, the narrowest grant that lasts.
        #[serde(default)]
        scope: GrantScope,
    },
    /// Takes a granted folder away.
    Revoke {
        /// As it was granted, or as it resolves.
        path: PathBuf,
    },
    /// Passes a variable on to commands.
    EnvAllow {
        /// Its name.
        name: String,
    },
    /// Never passes a variable on.
    EnvDeny {
        /// Its name.
        name: String,
    },
    /// Passes a variable on, with the line a helper prints as its value.
    EnvSet {
        /// Its name.
        name: String,
        /// The helper: an absolute path, or a name on the search path.
        command: String,
        /// Its arguments.
        #[serde(default)]
        args: Vec<String>,
    },
    /// Stops passing a variable on and forgets its helper.
    EnvUnset {
        /// Its name.
        name: String,
    },
    /// `[sandbox.commands] profile`.
    CommandProfile {
        /// `bare`, `assistant` or `extended`.
        profile: String,
    },
    /// Lists a preset.
    EnablePreset {
        /// Its name.
        name: String,
    },
    /// Takes a preset from the list.
    DisablePreset {
        /// Its name.
        name: String,
    },
    /// Makes a configured program a tool.
    EnableCommand {
        /// Its name.
        name: String,
    },
    /// Keeps a configured program from being a tool.
    DisableCommand {
        /// Its name.
        name: String,
    },
    /// Makes a program a tool of the given name.
    BindCommand {
        /// The tool's name.
        name: String,
        /// The program: an absolute path, or a name on the search path.
        command: String,
        /// Arguments before those of a call.
        #[serde(default)]
        args: Vec<String>,
    },
    /// The mode, the workspace, how much is granted.
    Status {},
    /// Every root with where it comes from, and what is closed.
    Explain {},
    /// What was granted, when, from where and why.
    Grants {},
    /// Whether a path may be read or written, and which rule says so.
    Check {
        /// Absolute, or starting with `~/`.
        path: PathBuf,
        /// Writing instead of reading.
        #[serde(default)]
        write: bool,
    },
    /// Whether a variable is passed on, and where its value comes from. Never the value.
    EnvGet {
        /// Its name.
        name: String,
    },
    /// Every program that is a tool.
    Commands {},
}

/// How far a grant goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// For good, for reading.
    #[default]
    Read,
    /// For good, for reading and writing.
    Always,
    /// For one conversation, for reading and writing, in memory.
    Once,
}

impl GrantScope {
    /// The word in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Always => "always",
            Self::Once => "once",
        }
    }
}

impl Operation {
    /// The name on the wire and in traces.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SetMode { .. } => "set_mode",
            Self::Grant { .. } => "grant",
            Self::Revoke { .. } => "revoke",
            Self::EnvAllow { .. } => "env_allow",
            Self::EnvDeny { .. } => "env_deny",
            Self::EnvSet { .. } => "env_set",
            Self::EnvUnset { .. } => "env_unset",
            Self::CommandProfile { .. } => "command_profile",
            Self::EnablePreset { .. } => "enable_preset",
            Self::DisablePreset { .. } => "disable_preset",
            Self::EnableCommand { .. } => "enable_command",
            Self::DisableCommand { .. } => "disable_command",
            Self::BindCommand { .. } => "bind_command",
            Self::Status {} => "status",
            Self::Explain {} => "explain",
            Self::Grants {} => "grants",
            Self::Check { .. } => "check",
            Self::EnvGet { .. } => "env_get",
            Self::Commands {} => "commands",
        }
    }

    /// Whether it only looks. Everything else is for the owner in person.
    pub const fn is_look(&self) -> bool {
        match self {
            Self::Status {}
            | Self::Explain {}
            | Self::Grants {}
            | Self::Check { .. }
            | Self::EnvGet { .. }
            | Self::Commands {} => true,
            Self::SetMode { .. }
            | Self::Grant { .. }
            | Self::Revoke { .. }
            | Self::EnvAllow { .. }
            | Self::EnvDeny { .. }
            | Self::EnvSet { .. }
            | Self::EnvUnset { .. }
            | Self::CommandProfile { .. }
            | Self::EnablePreset { .. }
            | Self::DisablePreset { .. }
            | Self::EnableCommand { .. }
            | Self::DisableCommand { .. }
            | Self::BindCommand { .. } => false,
        }
    }
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is saved and in force.
    Applied,
    /// It widens what tools reach, so the owner has to say yes first. Nothing was done.
    NeedsConfirmation,
    /// There was nothing to change.
    Unchanged,
    /// It was a look, and the facts are with it.
    Shown,
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What became of it.
    pub state: State,
    /// What changes, a line each: `<label> + a, b` or `<label> - c`.
    #[serde(default)]
    pub diff: Vec<String>,
    /// The same for people.
    pub message: String,
    /// The facts of a look, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_survive_the_wire_and_unknown_ones_are_refused() {
        let operation = Operation::Grant {
            path: "/srv".into(),
            scope: GrantScope::Always,
        };
        let wire = serde_json::to_value(&operation).unwrap();
        assert_eq!(
            wire,
            serde_json::json!({"op": "grant", "path": "/srv", "scope": "always"})
        );
        assert_eq!(
            serde_json::from_value::<Operation>(wire).unwrap(),
            operation
        );
        // What is not said is the narrower right.
        let short = serde_json::json!({"op": "grant", "path": "/srv"});
        assert_eq!(
            serde_json::from_value::<Operation>(short).unwrap(),
            Operation::Grant {
                path: "/srv".into(),
                scope: GrantScope::Read,
            }
        );
        for nonsense in [
            serde_json::json!({"op": "dance"}),
            serde_json::json!({"op": "set_mode", "mode": "wide"}),
            serde_json::json!({"op": "grant", "path": "/srv", "scope": "everything"}),
            serde_json::json!({"op": "check", "path": "/srv", "wirte": true}),
        ] {
            serde_json::from_value::<Operation>(nonsense).unwrap_err();
        }
    }
}
