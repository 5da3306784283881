//! Commands over a real agent, a real database and the real store of tokens.

use std::time::{Duration, Instant};

use fermix_agent::{ReportOnly, Submitted, TurnRequest, TurnStatus};
use fermix_approvals::Confirmations;
use fermix_capability::{Ports, PromptOrigin};
use fermix_channels::commands::Standing;
use fermix_channels::{ChannelRules, LocalPeer, admit_local};
use fermix_config::{Config, Environment, Home, Overrides};
use fermix_store::{Conversations, HistoryLimits, Store, StoreOptions};
use fermix_testkit::{FakeModel, Script, Step, TestHome};

use super::*;
use crate::clock::SystemClock;
use crate::{Engine, Parts};

/// Takes no rows.
struct Unrecorded;

impl TraceSink for Unrecorded {
    fn record(&self, _row: TraceRow) {}
}

fn key(chat: &str) -> ConversationKey {
    ConversationKey::root("telegram", chat)
}

fn rules() -> ChannelRules {
    ChannelRules {
        owner_user_id: Some("7".into()),
        allowed_user_ids: ["9".to_owned()].into(),
        command_allowlist: ["9".to_owned()].into(),
    }
}

fn asker(user: &str, chat: &str) -> Asker {
    Asker {
        origin: PromptOrigin {
            conversation: key(chat),
            user: user.into(),
        },
        standing: Standing::remote(user, &rules()).unwrap(),
        bot_name: None,
    }
}

fn engine(home: &TestHome) -> Engine {
    let environment = Environment::from_pairs(home.env());
    let fermix_home = Home::resolve(Some(&home.fermix_home()), &environment).unwrap();
    let config = Config::load(&fermix_home, &environment, &Overrides::default()).unwrap();
    Engine::build(Parts {
        home: fermix_home,
        environment,
        config,
        executable: std::env::current_exe().unwrap(),
        launch_dir: None,
        extra_roots: Vec::new(),
        redactor: Arc::default(),
    })
    .unwrap()
}

fn desk(home: &TestHome, agent: Option<Agent>, machinery: Machinery) -> Desk {
    let options = StoreOptions::default();
    let store = Store::open(&home.fermix_home().join("memory.db"), &options).unwrap();
    Desk {
        agent,
        sandbox: engine(home).assembled.sandbox,
        conversations: Arc::new(Conversations::new(store)),
        clock: Arc::new(SystemClock),
        trace: Arc::new(Unrecorded),
        machinery,
    }
}

fn submit(agent: &Agent, chat: &str, text: &str) -> Submitted {
    let caller = Arc::new(admit_local(LocalPeer::InPerson, Ports::default()));
    agent.submit(
        TurnRequest::text(key(chat), caller, text),
        Arc::new(ReportOnly),
        None,
    )
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never happened");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_does_not_wait_for_what_it_stops_and_counts_it() {
    let home = TestHome::new();
    let model = FakeModel::start(Script::each(|_| {
        Step::say("too late").after(Duration::from_secs(600))
    }));
    home.use_model(&model, "");
    let agent = engine(&home).agent().unwrap();
    let mut turns: Vec<_> = ["a", "b", "c"]
        .map(|chat| submit(&agent, chat, "think long"))
        .into();
    eventually("three running turns", || {
        agent.status().active_conversations == 3
    })
    .await;
    turns.push(submit(&agent, "a", "and this"));

    let desk = desk(&home, Some(agent.clone()), Machinery::default());
    let owner = asker("7", "d");
    let listed = desk.carry_out("/tasks", &owner).await.unwrap().unwrap();
    assert_eq!(
        listed,
        "telegram a: a turn is running, 1 message waiting\n\
         telegram b: a turn is running\n\
         telegram c: a turn is running"
    );
    let elsewhere = desk.carry_out("/stop here", &owner).await.unwrap();
    assert_eq!(elsewhere.unwrap(), "Nothing was running or waiting.");
    let here = desk.carry_out("/stop here", &asker("7", "b")).await;
    assert_eq!(
        here.unwrap().unwrap(),
        "Stopped 1 turn and 0 queued messages."
    );
    let all = desk.carry_out("/STOP@fermixbot", &owner).await.unwrap();
    assert_eq!(all.unwrap(), "Stopped 2 turns and 1 queued message.");
    for turn in turns {
        assert_eq!(turn.done.await.unwrap().status, TurnStatus::Stopped);
    }
    agent.shutdown(Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_reads_nothing_of_the_old_one() {
    let home = TestHome::new();
    let model = FakeModel::start([Step::say("noted")]);
    home.use_model(&model, "");
    let agent = engine(&home).agent().unwrap();
    let report = submit(&agent, "a", "remember 42").done.await.unwrap();
    assert_eq!(report.status, TurnStatus::Completed);
    let desk = desk(&home, Some(agent), Machinery::default());
    let limits = HistoryLimits {
        max_messages: 10,
        max_bytes: 10_000,
    };
    let said = async |chat: &str| {
        desk.conversations
            .history(&key(chat), limits)
            .await
            .unwrap()
    };
    assert_eq!(said("a").await.len(), 2);
    // Somebody else's conversation is not touched.
    let other = desk.carry_out("/new", &asker("9", "b")).await.unwrap();
    assert_eq!(other.unwrap(), "New session. Nothing had been said before.");
    assert_eq!(said("a").await.len(), 2);
    let done = desk.carry_out("/clear", &asker("7", "a")).await.unwrap();
    assert!(done.unwrap().starts_with("New session."));
    assert_eq!(said("a").await.len(), 0);
}

/// A yes or no to a token, as the crate of approvals takes it.
#[derive(Default)]
struct Answers(Confirmations<&'static str>);

#[async_trait]
impl PolicyCommands for Answers {
    async fn run(&self, invocation: &Invocation, asker: &Asker) -> Outcome {
        let token = invocation.words.first().map(String::as_str);
        self.0
            .take(token.unwrap_or_default(), &asker.origin, Instant::now())
            .map(str::to_owned)
            .map_err(|error| NotDone(error.to_string()))
    }
}

#[tokio::test]
async fn a_refused_confirm_leaves_the_token_to_its_owner() {
    let home = TestHome::new();
    let answers = Arc::new(Answers::default());
    let owner = asker("7", "a");
    let parked = answers
        .0
        .park(&owner.origin, "x", "granted", Instant::now())
        .unwrap();
    let machinery = Machinery {
        policy: Some(answers),
        ..Machinery::default()
    };
    let desk = desk(&home, None, machinery);
    let confirm = format!("/confirm {}", parked.token);
    // A guest, though listed; the owner's shell; the owner's cron job; each at the owner's place.
    let mut pretender = asker("9", "a");
    pretender.origin = owner.origin.clone();
    let mut shell = owner.clone();
    shell.standing = Standing::local(LocalPeer::StartedByFermix, true);
    let mut script = owner.clone();
    script.standing = Standing::local(LocalPeer::InPerson, false);
    for other in [pretender, shell, script] {
        for text in [confirm.clone(), format!("/deny {}", parked.token)] {
            let outcome = desk.carry_out(&text, &other).await.unwrap();
            let refused = outcome.unwrap_err().0;
            assert!(!refused.contains(&parked.token), "{refused}");
        }
    }
    let outcome = desk.carry_out(&confirm, &owner).await.unwrap();
    assert_eq!(outcome, Ok("granted".to_owned()));
}

#[tokio::test]
async fn a_command_without_machinery_is_words_for_the_agent() {
    let home = TestHome::new();
    let desk = desk(&home, None, Machinery::default());
    let owner = asker("7", "a");
    for text in ["/undo", "/sandbox status", "/confirm A"] {
        assert_eq!(desk.carry_out(text, &owner).await, None, "{text}");
    }
    let help = desk.carry_out("/help", &owner).await.unwrap().unwrap();
    assert_eq!(help.lines().count(), 6, "{help}");
}
