//! What the fake model answers, said once for all wires.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use crate::request::Seen;

/// Token counts of one answer, as the provider would report them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenCounts {
    /// Prompt tokens, cached ones included.
    pub prompt: u64,
    /// Tokens of the answer.
    pub completion: u64,
    /// Prompt tokens read from a cache; `None` leaves the field out of the answer.
    pub cached: Option<u64>,
    /// Prompt tokens written to a cache; only the Messages wire can report them.
    pub cache_creation: Option<u64>,
}

impl TokenCounts {
    /// Counts without any word about a cache.
    pub fn new(prompt: u64, completion: u64) -> Self {
        Self {
            prompt,
            completion,
            cached: None,
            cache_creation: None,
        }
    }

    /// Adds cache counts.
    #[must_use]
    pub fn with_cache(mut self, cached: u64, cache_creation: u64) -> Self {
        self.cached = Some(cached);
        self.cache_creation = Some(cache_creation);
        self
    }
}

/// How the token counts of a step come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageReport {
    /// A quarter of the bytes that went each way.
    Estimated,
    /// The script's own numbers.
    Fixed(TokenCounts),
    /// The answer says nothing about tokens.
    Absent,
}

/// One call the model makes; the arguments are text because a model may write anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptedCall {
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// What the model says in one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) reasoning: Vec<String>,
    /// `None` means no message at all, `Some("")` a message without content.
    pub(crate) text: Option<String>,
    pub(crate) calls: Vec<ScriptedCall>,
    /// The provider leaves out the ids of the calls.
    pub(crate) without_call_ids: bool,
    /// The answer ends because it ran into its length limit.
    pub(crate) truncated: bool,
    /// The provider breaks the answer off because of what it says.
    pub(crate) declined: bool,
    /// The provider declares a failure after the content.
    pub(crate) failure: Option<String>,
}

/// An answer that is not a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
    /// Replaces the body that the wire would use for `message`.
    pub(crate) body: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Reply(Reply),
    Refusal(Refusal),
}

/// How a stream ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The connection breaks.
    Cut,
    /// The body ends properly, without the terminal event.
    Silent,
    /// The connection stays open and nothing more arrives.
    Stall,
}

/// One answer of the fake model, with everything that may go wrong on its way.
///
/// ```
/// # use fermix_testkit::Step;
/// # use serde_json::json;
/// let script = [
///     Step::call("file_read", json!({"path": "notes.txt"})),
///     Step::status(503).times(2),
///     Step::say("The notes are empty."),
/// ];
/// # let _ = script;
/// ```
#[derive(Clone, Debug)]
pub struct Step {
    pub(crate) outcome: Outcome,
    pub(crate) usage: UsageReport,
    pub(crate) delay: Duration,
    pub(crate) trickle: Option<(usize, Duration)>,
    pub(crate) ending: Option<(usize, Ending)>,
    pub(crate) garbage: Vec<(usize, Vec<u8>)>,
    pub(crate) carriage_returns: bool,
    repeat: usize,
}

impl Step {
    fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            usage: UsageReport::Estimated,
            delay: Duration::ZERO,
            trickle: None,
            ending: None,
            garbage: Vec::new(),
            carriage_returns: false,
            repeat: 1,
        }
    }

    fn reply(reply: Reply) -> Self {
        Self::new(Outcome::Reply(reply))
    }

    /// The model answers with text and is done.
    pub fn say(text: impl Into<String>) -> Self {
        Self::reply(Reply {
            text: Some(text.into()),
            ..Reply::default()
        })
    }

    /// The model makes one call.
    pub fn call(name: impl Into<String>, arguments: Value) -> Self {
        Self::raw_call(name, arguments.to_string())
    }

    /// The model makes several calls in one step, in this order.
    pub fn calls<N: Into<String>>(calls: impl IntoIterator<Item = (N, Value)>) -> Self {
        Self::raw_calls(
            calls
                .into_iter()
                .map(|(name, arguments)| (name, arguments.to_string())),
        )
    }

    /// The model writes text and makes one call.
    pub fn say_and_call(
        text: impl Into<String>,
        name: impl Into<String>,
        arguments: Value,
    ) -> Self {
        Self::call(name, arguments).with_text(text)
    }

    /// The model makes one call whose arguments are exactly this text: unparseable, merged, empty.
    pub fn raw_call(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::raw_calls([(name, arguments)])
    }

    /// Several calls whose arguments are exactly these texts.
    pub fn raw_calls<N: Into<String>, A: Into<String>>(
        calls: impl IntoIterator<Item = (N, A)>,
    ) -> Self {
        let calls = calls
            .into_iter()
            .map(|(name, arguments)| ScriptedCall {
                name: name.into(),
                arguments: arguments.into(),
            })
            .collect();
        Self::reply(Reply {
            calls,
            ..Reply::default()
        })
    }

    /// The model answers with a message that has no content.
    pub fn empty() -> Self {
        Self::say("")
    }

    /// The model finishes without any message or output item.
    pub fn nothing() -> Self {
        Self::reply(Reply::default())
    }

    /// The server answers with an HTTP error in the wire's own form.
    pub fn status(status: u16) -> Self {
        Self::new(Outcome::Refusal(Refusal {
            status,
            message: format!("the fake model answers {status}"),
            body: None,
            headers: Vec::new(),
        }))
    }

    /// Adds text to a step that makes calls.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        self.in_reply(|reply| reply.text = Some(text.into()))
    }

    /// The model thinks aloud first, in these pieces.
    #[must_use]
    pub fn with_reasoning<T: Into<String>>(self, pieces: impl IntoIterator<Item = T>) -> Self {
        self.in_reply(|reply| reply.reasoning = pieces.into_iter().map(Into::into).collect())
    }

    /// The provider leaves out the ids of the calls (the Chat Completions wire of some servers).
    #[must_use]
    pub fn without_call_ids(self) -> Self {
        self.in_reply(|reply| reply.without_call_ids = true)
    }

    /// The answer ends because it ran into its length limit.
    #[must_use]
    pub fn truncated(self) -> Self {
        self.in_reply(|reply| reply.truncated = true)
    }

    /// The provider breaks the answer off because of what it says: `refusal`, `content_filter`.
    #[must_use]
    pub fn declined(self) -> Self {
        self.in_reply(|reply| reply.declined = true)
    }

    /// The provider declares a failure inside the stream, after the content of the step.
    #[must_use]
    pub fn then_fail(self, message: impl Into<String>) -> Self {
        self.in_reply(|reply| reply.failure = Some(message.into()))
    }

    /// The words inside the error body of a status step.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> Self {
        self.in_refusal(|refusal| refusal.message = message.into())
    }

    /// The whole body of a status step, instead of the wire's own form.
    #[must_use]
    pub fn with_body(self, body: impl Into<String>) -> Self {
        self.in_refusal(|refusal| refusal.body = Some(body.into()))
    }

    /// A header of a status step, for example `retry-after`.
    #[must_use]
    pub fn with_header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.in_refusal(|refusal| refusal.headers.push((name.into(), value.into())))
    }

    /// Answers this many requests in a row, at least one.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.repeat = count.max(1);
        self
    }

    /// The token counts to report.
    #[must_use]
    pub fn with_usage(mut self, counts: TokenCounts) -> Self {
        self.usage = UsageReport::Fixed(counts);
        self
    }

    /// Reports no token counts.
    #[must_use]
    pub fn without_usage(mut self) -> Self {
        self.usage = UsageReport::Absent;
        self
    }

    /// Waits before the first byte of the answer, headers included.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sends the stream in pieces of `bytes`, with a pause after each.
    #[must_use]
    pub fn trickle(mut self, bytes: usize, pause: Duration) -> Self {
        self.trickle = Some((bytes.max(1), pause));
        self
    }

    /// Breaks the connection after this many events.
    #[must_use]
    pub fn cut_after(mut self, events: usize) -> Self {
        self.ending = Some((events, Ending::Cut));
        self
    }

    /// Ends the body properly after this many events, without the terminal one.
    #[must_use]
    pub fn end_after(mut self, events: usize) -> Self {
        self.ending = Some((events, Ending::Silent));
        self
    }

    /// Falls silent after this many events and keeps the connection open.
    #[must_use]
    pub fn stall_after(mut self, events: usize) -> Self {
        self.ending = Some((events, Ending::Stall));
        self
    }

    /// Puts raw bytes into the stream after this many events, for example a comment or a broken
    /// event. The caller writes the line ends.
    #[must_use]
    pub fn with_raw(mut self, after_events: usize, bytes: impl Into<Vec<u8>>) -> Self {
        self.garbage.push((after_events, bytes.into()));
        self
    }

    /// Puts an event whose data is no JSON into the stream after the first event.
    #[must_use]
    pub fn malformed(self) -> Self {
        self.with_raw(1, "data: {\"type\": \n\n")
    }

    /// Ends the stream's lines with CR LF.
    #[must_use]
    pub fn with_carriage_returns(mut self) -> Self {
        self.carriage_returns = true;
        self
    }

    fn in_reply(mut self, change: impl FnOnce(&mut Reply)) -> Self {
        match &mut self.outcome {
            Outcome::Reply(reply) => change(reply),
            Outcome::Refusal(refusal) => {
                panic!(
                    "a step that answers {} has no reply to change",
                    refusal.status
                )
            }
        }
        self
    }

    fn in_refusal(mut self, change: impl FnOnce(&mut Refusal)) -> Self {
        match &mut self.outcome {
            Outcome::Refusal(refusal) => change(refusal),
            Outcome::Reply(_) => panic!("only a status step has a body and headers to change"),
        }
        self
    }
}

type Answer = Box<dyn FnMut(&Seen) -> Step + Send>;

/// Where the answers come from: a queue that may run out, or a function of the request.
pub struct Script(Source);

enum Source {
    Queue(Mutex<VecDeque<Step>>),
    Function(Mutex<Answer>),
}

impl Script {
    /// Answers every request with what `answer` returns for it; never runs out.
    pub fn each(answer: impl FnMut(&Seen) -> Step + Send + 'static) -> Self {
        Self(Source::Function(Mutex::new(Box::new(answer))))
    }

    /// The answer to `seen`, or why there is none.
    pub(crate) fn next(&self, seen: &Seen) -> Result<Step, String> {
        match &self.0 {
            Source::Queue(steps) => {
                let mut steps = steps
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                let Some(step) = steps.front_mut() else {
                    return Err("the script has no step left for this request".to_owned());
                };
                if step.repeat > 1 {
                    step.repeat -= 1;
                    return Ok(step.clone());
                }
                Ok(steps.pop_front().expect("the front was there a moment ago"))
            }
            Source::Function(answer) => {
                let mut answer = answer
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer(seen)))
                    .map_err(|panic| format!("the script panicked: {}", panic_text(&*panic)))
            }
        }
    }

    /// How many answers are left; a function never runs out and has none "left".
    pub(crate) fn remaining(&self) -> usize {
        match &self.0 {
            Source::Queue(steps) => {
                let steps = steps
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                steps.iter().map(|step| step.repeat).sum()
            }
            Source::Function(_) => 0,
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no text")
}

impl From<Step> for Script {
    fn from(step: Step) -> Self {
        Self::from(vec![step])
    }
}

impl From<Vec<Step>> for Script {
    fn from(steps: Vec<Step>) -> Self {
        Self(Source::Queue(Mutex::new(steps.into())))
    }
}

impl<const N: usize> From<[Step; N]> for Script {
    fn from(steps: [Step; N]) -> Self {
        Self::from(Vec::from(steps))
    }
}
