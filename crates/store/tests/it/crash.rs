//! `kill -9` at any moment: what was acknowledged is there, what is there is whole.
//!
//! The writer is this test's own executable, run again with only [`child_writes_until_killed`].

#![expect(
    clippy::disallowed_methods,
    reason = "the test kills a process of its own, told by its environment where to write"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fermix_store::{
    Appended, ConversationLog as _, Conversations, HistoryLimits, MessageId, NewCheckpoint,
    NewUserMessage, ReplyContent, Store, StoreError, StoreOptions, TokenCounts, TurnRecord,
};
use fermix_types::ConversationKey;

use crate::{Home, NOON, chat};

const DATABASE: &str = "FERMIX_STORE_TEST_DATABASE";

/// By itself, a check that a few rounds of writes are all there. In the process that the other tests
/// of this file start it goes on and on, and is killed.
#[tokio::test]
async fn child_writes_until_killed() {
    let told = std::env::var_os(DATABASE);
    // Whoever is killed leaves no home of its own behind.
    let own = told.is_none().then(Home::new);
    let (path, rounds) = match (&own, told) {
        (Some(home), _) => (home.path(), 3),
        (None, path) => (PathBuf::from(path.unwrap_or_default()), 100_000),
    };
    let log = Conversations::new(Store::open(&path, &StoreOptions::default()).unwrap());
    // Told apart by who runs it: by itself, exactly two messages a round are expected.
    let checkpoints = own.is_none();
    for _ in 0..rounds {
        let run = log.next_session_number().await.unwrap();
        let key = chat(&format!("{}", run % 3));
        let message = NewUserMessage {
            text: format!("request {run}: {}", "x".repeat(2_000)),
            guest: false,
            at: NOON,
            platform_message_id: Some(format!("id-{run}")),
        };
        let Appended::Stored(request) = log.append_user(&key, message).await.unwrap() else {
            panic!("{run} was used before")
        };
        acknowledge(request.0);
        let record = TurnRecord {
            at: NOON,
            work_note: Some("note".to_owned()),
            ..TurnRecord::default()
        };
        let reply = ReplyContent::Text(format!("answer {run}"));
        let answer = log
            .append_assistant(&key, request, reply, record)
            .await
            .unwrap();
        acknowledge(answer.0);
        if checkpoints && run % 7 == 0 {
            acknowledge(checkpoint(&log, &key, answer).await.0);
        }
    }
    drop(log);
    if own.is_some() {
        assert_eq!(assert_whole(&path).await.len(), 2 * rounds);
    }
}

async fn checkpoint(log: &Conversations, key: &ConversationKey, through: MessageId) -> MessageId {
    let limits = HistoryLimits {
        max_messages: 1,
        max_bytes: 1,
    };
    let before = log.replay(key, limits).await.unwrap().checkpoint;
    let checkpoint = NewCheckpoint {
        covers_through: through,
        replaces: before.map(|before| before.id),
        text: "what was said before".to_owned(),
        guest: false,
        tells_of_owner: true,
        at: NOON,
        provider: None,
        model: None,
        tokens: TokenCounts::default(),
    };
    log.append_checkpoint(key, checkpoint).await.unwrap()
}

fn acknowledge(id: i64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nstored {id}").unwrap();
    out.flush().unwrap();
}

fn spawn(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child_writes_until_killed", "--nocapture"])
        .env(DATABASE, path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills the child once it has acknowledged `count` writes; returns every id it acknowledged.
fn kill_after(mut child: Child, count: usize) -> Vec<i64> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    let mut killed = false;
    for line in lines {
        let line = line.unwrap();
        if let Some(id) = line.strip_prefix("stored ") {
            // The last line may have been cut by the kill.
            acknowledged.extend(id.parse::<i64>());
        }
        if !killed && acknowledged.len() >= count {
            child.kill().unwrap();
            killed = true;
        }
    }
    assert!(
        killed,
        "the child ended by itself after {} writes",
        acknowledged.len()
    );
    child.wait().unwrap();
    if count < 2 {
        acknowledged
    } else {
        acknowledged[..acknowledged.len() - 1].to_vec()
    }
}

async fn assert_whole(path: &Path) -> Vec<i64> {
    let store = Store::open(
        path,
        &StoreOptions {
            checkpoint_on_close: false,
            ..StoreOptions::default()
        },
    )
    .unwrap();
    let number = |query: &'static str| {
        let store = store.clone();
        async move {
            store
                .read::<i64, StoreError, _>(move |connection| {
                    Ok(connection.query_row(query, [], |row| row.get(0))?)
                })
                .await
                .unwrap()
        }
    };
    assert_eq!(
        number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'").await,
        0
    );
    assert_eq!(
        number("SELECT count(*) FROM pragma_foreign_key_check").await,
        0
    );
    // Each operation happened whole or not at all.
    let requests =
        number("SELECT count(*) FROM message WHERE role = 'user' AND kind = 'message'").await;
    let accepted = number(
        "SELECT count(*) FROM message m JOIN accepted_id a ON a.message_id = m.id AND a.platform_id = m.platform_id",
    )
    .await;
    assert_eq!(accepted, requests.min(1_000));
    let runs = number("SELECT coalesce(max(value), 0) FROM counter").await;
    assert!(
        (requests..=requests + 100).contains(&runs),
        "{runs} runs, {requests} requests"
    );
    assert_eq!(
        number("SELECT count(*) FROM message WHERE trim(text) = ''").await,
        0
    );
    // A checkpoint stands for something, or it is not there.
    let hollow =
        "SELECT count(*) FROM message k WHERE k.kind = 'checkpoint_summary' AND NOT EXISTS (
             SELECT 1 FROM message m WHERE m.id = k.covers_through AND m.id < k.id
               AND m.conversation_id = k.conversation_id AND m.session = k.session)";
    assert_eq!(number(hollow).await, 0);
    store
        .read::<_, StoreError, _>(|connection| {
            let mut statement = connection.prepare("SELECT id FROM message ORDER BY id")?;
            Ok(statement
                .query_map([], |row| row.get(0))?
                .collect::<Result<_, _>>()?)
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn killed_in_the_middle_of_writes_nothing_acknowledged_is_lost() {
    let home = Home::new();
    let mut acknowledged = Vec::new();
    for round in 0..20 {
        // Far enough for the log to be folded into the file in some rounds and not in others.
        acknowledged.extend(kill_after(spawn(&home.path()), 1 + round * 17));
        let stored = assert_whole(&home.path()).await;
        let lost: Vec<_> = acknowledged
            .iter()
            .filter(|id| stored.binary_search(id).is_err())
            .collect();
        assert!(lost.is_empty(), "round {round} lost {lost:?}");
    }
}

#[tokio::test]
async fn killed_while_it_makes_the_database_it_can_be_made_again() {
    for round in 0..20 {
        let home = Home::new();
        let mut child = spawn(&home.path());
        // Kills at another moment of the start each round; every moment must do.
        std::thread::sleep(Duration::from_micros(500 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_whole(&home.path()).await;
    }
}
