//! The agent itself and its owner.

use super::super::kind::Kind;
use super::super::{KeyDoc, put};
use super::{ANY_COUNT, EFFORTS, PROVIDERS, UNSET, choice, row};

pub(super) static ROWS: &[KeyDoc] = &[
    row(
        "fermix_core.timezone",
        Kind::Zone,
        UNSET,
        "The time zone of jobs and events; unset means the host's.",
        |c, _, v| put(&mut c.timezone, v),
    ),
    row(
        "fermix_core.profile",
        Kind::Profile,
        "\"general\"",
        "The namespace of this home's secrets, so that two homes of one person do not share them.",
        |c, _, v| put(&mut c.profile, v),
    ),
    row(
        "fermix_core.secret_store",
        choice(&["keyring", "file"]),
        UNSET,
        "Where new secrets go; unset means the keyring when it is there and unlocked, else the encrypted file store.",
        |c, _, v| put(&mut c.secret_store, v),
    ),
    row(
        "fermix_core.redact_tool_results",
        Kind::Flag,
        "true",
        "Take the values of known secrets out of what tools answer before a model reads it.",
        |c, _, v| put(&mut c.redact_tool_results, v),
    ),
    row(
        "fermix_core.agent.name",
        Kind::Line { max: 100 },
        "\"fermix\"",
        "What the agent is called.",
        |c, _, v| put(&mut c.agent.name, v),
    ),
    row(
        "fermix_core.agent.guest_persona",
        Kind::Flag,
        "false",
        "Let guests meet the owner's persona; otherwise they meet a neutral one.",
        |c, _, v| put(&mut c.agent.guest_persona, v),
    ),
    row(
        "fermix_core.agent.provider",
        PROVIDERS,
        UNSET,
        "The older way to name the first provider; read only when no block says `primary`.",
        |c, _, v| put(&mut c.agent.provider, v),
    ),
    row(
        "fermix_core.agent.daily_token_budget",
        Kind::Count {
            min: 0,
            max: ANY_COUNT,
        },
        UNSET,
        "Tokens a day over all conversations, checked before each provider call; unset means no limit.",
        |c, _, v| put(&mut c.agent.daily_token_budget, v),
    ),
    row(
        "fermix_core.agent.ask_when_tainted",
        Kind::Flag,
        "false",
        "A turn that has read text from outside (web pages, plugins, MCP servers) asks the owner before it runs code, writes a file that something runs later, or sends data out, web requests included. Where nobody can be asked, such a call is refused. Scheduled runs refuse it in any case, unless the job's own `allowed_tools` names the tool.",
        |c, _, v| put(&mut c.agent.ask_when_tainted, v),
    ),
    row(
        "fermix_core.compaction.enabled",
        Kind::Flag,
        "true",
        "Whether the older part of a long conversation is summarised when it fills the model's window; otherwise it is \
         left out.",
        |c, _, v| put(&mut c.compaction.enabled, v),
    ),
    row(
        "fermix_core.compaction.threshold",
        Kind::Share {
            min: 100,
            max: 1000,
        },
        "0.85",
        "How much of the model's window may be in use before older text is shortened: tool results within a turn, \
         messages between turns.",
        |c, _, v| put(&mut c.compaction.threshold, v),
    ),
    row(
        "fermix_core.compaction.reasoning_effort",
        EFFORTS,
        "\"medium\"",
        "How hard the model thinks when it shortens.",
        |c, _, v| put(&mut c.compaction.reasoning_effort, v),
    ),
    row(
        "fermix_core.personalization.user_name",
        Kind::Line { max: 100 },
        UNSET,
        "How to address the owner.",
        |c, _, v| put(&mut c.personalization.user_name, v),
    ),
    row(
        "fermix_core.personalization.timezone",
        Kind::Zone,
        UNSET,
        "The owner's time zone; unset means that of `[fermix_core] timezone`.",
        |c, _, v| put(&mut c.personalization.timezone, v),
    ),
    row(
        "fermix_core.personalization.communication_style",
        Kind::Text { max: 2000 },
        UNSET,
        "How to talk, in the owner's words.",
        |c, _, v| put(&mut c.personalization.communication_style, v),
    ),
];
