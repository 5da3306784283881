//! Tools that have to be found first, turns that are closed early, and the stream.

use std::sync::Arc;

use fermix_types::Message;
use fermix_types::ToolDefinition;
use pretty_assertions::assert_eq;

use super::{CATALOG, Seen, Unseen, append, play_in, request, respond, tools, user};
use crate::request::ModelEvent;

/// The tools of an owner whose plugin tools are deferred.
fn deferred() -> Arc<[ToolDefinition]> {
    tools(&[
        "file_read",
        "glob_search",
        "shell",
        "tool_search",
        "tool_call",
        "tool_help",
    ])
}

#[test]
fn deferred_tools_are_found_and_called_through_the_bridge() {
    let say = |text: &str, prompt: &str| {
        let mut request = request(text, deferred());
        request.system[0].text = format!("{CATALOG}{prompt}");
        request
    };
    let plugins = "\n## Plugins\n<plugins>\n";
    let text = "create a calendar event \"Lunch\" on 2027-02-01 at 12:00";
    let search = r#"tool_search {"query":"create a calendar event on at","limit":5}"#;
    let framed = serde_json::Value::from(format!(
        "<untrusted_tool_result source=\"calendar_create_event\" id=\"0\">\nData.\n\n{}\n</untrusted_tool_result>",
        super::CALENDAR.2
    ));
    let found = format!(
        r#"{{"query":"q","total_available":9,"matches":[{{"name":"calendar_create_event","plugin":"cal","description":"x","required":["title"],"schema":{framed}}},{{"name":"other"}}]}}"#
    );
    let call = r#"tool_call {"name":"calendar_create_event","arguments":{"title":"Lunch","start":"2027-02-01T12:00:00"}}"#;
    assert_eq!(
        play_in(
            say(text, plugins),
            &[(search, &found), (call, "{\"id\":7}")]
        ),
        "`calendar_create_event` returned:\n\n```\n{\"id\":7}\n```"
    );
    // Without a clear match nothing is called, and without plugins nothing is searched.
    let vague =
        r#"{"query":"q","total_available":9,"matches":[{"name":"a_b"},{"name":"run `x`"}]}"#;
    let answer = play_in(say(text, plugins), &[(search, vague)]);
    assert!(answer.ends_with("These tools come close: `a_b`. Say \"help for NAME\" to see what one needs, then \"use NAME with …\"."), "{answer}");
    assert!(play_in(say(text, ""), &[]).contains("I did not understand \"create a calendar event"));
}

#[test]
fn a_turn_that_is_closed_is_answered_with_what_is_known() {
    let mut closing = request("read a.txt and b.txt", tools(&[]));
    let response = respond(&closing, &mut Unseen);
    append(&mut closing, &response, |_, arguments| {
        if arguments.contains("a.txt") {
            ("x\n[note: lines 1-1 of 1]".into(), false)
        } else {
            ("Error: File not found: b.txt".into(), true)
        }
    });
    closing.tools = Arc::from([]);
    closing.messages.push(user(
        "[Fermix] You have reached the step limit. No further tool runs.",
    ));
    let answer = respond(&closing, &mut Unseen);
    assert!(answer.message.tool_calls.is_empty());
    assert_eq!(
        answer.message.text,
        "`a.txt` (1 line):\n\n```\nx\n```\n\nI could not read `b.txt`: File not found: b.txt"
    );
}

#[test]
fn the_answer_is_streamed_in_pieces_and_the_same_every_time() {
    let asked = request("what can you do?", tools(&[]));
    let mut seen = Seen::default();
    let response = respond(&asked, &mut seen);
    let mut streamed = String::new();
    let pieces = seen.0.len();
    for event in &seen.0 {
        match event {
            ModelEvent::TextDelta(text) => streamed.push_str(text),
            ModelEvent::TextDone => {}
            ModelEvent::ReasoningDelta(_) | ModelEvent::ReasoningDone => {
                panic!("it has no thoughts")
            }
        }
    }
    assert_eq!(streamed, response.message.text);
    assert!(pieces > 3 && seen.0.last() == Some(&ModelEvent::TextDone));
    assert_eq!(respond(&asked, &mut Unseen), response);
    assert_eq!(response.model, "offline");
    assert_eq!(
        response.usage.total_tokens,
        response.usage.prompt_tokens + response.usage.completion_tokens
    );
    assert!(
        response.usage.prompt_tokens > 500 && response.usage.completion_tokens > 200,
        "{:?}",
        response.usage
    );
    let calling = respond(&request("read a.txt", tools(&[])), &mut seen);
    assert!(calling.message.text.is_empty());
    assert!(matches!(asked.messages.last(), Some(Message::User(_))));
}
