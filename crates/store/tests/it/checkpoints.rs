//! Records that stand for older messages.

use fermix_store::{
    ConversationLog as _, Conversations, LogError, MessageId, NewCheckpoint, Replay, ReplyContent,
    TokenCounts, TurnRecord,
};
use fermix_types::ConversationKey;

use crate::conversations::{ALL, ask, texts};
use crate::{Home, NOON, chat};

fn record(through: MessageId, replaces: Option<MessageId>) -> NewCheckpoint {
    NewCheckpoint {
        covers_through: through,
        replaces,
        text: "what was said before".to_owned(),
        guest: false,
        tells_of_owner: true,
        at: NOON,
        provider: Some("anthropic".to_owned()),
        model: None,
        tokens: TokenCounts {
            prompt: Some(7),
            ..TokenCounts::default()
        },
    }
}

async fn answered(log: &Conversations, key: &ConversationKey, text: &str) -> MessageId {
    let request = ask(log, key, text).await;
    let turn = TurnRecord {
        at: NOON,
        peak_tokens: Some(90),
        ..TurnRecord::default()
    };
    let words = ReplyContent::Text(format!("answer to {text}"));
    log.append_assistant(key, request, words, turn)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_checkpoint_stands_for_what_it_covers_and_nothing_is_lost() {
    let home = Home::new();
    let log = home.conversations();
    let key = chat("1");
    let first = answered(&log, &key, "a").await;
    let second = answered(&log, &key, "b").await;
    answered(&log, &key, "c").await;
    assert_eq!(log.replay(&key, ALL).await.unwrap().peak_tokens, Some(90));

    let id = log
        .append_checkpoint(&key, record(first, None))
        .await
        .unwrap();
    let replay = log.replay(&key, ALL).await.unwrap();
    let checkpoint = replay.checkpoint.clone().unwrap();
    assert_eq!((checkpoint.id, checkpoint.covers_through), (id, first));
    assert!(checkpoint.tells_of_owner && !checkpoint.guest);
    assert_eq!(replay.messages[0].text, "b");
    assert_eq!(replay.peak_tokens, None, "it was measured before");
    assert!(replay.is_checkpoint_news());

    // The next one takes its place, and stands for it as well.
    let next = log
        .append_checkpoint(&key, record(second, Some(id)))
        .await
        .unwrap();
    answered(&log, &key, "d").await;
    let replay = log.replay(&key, ALL).await.unwrap();
    assert_eq!(replay.checkpoint.as_ref().map(|found| found.id), Some(next));
    assert_eq!(replay.messages.len(), 4);
    assert!(!replay.is_checkpoint_news());
    assert_eq!(replay.peak_tokens, Some(90));
    let listed = log.list_conversations(10).await.unwrap();
    assert_eq!(listed[0].messages, 8, "every message is still there");
    // What writing them cost is on the bill; they are no turns.
    let totals = log.token_totals(NOON).await.unwrap();
    assert_eq!((totals[0].turns, totals[0].tokens.prompt), (0, Some(14)));

    // A new session has none, and what comes too late changes nothing.
    assert!(log.reset(&key, NOON).await.unwrap());
    assert_eq!(log.replay(&key, ALL).await.unwrap(), Replay::default());
    let late = log
        .append_checkpoint(&key, record(second, Some(next)))
        .await;
    assert!(matches!(late, Err(LogError::Stale)), "{late:?}");
}

#[tokio::test]
async fn a_checkpoint_that_does_not_fit_is_not_stored() {
    let home = Home::new();
    let log = home.conversations();
    let key = chat("1");
    let first = answered(&log, &key, "a").await;
    let second = answered(&log, &key, "b").await;
    let open = ask(&log, &key, "c").await;
    let foreign = answered(&log, &chat("2"), "x").await;
    let stale = |through, replaces| {
        let (log, key) = (&log, &key);
        async move { log.append_checkpoint(key, record(through, replaces)).await }
    };
    for (through, replaces, why) in [
        (open, None, "a request that has no end"),
        (foreign, None, "another conversation"),
        (MessageId(999), None, "nothing"),
        (first, Some(second), "a record that is none"),
        (MessageId(first.0 - 1), None, "the middle of a turn"),
    ] {
        let outcome = stale(through, replaces).await;
        assert!(
            matches!(outcome, Err(LogError::Stale)),
            "{why}: {outcome:?}"
        );
    }
    let id = stale(second, None).await.unwrap();
    for (through, replaces, why) in [
        (second, None, "somebody else was first"),
        (first, Some(id), "it would stand for less"),
    ] {
        let outcome = stale(through, replaces).await;
        assert!(
            matches!(outcome, Err(LogError::Stale)),
            "{why}: {outcome:?}"
        );
    }
    let blank = NewCheckpoint {
        text: " \n".to_owned(),
        ..record(second, Some(id))
    };
    let outcome = log.append_checkpoint(&key, blank).await;
    assert!(matches!(outcome, Err(LogError::Blank)), "{outcome:?}");
    let unknown = log.append_checkpoint(&chat("3"), record(first, None)).await;
    assert!(matches!(unknown, Err(LogError::Stale)), "{unknown:?}");
    // The answer that was under way finds its request, behind the checkpoint.
    log.append_assistant(
        &key,
        open,
        ReplyContent::Text("answer to c".to_owned()),
        TurnRecord::default(),
    )
    .await
    .unwrap();
    assert_eq!(texts(&log, &key, ALL).await, ["c", "answer to c"]);
    // A checkpoint is no request.
    let answer = ReplyContent::Text("to a record".to_owned());
    let outcome = log
        .append_assistant(&key, id, answer, TurnRecord::default())
        .await;
    assert!(
        matches!(outcome, Err(LogError::NoSuchRequest(_))),
        "{outcome:?}"
    );
}
