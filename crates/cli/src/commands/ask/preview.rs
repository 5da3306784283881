//! What a person at a terminal sees while a turn runs: the answer as it is written, on standard
//! output, and the tools that run, on standard error.

use std::io::{IsTerminal as _, Write as _};

use fermix_daemon::TurnEvent;
use tokio::sync::mpsc::Receiver;

use crate::output;

/// Shows events until the turn ends. Returns the text of the last provider call that is on the
/// terminal now and is not yet followed by a line break.
pub async fn show(mut events: Receiver<TurnEvent>) -> String {
    let writes_text = output::is_interactive();
    let names_tools = std::io::stderr().is_terminal();
    let mut shown = String::new();
    while let Some(event) = events.recv().await {
        match event {
            TurnEvent::TextDelta(text) if writes_text => {
                output::raw(&text);
                shown.push_str(&text);
            }
            TurnEvent::ToolStart { name, .. } => {
                if !shown.is_empty() {
                    output::line("");
                    shown.clear();
                }
                if names_tools {
                    let _ = writeln!(std::io::stderr(), "… {name}");
                }
            }
            TurnEvent::IterationStarted(_) => {
                if !shown.is_empty() {
                    output::line("");
                    shown.clear();
                }
            }
            TurnEvent::SessionStarted { .. }
            | TurnEvent::ProviderStart
            | TurnEvent::ProviderResponse { .. }
            | TurnEvent::TextDelta(_)
            | TurnEvent::TextDone
            | TurnEvent::ReasoningDelta(_)
            | TurnEvent::ReasoningDone
            | TurnEvent::ToolFinish { .. } => {}
        }
    }
    shown
}
