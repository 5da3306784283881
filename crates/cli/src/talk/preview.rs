//! What a person at a terminal sees while a turn runs: the answer as it is written, on standard
//! output, and the tools that run, on standard error.

use std::io::{IsTerminal as _, Write as _};

use fermix_api::{Event, ToolPhase};

use crate::output;

/// Shows events.
pub(super) struct Preview {
    writes_text: bool,
    names_tools: bool,
    shown: String,
    /// The text on the terminal is complete: what comes next is another one.
    is_complete: bool,
}

impl Preview {
    /// A preview for whoever is at the terminal. `is_quiet` shows nothing.
    pub(super) fn new(is_quiet: bool) -> Self {
        Self {
            writes_text: !is_quiet && output::is_interactive(),
            names_tools: !is_quiet && std::io::stderr().is_terminal(),
            shown: String::new(),
            is_complete: false,
        }
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &Event) {
        match event {
            Event::Delta { text } if self.writes_text => {
                if self.is_complete {
                    self.break_line();
                }
                output::raw(text);
                self.shown.push_str(text);
            }
            Event::TextDone {} => self.is_complete = true,
            Event::Tool {
                name,
                phase: ToolPhase::Started,
                ..
            } => {
                self.break_line();
                if self.names_tools {
                    let _ = writeln!(std::io::stderr(), "… {}", output::visible(name));
                }
            }
            Event::Notice { text } => {
                self.break_line();
                output::notice(text);
            }
            Event::Delta { .. } | Event::Tool { .. } | Event::Approval { .. } | Event::Done(_) => {}
        }
    }

    /// Ends the line that is being written.
    pub(super) fn break_line(&mut self) {
        if !self.shown.is_empty() {
            output::line("");
            self.shown.clear();
        }
        self.is_complete = false;
    }

    /// The text that is on the terminal and not yet followed by a line break.
    pub(super) fn into_shown(self) -> String {
        self.shown
    }
}
