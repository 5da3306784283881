//! Which subcommand a call names.

use fermix_types::ToolError;

use super::grammar::Grammar;

/// The grammar of `command` among those `tool` runs.
pub(super) fn grammar(
    tool: &str,
    commands: &'static [Grammar],
    command: &str,
) -> Result<&'static Grammar, ToolError> {
    let mut all = commands.iter();
    all.find(|grammar| grammar.name == command).ok_or_else(|| {
        let names: Vec<&str> = commands.iter().map(|grammar| grammar.name).collect();
        ToolError::new(
            "unknown_command",
            format!(
                "unknown_command: {}; {tool} runs {}",
                fermix_types::text::shortened(command, 80),
                names.join(", ")
            ),
        )
    })
}

/// What both tools say about files whose filters did not run.
pub(super) const FILTERS_OFF: &str = "filters of the repository's own configuration (such as Git LFS) were not run, so the files they handle may show as changed";
