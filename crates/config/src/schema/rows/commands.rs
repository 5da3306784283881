//! Programs that are tools of their own.

use super::super::kind::Kind;
use super::super::{KeyDoc, put};
use super::{UNSET, first, row};
use crate::commands::{CommandEntry, CommandProfile, PRESET_NAMES};
use crate::settings::Config;

const PROFILES: Kind = Kind::Choice {
    accepted: CommandProfile::NAMES,
    retired: &[
        (
            "none",
            "it is called `bare` now; run `fermix config set sandbox.commands.profile bare`",
        ),
        (
            "trusted",
            "it is called `extended` now; run `fermix config set sandbox.commands.profile extended`",
        ),
    ],
};
const TIME: Kind = Kind::Count {
    min: 1,
    max: 600_000,
};

/// Both spellings of one field of a command.
macro_rules! entry {
    ($prefix:literal, $key:literal, $field:ident, $kind:expr, $default:expr, $doc:literal) => {
        row(
            concat!($prefix, $key),
            $kind,
            $default,
            $doc,
            |c, names, v| put(&mut entry(c, names).$field, v),
        )
    };
}

/// The second spelling, which stands for the first.
macro_rules! again {
    ($key:literal, $field:ident, $kind:expr, $default:expr) => {
        entry!(
            "sandbox.commands.explicit.<command>.",
            $key,
            $field,
            $kind,
            $default,
            "Another place for the same key."
        )
        .same_as(concat!("sandbox.commands.<command>.", $key))
    };
}

pub(super) static ROWS: &[KeyDoc] = &[
    row(
        "sandbox.commands.profile",
        PROFILES,
        "\"bare\"",
        "`bare`: presets are off. `assistant`, `extended`: the listed presets are tools.",
        |c, _, v| put(&mut c.sandbox.commands.profile, v),
    ),
    row(
        "sandbox.commands.presets",
        Kind::Choices(PRESET_NAMES),
        "[]",
        "Families of programs that are tools: `ai_tools` (codex, claude), `dev_tools` (git, gh, make).",
        |c, _, v| put(&mut c.sandbox.commands.presets, v),
    ),
    row(
        "sandbox.commands.enabled_presets",
        Kind::Choices(PRESET_NAMES),
        "[]",
        "An older name of the same key.",
        |c, _, v| put(&mut c.sandbox.commands.presets, v),
    )
    .same_as("sandbox.commands.presets"),
    entry!(
        "sandbox.commands.<command>.",
        "command",
        command,
        Kind::Line { max: 4096 },
        UNSET,
        "The program of the tool of this name: an absolute path, or a name on the search path."
    ),
    entry!(
        "sandbox.commands.<command>.",
        "args",
        args,
        Kind::Arguments,
        "[]",
        "Arguments before those of a call."
    ),
    entry!(
        "sandbox.commands.<command>.",
        "pass_env",
        pass_env,
        Kind::Variables,
        "[]",
        "Variables the program cannot work without."
    ),
    entry!(
        "sandbox.commands.<command>.",
        "timeout_ms",
        timeout_ms,
        TIME,
        "30000",
        "How long a call may take, in milliseconds."
    ),
    entry!(
        "sandbox.commands.<command>.",
        "description",
        description,
        Kind::Line { max: 500 },
        UNSET,
        "What the model reads about it."
    ),
    entry!(
        "sandbox.commands.<command>.",
        "enabled",
        enabled,
        Kind::Flag,
        "true",
        "Whether it is a tool."
    ),
    entry!(
        "sandbox.commands.<command>.",
        "allow_push",
        allow_push,
        Kind::Flag,
        "false",
        "For `git` only: whether it may push."
    ),
    again!("command", command, Kind::Line { max: 4096 }, UNSET),
    again!("args", args, Kind::Arguments, "[]"),
    again!("pass_env", pass_env, Kind::Variables, "[]"),
    again!("timeout_ms", timeout_ms, TIME, "30000"),
    again!("description", description, Kind::Line { max: 500 }, UNSET),
    again!("enabled", enabled, Kind::Flag, "true"),
    again!("allow_push", allow_push, Kind::Flag, "false"),
];

fn entry<'a>(config: &'a mut Config, names: &[String]) -> &'a mut CommandEntry {
    config
        .sandbox
        .commands
        .explicit
        .entry(first(names))
        .or_default()
}
