//! Programs that are tools of their own.

use super::super::kind::Kind;
use super::super::{KeyDoc, put};
use super::{UNSET, choices, first, row};
use crate::commands::{CommandEntry, CommandPreset};
use crate::settings::Config;

const PROFILES: Kind = Kind::Choice {
    accepted: &["bare", "assistant", "extended"],
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
const RUN_TIME: Kind = Kind::Count {
    min: 1,
    max: 600_000,
};

/// Both spellings of one field of a command.
macro_rules! command {
    ($prefix:literal, $key:literal, $field:ident, $kind:expr, $doc:literal) => {
        row(concat!($prefix, $key), $kind, UNSET, $doc, |c, names, v| {
            put(&mut entry(c, names).$field, v)
        })
    };
}

pub(super) static ROWS: &[KeyDoc] = &[
    row(
        "sandbox.commands.profile",
        PROFILES,
        "\"bare\"",
        "`bare`: no presets. `assistant` and `extended`: the commands of the listed presets are tools.",
        |c, _, v| put(&mut c.sandbox.commands.profile, v),
    ),
    row(
        "sandbox.commands.presets",
        choices(CommandPreset::NAMES),
        "[]",
        "`ai_tools`: `codex` and `claude_code`. `dev_tools`: `git`, `gh` and `make`. Only those that are installed become tools.",
        |c, _, v| put(&mut c.sandbox.commands.presets, v),
    ),
    row(
        "sandbox.commands.enabled_presets",
        choices(CommandPreset::NAMES),
        "[]",
        "An older name of the same key.",
        |c, _, v| put(&mut c.sandbox.commands.presets, v),
    )
    .same_as("sandbox.commands.presets"),
    command!(
        "sandbox.commands.<command>.",
        "command",
        command,
        Kind::Line { max: 4096 },
        "The program: an absolute path, or a name on the search path. A section named like a command of a preset may leave it out, and then changes that command."
    ),
    command!(
        "sandbox.commands.<command>.",
        "args",
        args,
        Kind::Arguments,
        "Arguments before those of a call; unset means none."
    ),
    command!(
        "sandbox.commands.<command>.",
        "pass_env",
        pass_env,
        Kind::Variables,
        "Variables the command cannot work without; each must be in `[sandbox.env] allow`."
    ),
    command!(
        "sandbox.commands.<command>.",
        "timeout_ms",
        timeout_ms,
        RUN_TIME,
        "How long a call may take, in milliseconds; unset means 30000."
    ),
    command!(
        "sandbox.commands.<command>.",
        "description",
        description,
        Kind::Line { max: 500 },
        "What the model reads about the tool."
    ),
    command!(
        "sandbox.commands.<command>.",
        "enabled",
        enabled,
        Kind::Flag,
        "Whether the tool exists; unset means yes."
    ),
    command!(
        "sandbox.commands.<command>.",
        "allow_push",
        allow_push,
        Kind::Flag,
        "Let the tool push; for `git` only. Unset means no."
    ),
    command!(
        "sandbox.commands.explicit.<command>.",
        "command",
        command,
        Kind::Line { max: 4096 },
        "Another place for the same key."
    )
    .same_as("sandbox.commands.<command>.command"),
    command!(
        "sandbox.commands.explicit.<command>.",
        "args",
        args,
        Kind::Arguments,
        "Another place for the same key."
    )
    .same_as("sandbox.commands.<command>.args"),
    command!(
        "sandbox.commands.explicit.<command>.",
        "pass_env",
        pass_env,
        Kind::Variables,
        "Another place for the same key."
    )
    .same_as("sandbox.commands.<command>.pass_env"),
    command!(
        "sandbox.commands.explicit.<command>.",
        "timeout_ms",
        timeout_ms,
        RUN_TIME,
        "Another place for the same key."
    )
    .same_as("sandbox.commands.<command>.timeout_ms"),
    command!(
        "sandbox.commands.explicit.<command>.",
        "description",
        description,
        Kind::Line { max: 500 },
        "Another place for the same key."
    )
    .same_as("sandbox.commands.<command>.description"),
    command!(
        "sandbox.commands.explicit.<command>.",
        "enabled",
        enabled,
        Kind::Flag,
        "Another place for the same key."
    )
    .same_as("sandbox.commands.<command>.enabled"),
    command!(
        "sandbox.commands.explicit.<command>.",
        "allow_push",
        allow_push,
        Kind::Flag,
        "Another place for the same key."
    )
    .same_as("sandbox.commands.<command>.allow_push"),
];

fn entry<'a>(config: &'a mut Config, names: &[String]) -> &'a mut CommandEntry {
    config
        .sandbox
        .commands
        .by_name
        .entry(first(names))
        .or_default()
}
