//! What plugins and MCP servers add to the prompt: their names, within a budget.
//!
//! All of it stands after the stable parts, so that a plugin that comes or goes changes none of
//! them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fermix_types::{Kind, text};

use super::surface::{Surface, is_builtin, one_line};

/// The most that the sections may take, in bytes.
pub(crate) const MAX_NAMES: usize = 4 * 1024;
/// The bridge that finds attached tools.
const SEARCH: &str = "tool_search";

type Groups<'a> = BTreeMap<(Rail, &'a str), Vec<&'a str>>;

impl Surface<'_> {
    /// `## Plugins` and `## MCP servers`: the names of what is attached, at most [`MAX_NAMES`]
    /// bytes in all. Past that a plugin or server is one line with its name and its count, the
    /// biggest first. Empty when nothing is attached.
    pub(crate) fn attached(&self) -> String {
        let mut groups = Groups::new();
        // With deferral off the attached tools stand among the advertised ones.
        let shown = self.0.deferred().iter().chain(self.0.advertised());
        for entry in shown.filter(|entry| !is_builtin(entry)) {
            let (rail, tag) = if entry.kind() == Kind::Mcp && !entry.metadata().is_plugin_owned() {
                (Rail::Server, "server")
            } else {
                (Rail::Plugin, "plugin")
            };
            let group = entry.metadata().tag(tag).unwrap_or("other");
            groups
                .entry((rail, group))
                .or_default()
                .push(entry.name().as_str());
        }
        if groups.is_empty() {
            return String::new();
        }
        let lines: Vec<(Rail, String)> = groups
            .iter_mut()
            .map(|((rail, group), names)| {
                names.sort_unstable();
                (*rail, rail.line(group, &names.join(", ")))
            })
            .collect();
        let text = self.sections(&lines, "");
        if text.len() <= MAX_NAMES {
            return text;
        }
        self.counted(&groups)
    }

    /// The groups with their counts, as many as there is room for, and how many there was none for.
    fn counted(&self, groups: &Groups<'_>) -> String {
        let mut biggest_first: Vec<_> = groups.iter().collect();
        biggest_first.sort_by_key(|(group, names)| (Reverse(names.len()), **group));
        let omission = |count: usize| {
            if self.offers(SEARCH) {
                format!("(+{count} more; find them with `{SEARCH}`)\n")
            } else {
                format!("(+{count} more)\n")
            }
        };
        let frame = [(Rail::Plugin, String::new()), (Rail::Server, String::new())];
        let frame = self.sections(&frame, &omission(groups.len()));
        let mut room = MAX_NAMES.saturating_sub(frame.len());
        let mut lines = Vec::new();
        for ((rail, group), names) in biggest_first {
            let tools = if names.len() == 1 { "tool" } else { "tools" };
            let line = rail.line(group, &format!("{} {tools}", names.len()));
            let Some(left) = room.checked_sub(line.len()) else {
                break;
            };
            room = left;
            lines.push((*rail, line));
        }
        let left_out = groups.len() - lines.len();
        let end = if left_out > 0 {
            omission(left_out)
        } else {
            String::new()
        };
        self.sections(&lines, &end)
    }

    /// The sections around `lines`, each line in the section of its rail, and `end` after all.
    fn sections(&self, lines: &[(Rail, String)], end: &str) -> String {
        let of = |wanted: Rail| -> String {
            lines
                .iter()
                .filter(|(rail, _)| *rail == wanted)
                .map(|(_, line)| line.as_str())
                .collect()
        };
        let has = |wanted: Rail| lines.iter().any(|(rail, _)| *rail == wanted);
        let mut text = String::new();
        for (rail, heading, open, close) in [
            (Rail::Plugin, "## Plugins\n", "<plugins>\n", "</plugins>\n"),
            (Rail::Server, "## MCP servers\n", "", ""),
        ] {
            if has(rail) {
                let is_first = text.is_empty();
                text.push_str(heading);
                if is_first {
                    text.push_str(&self.how_to_use_attached());
                }
                text.push_str(open);
                text.push_str(&of(rail));
                text.push_str(close);
            }
        }
        text.push_str(end);
        text
    }

    /// How the attached tools stand to the built-in ones, as far as this turn has those.
    fn how_to_use_attached(&self) -> String {
        let mut text = "These integrations own their service".to_owned();
        let others: Vec<String> = ["web_search", "web_fetch", "browser", "shell"]
            .iter()
            .filter(|name| self.offers(name))
            .map(|name| format!("`{name}`"))
            .collect();
        if let [rest @ .., last] = others.as_slice() {
            text.push_str(": prefer their tools over ");
            if !rest.is_empty() {
                text.push_str(&rest.join(", "));
                text.push_str(" and ");
            }
            text.push_str(last);
        }
        text.push_str(".\n");
        if self.offers(SEARCH) && !self.0.deferred().is_empty() {
            text.push_str(
                "Their schemas are not listed here: find a tool with `tool_search`, then call it by its name.\n",
            );
        }
        text
    }
}

/// How a group of tools is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rail {
    Plugin,
    Server,
}

impl Rail {
    fn line(self, group: &str, tools: &str) -> String {
        let group = escaped(group);
        match self {
            Self::Plugin => format!("  <plugin name=\"{group}\">{tools}</plugin>\n"),
            Self::Server => format!("- {group}: {tools}\n"),
        }
    }
}

/// A group's name as attribute text, at most 64 bytes, on one line.
fn escaped(name: &str) -> String {
    text::prefix(&one_line(name), 64)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
