//! Which model runs what, and what models can do.

use super::super::kind::Kind;
use super::super::{KeyDoc, put};
use super::{EFFORTS, MODEL_ID, PROVIDERS, TOKENS, UNSET, first, row};
use crate::settings::{Config, ModelOverride};

/// Fills one field of a named model's corrections.
macro_rules! model {
    ($key:literal, $field:ident, $kind:expr, $doc:literal) => {
        row(
            concat!("fermix_core.models.<model>.", $key),
            $kind,
            UNSET,
            $doc,
            |c, names, v| put(&mut model(c, names).$field, v),
        )
    };
}

pub(super) static ROWS: &[KeyDoc] = &[
    row(
        "fermix_core.routing.subagent_provider",
        PROVIDERS,
        UNSET,
        "Whose model workers run on; unset means the primary's.",
        |c, _, v| put(&mut c.routing.subagent.provider, v),
    ),
    row(
        "fermix_core.routing.subagent_model",
        MODEL_ID,
        UNSET,
        "The model workers run on.",
        |c, _, v| put(&mut c.routing.subagent.model, v),
    ),
    row(
        "fermix_core.routing.subagent_reasoning_effort",
        EFFORTS,
        UNSET,
        "How hard workers think.",
        |c, _, v| put(&mut c.routing.subagent.reasoning_effort, v),
    ),
    row(
        "fermix_core.routing.cron_provider",
        PROVIDERS,
        UNSET,
        "Whose model scheduled runs use; unset means the primary's.",
        |c, _, v| put(&mut c.routing.cron.provider, v),
    ),
    row(
        "fermix_core.routing.cron_model",
        MODEL_ID,
        UNSET,
        "The model scheduled runs use.",
        |c, _, v| put(&mut c.routing.cron.model, v),
    ),
    row(
        "fermix_core.routing.cron_reasoning_effort",
        EFFORTS,
        UNSET,
        "How hard scheduled runs think.",
        |c, _, v| put(&mut c.routing.cron.reasoning_effort, v),
    ),
    model!(
        "context_window",
        context_window,
        TOKENS,
        "The model's window in tokens, instead of the catalog's."
    ),
    model!(
        "max_output",
        max_output,
        TOKENS,
        "The longest answer in tokens, instead of the catalog's."
    ),
    model!(
        "effort_ceiling",
        effort_ceiling,
        EFFORTS,
        "The highest effort the model takes, instead of the catalog's."
    ),
    model!(
        "vision",
        vision,
        Kind::Flag,
        "Whether the model takes images, instead of what the catalog says."
    ),
    row(
        "fermix_core.tools.tool_search.enabled",
        Kind::Flag,
        "true",
        "Show plugin and MCP tools by name and let the model search for their schemas.",
        |c, _, v| put(&mut c.tool_search, v),
    ),
];

fn model<'a>(config: &'a mut Config, names: &[String]) -> &'a mut ModelOverride {
    config.models.entry(first(names)).or_default()
}
