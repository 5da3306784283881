//! What a turn tells, in the words of the daemon's socket. A client that runs a turn in its own
//! process reads the same events as one that asks the daemon.

use fermix_agent::{TurnEvent, TurnReport, TurnStatus};
use fermix_api::{Done, Event, ToolPhase};
use fermix_capability::ApprovalPrompt;
use fermix_channels::commands::Outcome;
use serde_json::{Map, Value, json};

/// The event for a client, when there is one.
pub fn of_turn(event: TurnEvent) -> Option<Event> {
    match event {
        TurnEvent::TextDelta(text) => Some(Event::Delta { text }),
        TurnEvent::TextDone => Some(Event::TextDone {}),
        TurnEvent::ToolStart { call_id, name } => Some(Event::Tool {
            call_id,
            name,
            phase: ToolPhase::Started,
        }),
        TurnEvent::ToolFinish { call_id, name, ok } => Some(Event::Tool {
            call_id,
            name,
            phase: if ok {
                ToolPhase::Succeeded
            } else {
                ToolPhase::Failed
            },
        }),
        TurnEvent::SessionStarted { .. }
        | TurnEvent::IterationStarted(_)
        | TurnEvent::ProviderStart
        | TurnEvent::ProviderResponse { .. }
        | TurnEvent::ReasoningDelta(_)
        | TurnEvent::ReasoningDone => None,
    }
}

/// The event that shows a prompt.
pub fn of_prompt(prompt: &ApprovalPrompt) -> Event {
    Event::Approval {
        token: prompt.token.clone(),
        title: prompt.title.clone(),
        body: prompt.body.clone(),
        choices: prompt
            .choices
            .iter()
            .map(|choice| choice.as_str().to_owned())
            .collect(),
        expires_in_ms: u64::try_from(prompt.expires_in.as_millis()).unwrap_or(u64::MAX),
    }
}

/// The end of a turn.
pub fn of_report(report: &TurnReport, session: &str) -> Done {
    let members = json!({
        "turn_id": report.turn_id,
        "trace_session": report.session_id,
        "provider": report.provider,
        "model": report.model,
        "iterations": report.iterations,
        "tool_calls": report.tool_calls,
        "tool_failures": report.tool_failures,
        "tokens": report.tokens,
    });
    let is_answer = report.status == TurnStatus::Completed;
    Done {
        note: report.note.clone(),
        report: match members {
            Value::Object(members) => members,
            _ => Map::new(),
        },
        ..ended(is_answer, report.response.clone(), session)
    }
}

/// The end of a slash command.
pub fn of_command(outcome: Outcome, session: &str) -> Done {
    match outcome {
        Ok(text) => ended(true, text, session),
        Err(refused) => ended(false, refused.0, session),
    }
}

fn ended(is_answer: bool, text: String, session: &str) -> Done {
    let (status, response, error) = if is_answer {
        ("ok", Some(text), None)
    } else {
        ("error", None, Some(text))
    };
    Done {
        status: status.to_owned(),
        response,
        error,
        session_id: session.to_owned(),
        ..Done::default()
    }
}
