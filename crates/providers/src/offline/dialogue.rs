//! From a request to the next step: calls, or the answer.

use fermix_types::text::prefix;
use fermix_types::{Message, ToolCall, ToolMessage};

use super::intent::{Step, follow, parse};
use super::ledger::{Call, Ledger, Pending, Record};
use super::perform::{Desk, Done, perform};
use super::toolbox::Toolbox;
use super::words::Request;
use crate::request::ChatRequest;

/// The longest answer, in bytes.
pub(super) const MAX_ANSWER: usize = 16 * 1024;
/// How much of the answer one tool's text may take, in bytes.
const ROOM: usize = 12 * 1024;
/// How many steps of calls one turn has at most.
const MAX_STEPS: usize = 8;
/// How many calls one step has at most.
const MAX_CALLS: usize = 8;
/// How many earlier messages of the person are looked at for what "it" is.
const MAX_LOOKED_BACK: usize = 10;
/// How the loop begins what it says to the model in the person's place.
const LOOP_NOTICE: &str = "[Fermix] ";

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Make these calls.
    Calls(Vec<ToolCall>),
    /// Say this.
    Answer(String),
}

/// Works out what comes next in the conversation.
pub(super) fn next(request: &ChatRequest) -> Next {
    let (text, since) = current(request);
    let (records, steps_taken) = recorded(since);
    let calls_made = records.len();
    let called = records.iter().map(|record| record.name).collect();
    let toolbox = Toolbox::new(&request.tools, &request.system, called);
    let said = Request::read(text);
    let earlier = spoken_of(request, since.len());
    let steps = parse(&said.words, earlier.as_deref(), &toolbox);
    let mut ledger = Ledger::new(records);
    let (mut parts, pending) = work_through(&steps, earlier, &toolbox, &mut ledger);
    if !pending.is_empty() {
        if !toolbox.is_closed() && steps_taken < MAX_STEPS {
            return Next::Calls(numbered(pending, calls_made));
        }
        parts.push(if toolbox.is_closed() {
            "No further tool could be called, so the rest of the request is not done.".to_owned()
        } else {
            format!("I stopped after {MAX_STEPS} steps; the rest of the request is not done.")
        });
    }
    if said.has_more && calls_made > 0 {
        parts.push(
            "I read only the first paragraph of your message as a request; what followed it was taken as text.".to_owned(),
        );
    }
    Next::Answer(bounded(parts.join("\n\n")))
}

/// The person's latest words, and everything since.
fn current(request: &ChatRequest) -> (&str, &[Message]) {
    // When the loop closes a turn it speaks in the person's place, and offers no tools.
    let is_notice = |text: &str| request.tools.is_empty() && text.starts_with(LOOP_NOTICE);
    let latest =
        request
            .messages
            .iter()
            .enumerate()
            .rev()
            .find_map(|(place, message)| match message {
                Message::User(user) if !is_notice(&user.text) => Some((place, user.text.as_str())),
                Message::User(_) | Message::Assistant(_) | Message::Tool(_) => None,
            });
    latest.map_or(("", &[] as &[Message]), |(place, text)| {
        (text, &request.messages[place + 1..])
    })
}

/// The file that the person spoke of before the words that are `since` messages from the end.
fn spoken_of(request: &ChatRequest, since: usize) -> Option<String> {
    let before = &request.messages[..request.messages.len().saturating_sub(since + 1)];
    let earlier: Vec<Request> = before
        .iter()
        .rev()
        .filter_map(|message| match message {
            Message::User(user) if !user.text.starts_with(LOOP_NOTICE) => Some(user.text.as_str()),
            Message::User(_) | Message::Assistant(_) | Message::Tool(_) => None,
        })
        .take(MAX_LOOKED_BACK)
        .map(Request::read)
        .collect();
    follow::file_named(earlier.iter().map(|request| request.words.as_slice()))
}

/// The calls that have a result, in the order they were made, and how many steps they took.
fn recorded(messages: &[Message]) -> (Vec<Record<'_>>, usize) {
    let mut records = Vec::new();
    let mut steps = 0;
    for (place, message) in messages.iter().enumerate() {
        let Message::Assistant(assistant) = message else {
            continue;
        };
        steps += usize::from(!assistant.tool_calls.is_empty());
        let results = || {
            messages[place + 1..]
                .iter()
                .map_while(|message| match message {
                    Message::Tool(result) => Some(result),
                    Message::User(_) | Message::Assistant(_) => None,
                })
        };
        for call in &assistant.tool_calls {
            let result: Option<&ToolMessage> =
                results().find(|result| result.call_id == call.call_id);
            let (text, is_error) = result
                .map_or(("Error: there is no result of this call", true), |result| {
                    (result.text.as_str(), result.is_error)
                });
            records.push(Record {
                name: &call.name,
                arguments: &call.arguments,
                text,
                is_error,
            });
        }
    }
    (records, steps)
}

/// Carries out the steps in order. What only looks may be called ahead; what changes something
/// waits until everything before it is done and has gone well.
fn work_through<'a>(
    steps: &[Step],
    earlier: Option<String>,
    toolbox: &Toolbox<'a>,
    ledger: &mut Ledger<'a>,
) -> (Vec<String>, Vec<Call>) {
    let mut parts = Vec::new();
    let mut pending: Vec<Call> = Vec::new();
    let mut previous: Vec<String> = earlier.into_iter().collect();
    for (place, step) in steps.iter().enumerate() {
        let waits = step.intent.acts() || step.intent.needs_previous();
        if waits && !pending.is_empty() {
            break;
        }
        let mut desk = Desk {
            toolbox,
            ledger,
            previous: &previous,
            room: ROOM / steps.len(),
        };
        match perform(&step.intent, &mut desk) {
            Err(Pending(calls)) => {
                pending.extend(calls);
                if step.intent.acts() {
                    break;
                }
            }
            Ok(Done { text, ok, files }) => {
                if pending.is_empty() {
                    parts.push(text);
                }
                previous = files;
                let rest = &steps[place + 1..];
                let matters = step.intent.acts()
                    || rest
                        .iter()
                        .any(|step| step.intent.acts() || step.intent.needs_previous());
                if !ok && matters && !rest.is_empty() {
                    if pending.is_empty() {
                        let undone: Vec<&str> =
                            rest.iter().map(|step| step.said.as_str()).collect();
                        parts.push(format!(
                            "I stopped there. Not done: {}",
                            fermix_types::text::shortened(&undone.join("; "), 400)
                        ));
                    }
                    break;
                }
            }
        }
    }
    (parts, pending)
}

fn numbered(pending: Vec<Call>, calls_made: usize) -> Vec<ToolCall> {
    let mut distinct: Vec<Call> = Vec::new();
    for call in pending {
        if !distinct.contains(&call) && distinct.len() < MAX_CALLS {
            distinct.push(call);
        }
    }
    distinct
        .into_iter()
        .zip(calls_made + 1..)
        .map(|(call, number)| ToolCall {
            call_id: format!("offline_{number}"),
            name: call.name,
            arguments: call.arguments,
        })
        .collect()
}

fn bounded(text: String) -> String {
    const CUT: &str =
        "\n\n[The answer is longer than this assistant gives at once; ask for a part of it.]";
    if text.len() <= MAX_ANSWER {
        return text;
    }
    format!("{}{CUT}", prefix(&text, MAX_ANSWER - CUT.len()))
}
