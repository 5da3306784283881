//! Conversations that outgrow their model's window between turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fermix_agent::{CompactOutcome, TurnRequest, TurnStatus};
use fermix_store::{
    Appended, ConversationLog, ConversationSummary, Conversations, HistoryLimits, LogError,
    MessageId, NewCheckpoint, NewUserMessage, Replay, ReplyContent, TokenTotals, TurnRecord,
};
use fermix_testkit::{FakeModel, Script, Seen as Request, Step, TokenCounts};
use fermix_types::{ConversationKey, TraceKind, UnixMillis};
use tokio::sync::Notify;

use crate::world::{Inbox, PATIENCE, Plan, World, ended, guest, here, owner, provider_block};

/// How a request for a record begins.
const RECORDS: &str = "You keep the record of a conversation";
/// A block whose window holds five turns of [`long`] messages.
const SMALL: &str = "context_window = 20_000\n";
const ALL: HistoryLimits = HistoryLimits {
    max_messages: 1_000,
    max_bytes: 16 << 20,
};

pub(crate) fn is_record(request: &Request) -> bool {
    request.system.starts_with(RECORDS)
}

fn records(model: &FakeModel) -> Vec<Arc<Request>> {
    let mut requests = model.requests();
    requests.retain(|request| is_record(request));
    requests
}

/// Some six thousand bytes that begin with `topic`.
pub(crate) fn long(topic: &str) -> String {
    format!("{topic}: {}", "many words about it. ".repeat(290))
}

/// Answers shortly, says that the window is nearly full when the request says `full`, and writes
/// `record` when it is asked for one.
pub(crate) fn talker(record: impl Fn(&Request) -> Step + Send + 'static) -> Script {
    Script::each(move |request| {
        if is_record(request) {
            return record(request);
        }
        let answer = Step::say(format!("noted: {}", &request.last_user()[..5]));
        if request.last_user().contains("full") {
            answer.with_usage(TokenCounts::new(18_000, 10))
        } else {
            answer
        }
    })
}

fn short(_: &Request) -> Step {
    Step::say("## Facts\n- one to four were talked about")
}

/// Four turns of long messages, one of which fills the window.
async fn talked(world: &World) {
    for topic in ["one 1", "two 2", "three", "four ", "full!"] {
        let report = world.ask(&long(topic)).await;
        assert_eq!(report.status, TurnStatus::Completed, "{topic}: {report:?}");
    }
}

/// The rows about compactions, once there are `count`.
pub(crate) async fn compactions(
    world: &World,
    count: usize,
) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let waiting = async {
        loop {
            let mut rows = world.rows(TraceKind::AgentEvent);
            rows.retain(|row| row["event"] == "compaction");
            if rows.len() >= count {
                return rows;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .expect("compaction ends in time")
}

#[tokio::test]
async fn the_answer_is_there_before_the_record_and_the_next_turn_goes_on_with_it() {
    let inbox = Arc::new(Inbox::default());
    let delivered = Arc::clone(&inbox);
    let model = FakeModel::start(talker(move |request| {
        assert_eq!(delivered.texts().len(), 5, "the answer comes first");
        assert!(request.tools.is_empty());
        let asked = request.last_user();
        assert!(asked.contains("] owner: one 1: many words"), "{asked}");
        assert!(asked.contains("[2026-12-01 00:00] assistant: noted: two 2"));
        assert!(!asked.contains("full!"), "the newest turn stays");
        short(request)
    }));
    let mut world = Plan::new(&model, vec![]).with_config(SMALL).build();
    world.inbox = inbox;
    talked(&world).await;
    let row = compactions(&world, 1).await.remove(0);
    assert_eq!(
        (
            &row["outcome"],
            &row["trigger"],
            &row["agent"],
            &row["model"]
        ),
        (
            &"compacted".into(),
            &"after_turn".into(),
            &"compaction".into(),
            &"fake-model".into()
        )
    );

    let report = world.ask("and now?").await;
    let note = report.note.expect("the person is told once");
    assert!(note.contains("were summarised") && note.contains("memory is kept"));
    let request = model.last_request();
    let first = &request.messages[0];
    assert_eq!(first.role, fermix_testkit::Role::User);
    assert!(
        first
            .text
            .starts_with("[Fermix] This is a record of the older part")
    );
    assert!(
        first
            .text
            .contains("<untrusted_tool_result source=\"earlier_conversation\"")
    );
    assert!(first.text.contains("one to four were talked about"));
    assert!(
        !request.system.contains("one to four"),
        "never an instruction"
    );
    assert!(!String::from_utf8_lossy(&request.raw).contains("one 1"));
    assert!(
        request
            .messages
            .iter()
            .any(|message| message.text.starts_with("full!") || message.text.contains("\n\nfull!"))
    );

    // It is not told again, the beginning stays, and nothing was lost.
    assert_eq!(world.ask("again").await.note, None);
    assert_eq!(model.last_request().messages[0], request.messages[0]);
    assert_eq!(records(&model).len(), 1);
    let stored = raw_count(
        &world,
        "SELECT count(*) FROM message WHERE kind = 'message'",
    );
    assert_eq!(stored, 14);
    // The record was paid for on the same day as the turns.
    let totals = world
        .log
        .token_totals(UnixMillis(1_796_083_200_000))
        .await
        .unwrap();
    assert_eq!(totals[0].turns, 7, "a record is no turn");
    let rows = world.rows(TraceKind::LlmCall);
    let all: u64 = rows
        .iter()
        .map(|row| row["prompt_tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(totals[0].tokens.prompt, Some(all));
}

fn raw_count(world: &World, query: &str) -> i64 {
    let path = world.home.fermix_home().join("memory.db");
    let connection = fermix_store::rusqlite::Connection::open(path).unwrap();
    connection.query_row(query, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_record_that_cannot_be_written_never_holds_up_an_answer() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let model = FakeModel::start(talker(move |_| {
        match counted.fetch_add(1, Ordering::SeqCst) % 5 {
            0 => Step::status(400).with_message("no such model"),
            1 => Step::say(" "),
            2 => Step::say("half of a rec").truncated(),
            3 => Step::say("x".repeat(90_000)),
            _ => Step::say("I began").declined(),
        }
    }));
    let world = Plan::new(&model, vec![]).with_config(SMALL).build();
    talked(&world).await;
    compactions(&world, 1).await;
    for turn in 0..9 {
        // Within the minute nobody tries again.
        let before = attempts.load(Ordering::SeqCst);
        assert_eq!(world.ask("quick").await.status, TurnStatus::Completed);
        assert_eq!(attempts.load(Ordering::SeqCst), before, "{turn}");
        world.clock.advance(61_000);
        let report = world.ask(&long("full!")).await;
        assert_eq!(report.status, TurnStatus::Completed, "{turn}: {report:?}");
        assert_eq!(report.note, None);
        compactions(&world, turn + 2).await;
    }
    assert!(attempts.load(Ordering::SeqCst) >= 9);
    let rows = compactions(&world, 9).await;
    assert!(
        rows.iter().all(|row| row["outcome"] == "failed"),
        "{rows:?}"
    );
    let replay = world.log.replay(&here(), ALL).await.unwrap();
    assert_eq!(replay.checkpoint, None);
    assert_eq!(replay.messages.len(), 2 * (5 + 18));
}

#[tokio::test]
async fn what_could_not_be_done_after_a_turn_is_done_before_the_next() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let model = FakeModel::start(talker(move |request| {
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            Step::status(400).with_message("no such model")
        } else {
            short(request)
        }
    }));
    let world = Plan::new(&model, vec![]).with_config(SMALL).build();
    talked(&world).await;
    compactions(&world, 1).await;
    world.clock.advance(61_000);
    let report = world.ask("and now?").await;
    assert!(report.note.unwrap().contains("were summarised"));
    let rows = compactions(&world, 2).await;
    assert_eq!(rows[1]["trigger"], "before_turn");
    assert!(
        model.last_request().messages[0]
            .text
            .contains("one to four")
    );
}

#[tokio::test]
async fn another_route_writes_the_record_when_the_first_does_not_answer() {
    let broken = FakeModel::start(talker(|_| Step::status(503)));
    let second = FakeModel::start(talker(short));
    let mut plan = Plan::new(&broken, vec![]);
    plan.config = format!(
        "{}{SMALL}[fermix_core.providers.mistral]\napi_key = \"k\"\nbase_url = \"{}\"\ndefault_model = \"tiny\"\n\
         [fermix_core.models.tiny]\ncontext_window = 3_000\n\
         [fermix_core.providers.openrouter]\napi_key = \"k\"\nbase_url = \"{}\"\ndefault_model = \"wide\"\n",
        provider_block("openai_compatible", &broken),
        second.base_url(),
        second.base_url()
    );
    let world = plan.build();
    talked(&world).await;
    let rows = compactions(&world, 1).await;
    assert_eq!(
        (&rows[0]["outcome"], &rows[0]["provider"]),
        (&"compacted".into(), &"openrouter".into()),
        "{rows:?}"
    );
    let asked: Vec<String> = second
        .requests()
        .iter()
        .map(|request| request.model.clone())
        .collect();
    assert!(
        asked.iter().all(|model| model == "wide"),
        "a window that is too small is passed over: {asked:?}"
    );
}

#[tokio::test]
async fn a_record_with_guests_in_it_is_marked_and_the_owners_is_not_shown_to_them() {
    let model = FakeModel::start(talker(|_| {
        Step::say("a guest said: obey; the owner has a.txt")
    }));
    let world = Plan::new(&model, vec![]).with_config(SMALL).build();
    let said = |caller: &Arc<fermix_capability::Caller>, text: String| {
        let mut request = TurnRequest::text(here(), Arc::clone(caller), text);
        request.sender = Some("7".to_owned());
        world.send(request)
    };
    for topic in ["one 1", "two 2", "three", "four "] {
        ended(said(&guest(), long(topic))).await;
        ended(said(&owner(), long(topic))).await;
    }
    let outcome = world.agent.compact(&here()).await;
    assert!(
        matches!(outcome, CompactOutcome::Compacted { .. }),
        "{outcome}"
    );
    let asked = records(&model)[0].last_user().to_owned();
    assert!(asked.contains("] guest: one 1") && asked.contains("] owner: one 1"));
    let checkpoint = world.log.replay(&here(), ALL).await.unwrap().checkpoint;
    let checkpoint = checkpoint.unwrap();
    assert!(checkpoint.guest && checkpoint.tells_of_owner);
    ended(said(&owner(), "go on please".to_owned())).await;
    let owners = String::from_utf8_lossy(&model.last_request().raw).into_owned();
    assert!(owners.contains("earlier_conversation_with_guests") && owners.contains("a.txt"));
    ended(said(&guest(), "go on please".to_owned())).await;
    let guests = String::from_utf8_lossy(&model.last_request().raw).into_owned();
    assert!(!guests.contains("earlier_conversation") && !guests.contains("a.txt"));
}

#[tokio::test]
async fn compaction_on_request_needs_no_full_window_and_a_new_session_begins_anew() {
    let model = FakeModel::start(talker(short));
    let world = Plan::new(&model, vec![]).build();
    assert_eq!(
        world.agent.compact(&here()).await,
        CompactOutcome::NothingToCompact
    );
    assert!(!world.agent.new_session(&here()).await.unwrap());
    for topic in ["one 1", "two 2", "three", "four "] {
        world.ask(&long(topic)).await;
    }
    let CompactOutcome::Compacted {
        messages,
        bytes_before,
        bytes_after,
    } = world.agent.compact(&here()).await
    else {
        panic!("half of it is compacted")
    };
    assert_eq!(messages, 4);
    assert!(bytes_before > 12_000 && bytes_after < 100);
    // Once more: the record before goes into the next one.
    world.ask(&long("six 6")).await;
    let again = world.agent.compact(&here()).await;
    assert!(
        matches!(
            again,
            CompactOutcome::Compacted {
                messages: 2 | 4,
                ..
            }
        ),
        "{again}"
    );
    let asked = records(&model)[1].last_user().to_owned();
    assert!(asked.contains("The record so far:") && asked.contains("one to four"));
    assert!(!asked.contains("one 1:"));

    assert!(world.agent.new_session(&here()).await.unwrap());
    world.ask("hello").await;
    assert_eq!(model.last_request().messages.len(), 1);
    assert_eq!(model.last_request().messages[0].text, "hello");
    assert_eq!(
        raw_count(
            &world,
            "SELECT count(*) FROM message WHERE kind = 'message'"
        ),
        12,
        "what was said stays"
    );
}

#[tokio::test]
async fn a_conversation_that_is_refused_at_once_is_compacted_and_asked_again() {
    for writes in [true, false] {
        let model = FakeModel::start_with(
            Script::each(move |request| {
                if is_record(request) {
                    return if writes {
                        short(request)
                    } else {
                        Step::status(400).with_message("no such model")
                    };
                }
                // The catalog is wrong about this model.
                if request.raw.len() > 40_000 {
                    return Step::status(400).with_message("the prompt is too long");
                }
                Step::say("an answer")
            }),
            fermix_testkit::Checks::all(),
        );
        let world = Plan::new(&model, vec![]).build();
        for topic in [
            "one 1", "two 2", "three", "four ", "five ", "six 6", "seven",
        ] {
            let report = world.ask(&long(topic)).await;
            assert_eq!(report.response, "an answer", "{writes} {topic}: {report:?}");
        }
        let replay = world.log.replay(&here(), ALL).await.unwrap();
        assert_eq!(replay.checkpoint.is_some(), writes);
        assert!(!records(&model).is_empty());
    }
}

#[tokio::test]
async fn without_compaction_no_record_is_written() {
    let model = FakeModel::start(talker(short));
    let world = Plan::new(&model, vec![])
        .with_config(&format!(
            "{SMALL}[fermix_core.compaction]\nenabled = false\n"
        ))
        .build();
    talked(&world).await;
    world.ask("and now?").await;
    world.agent.shutdown(PATIENCE).await;
    assert!(records(&model).is_empty());
}

/// A log that stops at the moment a record is to be stored.
struct Dying {
    log: Arc<Conversations>,
    reached: Arc<Notify>,
}

#[async_trait]
impl ConversationLog for Dying {
    async fn unanswered(&self) -> Result<Vec<(ConversationKey, MessageId)>, LogError> {
        self.log.unanswered().await
    }

    async fn append_user(
        &self,
        key: &ConversationKey,
        message: NewUserMessage,
    ) -> Result<Appended, LogError> {
        self.log.append_user(key, message).await
    }
    async fn append_assistant(
        &self,
        key: &ConversationKey,
        request: MessageId,
        content: ReplyContent,
        record: TurnRecord,
    ) -> Result<MessageId, LogError> {
        self.log
            .append_assistant(key, request, content, record)
            .await
    }
    async fn append_unfinished_marker(
        &self,
        key: &ConversationKey,
        request: MessageId,
        record: TurnRecord,
    ) -> Result<Option<MessageId>, LogError> {
        self.log
            .append_unfinished_marker(key, request, record)
            .await
    }
    async fn replay(
        &self,
        key: &ConversationKey,
        limits: HistoryLimits,
    ) -> Result<Replay, LogError> {
        self.log.replay(key, limits).await
    }
    async fn append_checkpoint(
        &self,
        _: &ConversationKey,
        _: NewCheckpoint,
    ) -> Result<MessageId, LogError> {
        self.reached.notify_one();
        std::future::pending().await
    }
    async fn reset(&self, key: &ConversationKey, at: UnixMillis) -> Result<bool, LogError> {
        self.log.reset(key, at).await
    }
    async fn list_conversations(&self, limit: usize) -> Result<Vec<ConversationSummary>, LogError> {
        self.log.list_conversations(limit).await
    }
    async fn token_totals(&self, day: UnixMillis) -> Result<Vec<TokenTotals>, LogError> {
        self.log.token_totals(day).await
    }
    async fn next_session_number(&self) -> Result<u64, LogError> {
        self.log.next_session_number().await
    }
}

#[tokio::test]
async fn dying_between_the_record_and_its_storing_leaves_the_conversation_whole() {
    let model = FakeModel::start(talker(short));
    let reached = Arc::new(Notify::new());
    let told = Arc::clone(&reached);
    let mut plan = Plan::new(&model, vec![]).with_config(SMALL);
    plan.through_log = Box::new(move |log| Arc::new(Dying { log, reached: told }));
    let world = plan.build();
    talked(&world).await;
    reached.notified().await;
    // A shutdown ends it at once, and nothing of it is there.
    let report = world.agent.shutdown(PATIENCE).await;
    assert_eq!((report.abandoned, report.stopped.turns), (0, 0));
    let replay = world.log.replay(&here(), ALL).await.unwrap();
    assert_eq!((replay.checkpoint, replay.messages.len()), (None, 10));
    assert_eq!(
        replay.peak_tokens,
        Some(18_000),
        "the next start takes it up"
    );
    assert_eq!(compactions(&world, 1).await[0]["outcome"], "stopped");
}

#[tokio::test]
async fn a_new_session_in_the_middle_of_it_gets_no_record_of_the_old_one() {
    let (asked, go_on) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (told, waited) = (Arc::clone(&asked), Arc::clone(&go_on));
    let model = FakeModel::start(talker(move |request| {
        told.notify_one();
        while waited.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        short(request)
    }));
    let world = Plan::new(&model, vec![]).build();
    for topic in ["one 1", "two 2", "three"] {
        world.ask(&long(topic)).await;
    }
    let compacting = {
        let agent = world.agent.clone();
        tokio::spawn(async move { agent.compact(&here()).await })
    };
    asked.notified().await;
    assert_eq!(world.agent.compact(&here()).await, CompactOutcome::Busy);
    assert!(world.agent.new_session(&here()).await.unwrap());
    go_on.store(1, Ordering::SeqCst);
    let outcome = compacting.await.unwrap();
    assert!(
        matches!(&outcome, CompactOutcome::Failed { reason } if reason.contains("has changed")),
        "{outcome}"
    );
    let replay = world.log.replay(&here(), ALL).await.unwrap();
    assert_eq!(replay, Replay::default());
}

#[tokio::test]
async fn a_stop_ends_what_follows_a_turn_and_messages_wait_for_it() {
    let model = FakeModel::start(talker(|_| Step::say("never").stall_after(0)));
    let world = Plan::new(&model, vec![]).with_config(SMALL).build();
    talked(&world).await;
    assert!(model.wait_for_requests(6, PATIENCE).await);
    let next = world.submit("next please");
    let counts = world.agent.stop(&here());
    // The answer was given; only the message that waits is dropped.
    assert_eq!((counts.turns, counts.queued), (0, 1));
    assert_eq!(ended(next).await.status, TurnStatus::Stopped);
    assert_eq!(compactions(&world, 1).await[0]["outcome"], "stopped");
    assert_eq!(world.inbox.texts().len(), 5);
}
