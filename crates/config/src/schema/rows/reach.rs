//! How far the tools reach, and who may speak.

use fermix_types::SandboxMode;

use super::super::kind::Kind;
use super::super::{KeyDoc, put};
use super::{UNSET, choice, first, row};
use crate::settings::{ApproveMode, ChannelConfig, Config, EnvMode, EnvSource, EnvSourceKind};

const MODES: Kind = Kind::Choice {
    accepted: &[
        SandboxMode::Strict.as_str(),
        SandboxMode::Standard.as_str(),
        SandboxMode::Open.as_str(),
    ],
    retired: &[
        (
            "workspace",
            "it is called `strict` now; run `fermix config set sandbox.mode strict`",
        ),
        (
            "developer",
            "it is called `standard` now; run `fermix config set sandbox.mode standard`",
        ),
        (
            "trusted_local",
            "it is called `open` now; run `fermix config set sandbox.mode open`",
        ),
    ],
};
const HELPER_TIME: Kind = Kind::Count {
    min: 1,
    max: 60_000,
};

/// Both spellings of one field of a variable's source.
macro_rules! source {
    ($prefix:literal, $key:literal, $field:ident, $kind:expr, $default:expr, $doc:literal) => {
        row(
            concat!($prefix, $key),
            $kind,
            $default,
            $doc,
            |c, names, v| put(&mut source(c, names).$field, v),
        )
    };
}

pub(super) static ROWS: &[KeyDoc] = &[
    row(
        "sandbox.mode",
        MODES,
        "\"standard\"",
        "`strict`: the workspace only. `standard`: also the skills folder and the folder a request or the daemon was started from. `open`: the home folder less the protected paths.",
        |c, _, v| put(&mut c.sandbox.mode, v),
    ),
    row(
        "sandbox.workspace_root",
        Kind::Path,
        UNSET,
        "The workspace; unset means `workspace` in the Fermix home.",
        |c, _, v| put(&mut c.sandbox.workspace_root, v),
    ),
    row(
        "sandbox.allowed_roots",
        Kind::Paths,
        "[]",
        "Folders the tools may use besides those of the mode.",
        |c, _, v| put(&mut c.sandbox.allowed_roots, v),
    ),
    row(
        "sandbox.read_roots",
        Kind::Paths,
        "[]",
        "Folders the tools may read and not change, besides those of the mode.",
        |c, _, v| put(&mut c.sandbox.read_roots, v),
    ),
    row(
        "sandbox.blocked_roots",
        Kind::Paths,
        "[]",
        "Folders the tools may never use; wins over everything else.",
        |c, _, v| put(&mut c.sandbox.blocked_roots, v),
    ),
    row(
        "sandbox.approve",
        choice(ApproveMode::NAMES),
        "\"never\"",
        "Which commands the owner is asked about before they run. `risky`: those that are not known to be harmless. Where nobody can be asked, such a command is refused.",
        |c, _, v| put(&mut c.sandbox.approve, v),
    ),
    row(
        "sandbox.git.trusted_repos",
        Kind::Paths,
        "[]",
        "Repositories, by the folder that holds `.git`, whose own hooks, filters, signing and other programs run when `git_write` changes them, their submodules included. Whoever can write their `.git` folder can then run programs.",
        |c, _, v| put(&mut c.sandbox.trusted_repos, v),
    ),
    row(
        "sandbox.env.mode",
        choice(EnvMode::NAMES),
        "\"selected\"",
        "`selected`: commands see the base variables and the allowed ones. `all`: everything less the denied ones, until a name is allowed.",
        |c, _, v| put(&mut c.sandbox.env.mode, v),
    ),
    row(
        "sandbox.env.allow",
        Kind::Variables,
        "[]",
        "Variables commands may see.",
        |c, _, v| put(&mut c.sandbox.env.allow, v),
    ),
    row(
        "sandbox.env.deny",
        Kind::Variables,
        "[]",
        "Variables commands never see.",
        |c, _, v| put(&mut c.sandbox.env.deny, v),
    ),
    source!(
        "sandbox.env.<NAME>.",
        "source",
        source,
        choice(EnvSourceKind::NAMES),
        UNSET,
        "Where the value comes from; unset means `command` when a command is given, else `env`."
    ),
    source!(
        "sandbox.env.<NAME>.",
        "name",
        name,
        Kind::Variable,
        UNSET,
        "The variable to read instead of the same name."
    ),
    source!(
        "sandbox.env.<NAME>.",
        "command",
        command,
        Kind::Line { max: 4096 },
        UNSET,
        "The helper that prints the value."
    ),
    source!(
        "sandbox.env.<NAME>.",
        "args",
        args,
        Kind::Arguments,
        "[]",
        "The helper's arguments."
    ),
    source!(
        "sandbox.env.<NAME>.",
        "timeout_ms",
        timeout_ms,
        HELPER_TIME,
        "3000",
        "How long the helper may take, in milliseconds."
    ),
    source!(
        "sandbox.env.sources.<NAME>.",
        "source",
        source,
        choice(EnvSourceKind::NAMES),
        UNSET,
        "Another place for the same key."
    )
    .same_as("sandbox.env.<NAME>.source"),
    source!(
        "sandbox.env.sources.<NAME>.",
        "name",
        name,
        Kind::Variable,
        UNSET,
        "Another place for the same key."
    )
    .same_as("sandbox.env.<NAME>.name"),
    source!(
        "sandbox.env.sources.<NAME>.",
        "command",
        command,
        Kind::Line { max: 4096 },
        UNSET,
        "Another place for the same key."
    )
    .same_as("sandbox.env.<NAME>.command"),
    source!(
        "sandbox.env.sources.<NAME>.",
        "args",
        args,
        Kind::Arguments,
        "[]",
        "Another place for the same key."
    )
    .same_as("sandbox.env.<NAME>.args"),
    source!(
        "sandbox.env.sources.<NAME>.",
        "timeout_ms",
        timeout_ms,
        HELPER_TIME,
        "3000",
        "Another place for the same key."
    )
    .same_as("sandbox.env.<NAME>.timeout_ms"),
    row(
        "fermix_channels.coalesce",
        Kind::Flag,
        "true",
        "Messages that arrive during a turn become one next turn.",
        |c, _, v| put(&mut c.channels.coalesce, v),
    ),
    row(
        "fermix_channels.<channel>.owner_user_id",
        Kind::Id,
        UNSET,
        "The platform's id of the owner. Unset means that nobody is the owner.",
        |c, names, v| put(&mut channel(c, names).owner_user_id, v),
    ),
    row(
        "fermix_channels.<channel>.allowed_user_ids",
        Kind::Ids,
        "[]",
        "The platform's ids of guests. Empty means none.",
        |c, names, v| put(&mut channel(c, names).allowed_user_ids, v),
    ),
    row(
        "fermix_channels.<channel>.allowed_sender_ids",
        Kind::Ids,
        "[]",
        "An older name of the same key.",
        |c, names, v| put(&mut channel(c, names).allowed_user_ids, v),
    )
    .same_as("fermix_channels.<channel>.allowed_user_ids"),
];

fn source<'a>(config: &'a mut Config, names: &[String]) -> &'a mut EnvSource {
    config.sandbox.env.sources.entry(first(names)).or_default()
}

fn channel<'a>(config: &'a mut Config, names: &[String]) -> &'a mut ChannelConfig {
    config.channels.by_name.entry(first(names)).or_default()
}
