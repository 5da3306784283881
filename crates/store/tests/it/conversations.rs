//! The rules of a conversation log, through the trait.

use fermix_store::{
    Appended, ConversationLog, Delivered, HistoryLimits, LogError, MessageId, NewUserMessage,
    ReplyContent, Role, StoreError, StoredMessage, TokenCounts, TurnRecord,
};
use fermix_types::{ConversationKey, UnixMillis};

use crate::{Home, NOON, chat};

pub(crate) const ALL: HistoryLimits = HistoryLimits {
    max_messages: 1_000,
    max_bytes: 1 << 20,
};
const HOUR: i64 = 60 * 60 * 1000;

fn said(text: &str) -> NewUserMessage {
    NewUserMessage {
        text: text.to_owned(),
        guest: false,
        at: NOON,
        platform_message_id: None,
    }
}

fn sent(id: &str, at: UnixMillis) -> NewUserMessage {
    NewUserMessage {
        platform_message_id: Some(id.to_owned()),
        at,
        ..said("hello")
    }
}

pub(crate) async fn ask(log: &dyn ConversationLog, key: &ConversationKey, text: &str) -> MessageId {
    match log.append_user(key, said(text)).await.unwrap() {
        Appended::Stored(id) => id,
        Appended::Duplicate(id) => panic!("{text} was taken for {id:?}"),
    }
}

async fn answer(
    log: &dyn ConversationLog,
    key: &ConversationKey,
    request: MessageId,
    text: &str,
) -> Result<MessageId, LogError> {
    let record = TurnRecord {
        at: NOON,
        ..TurnRecord::default()
    };
    log.append_assistant(key, request, ReplyContent::Text(text.to_owned()), record)
        .await
}

pub(crate) async fn texts(
    log: &dyn ConversationLog,
    key: &ConversationKey,
    limits: HistoryLimits,
) -> Vec<String> {
    log.history(key, limits)
        .await
        .unwrap()
        .into_iter()
        .map(|message| message.text)
        .collect()
}

#[tokio::test]
async fn a_conversation_is_replayed_as_it_was_also_after_a_restart() {
    let home = Home::new();
    let key = ConversationKey::in_thread("telegram", "7", &serde_json::json!(42));
    {
        let log = home.conversations();
        assert_eq!(log.history(&key, ALL).await.unwrap(), []);
        let request = NewUserMessage {
            guest: true,
            ..said("¿Qué hay en `notes`? 🗒")
        };
        let Appended::Stored(request) = log.append_user(&key, request).await.unwrap() else {
            panic!()
        };
        let record = TurnRecord {
            at: UnixMillis(NOON.0 + 5),
            work_note: Some("é".repeat(3_000)),
            provider: Some("anthropic".to_owned()),
            model: Some("a-model".to_owned()),
            tokens: TokenCounts::default(),
            peak_tokens: Some(70),
        };
        log.append_assistant(
            &key,
            request,
            ReplyContent::Text("Three files.".to_owned()),
            record,
        )
        .await
        .unwrap();
        let second = ask(&log, &key, "thanks").await;
        let record = TurnRecord {
            at: NOON,
            ..TurnRecord::default()
        };
        log.append_assistant(
            &key,
            second,
            ReplyContent::Delivered(Delivered::Reaction),
            record,
        )
        .await
        .unwrap();
        ask(&log, &chat("elsewhere"), "not for this conversation").await;
    }
    let log = home.conversations();
    let same_key = ConversationKey::in_thread("telegram", "7", &serde_json::json!("42"));
    let history = log.history(&same_key, ALL).await.unwrap();
    let roles: Vec<_> = history
        .iter()
        .map(|message| (message.role, message.guest))
        .collect();
    assert_eq!(
        roles,
        [
            (Role::User, true),
            (Role::Assistant, true),
            (Role::User, false),
            (Role::Marker, false)
        ]
    );
    let StoredMessage {
        text,
        reply_to,
        work_note,
        provider,
        model,
        at,
        ..
    } = &history[1];
    assert_eq!(text, "Three files.");
    assert_eq!(*reply_to, Some(history[0].id));
    assert_eq!(
        (provider.as_deref(), model.as_deref()),
        (Some("anthropic"), Some("a-model"))
    );
    assert_eq!(*at, UnixMillis(NOON.0 + 5));
    let note = work_note.as_deref().unwrap();
    assert!(
        note.len() <= 2048 && note.len() > 2040 && note.ends_with("é…"),
        "{} bytes",
        note.len()
    );
    assert_eq!(history[3].text, Delivered::Reaction.marker());
}

#[tokio::test]
async fn what_would_poison_a_history_is_refused() {
    let home = Home::new();
    let log = home.conversations();
    let key = chat("1");
    for blank in ["", "  \n\t", "\u{a0}\u{3000}", "\0"] {
        assert!(
            matches!(
                log.append_user(&key, said(blank)).await,
                Err(LogError::Blank)
            ),
            "{blank:?}"
        );
    }
    assert!(
        log.list_conversations(10).await.unwrap().is_empty(),
        "a refused message begins nothing"
    );
    let request = ask(&log, &key, "hello").await;
    for blank in ["", " \n", "\u{2003}"] {
        assert!(
            matches!(
                answer(&log, &key, request, blank).await,
                Err(LogError::Blank)
            ),
            "{blank:?}"
        );
    }
    let long = "x".repeat((4 << 20) + 1);
    assert!(matches!(
        answer(&log, &key, request, &long).await,
        Err(LogError::TooLong { .. })
    ));
    assert!(matches!(
        answer(&log, &chat("2"), request, "hi").await,
        Err(LogError::NoSuchRequest(_))
    ));
    assert!(matches!(
        answer(&log, &key, MessageId(999), "hi").await,
        Err(LogError::NoSuchRequest(_))
    ));
    let reply = answer(&log, &key, request, "hi").await.unwrap();
    assert!(matches!(
        answer(&log, &key, reply, "hi").await,
        Err(LogError::NoSuchRequest(_))
    ));
    assert!(matches!(
        answer(&log, &key, request, "hi again").await,
        Err(LogError::AlreadyAnswered(_))
    ));
    for id in [String::new(), "i".repeat(257)] {
        assert!(matches!(
            log.append_user(&key, sent(&id, NOON)).await,
            Err(LogError::BadPlatformId { .. })
        ));
    }
    assert_eq!(texts(&log, &key, ALL).await, ["hello", "hi"]);
}

#[tokio::test]
async fn only_the_orphan_of_this_turn_is_marked() {
    let home = Home::new();
    let log = home.conversations();
    let key = chat("1");
    let record = || TurnRecord {
        at: NOON,
        ..TurnRecord::default()
    };
    let first = ask(&log, &key, "first").await;
    let second = ask(&log, &key, "second").await;
    assert_eq!(
        log.append_unfinished_marker(&key, first, record())
            .await
            .unwrap(),
        None
    );
    assert!(
        log.append_unfinished_marker(&key, second, record())
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(
        log.append_unfinished_marker(&key, second, record())
            .await
            .unwrap(),
        None
    );
    assert!(matches!(
        answer(&log, &key, second, "too late").await,
        Err(LogError::AlreadyAnswered(_))
    ));
    let roles: Vec<_> = log
        .history(&key, ALL)
        .await
        .unwrap()
        .iter()
        .map(|message| message.role)
        .collect();
    assert_eq!(roles, [Role::User, Role::User, Role::Marker]);

    let third = ask(&log, &key, "third").await;
    answer(&log, &key, third, "done").await.unwrap();
    assert_eq!(
        log.append_unfinished_marker(&key, third, record())
            .await
            .unwrap(),
        None
    );
    let fourth = ask(&log, &key, "fourth").await;
    log.reset(&key, NOON).await.unwrap();
    assert_eq!(
        log.append_unfinished_marker(&key, fourth, record())
            .await
            .unwrap(),
        None
    );
    assert!(texts(&log, &key, ALL).await.is_empty());
}

#[tokio::test]
async fn a_history_within_limits_is_its_newest_end_and_begins_with_a_request() {
    let home = Home::new();
    let log = home.conversations();
    let key = chat("1");
    for number in 1..=5 {
        let request = ask(&log, &key, &format!("question {number}")).await;
        answer(&log, &key, request, &format!("answer {number}"))
            .await
            .unwrap();
    }
    let cases: [(usize, usize, &[&str]); 6] = [
        (
            4,
            1_000,
            &["question 4", "answer 4", "question 5", "answer 5"],
        ),
        (3, 1_000, &["question 5", "answer 5"]),
        (1, 1_000, &[]),
        (100, 18, &["question 5", "answer 5"]),
        (100, 17, &[]),
        (0, 0, &[]),
    ];
    for (max_messages, max_bytes, expected) in cases {
        let limits = HistoryLimits {
            max_messages,
            max_bytes,
        };
        assert_eq!(texts(&log, &key, limits).await, expected, "{limits:?}");
    }
}

#[tokio::test]
async fn the_beginning_of_a_long_history_stands_still_for_many_turns() {
    for (max_messages, max_bytes) in [(10, 100_000), (1_000, 500), (10, 250)] {
        let home = Home::new();
        let log = home.conversations();
        let key = chat("1");
        let limits = HistoryLimits {
            max_messages,
            max_bytes,
        };
        let (mut before, mut cuts, mut shortest) = (Vec::new(), 0, usize::MAX);
        for number in 0..60 {
            let words = "x".repeat(10 + number * 7 % 20);
            let request = ask(&log, &key, &format!("{number}? {words}")).await;
            answer(&log, &key, request, &format!("{number}! {words}"))
                .await
                .unwrap();
            let now = texts(&log, &key, limits).await;
            let bytes: usize = now.iter().map(String::len).sum();
            assert!(now.len() <= max_messages && bytes <= max_bytes, "{now:?}");
            assert!(now.last().unwrap().starts_with(&format!("{number}!")));
            if !now.starts_with(&before) {
                cuts += 1;
                shortest = shortest.min(now.len());
            }
            before = now;
        }
        assert!(
            (3..=30).contains(&cuts) && shortest >= 2,
            "{limits:?}: {cuts} cuts, {shortest} messages"
        );
    }
}

#[tokio::test]
async fn a_damaged_history_is_repaired_on_load() {
    let home = Home::new();
    let log = home.conversations();
    let key = chat("1");
    for number in 1..=3 {
        let request = ask(&log, &key, &format!("question {number}")).await;
        answer(&log, &key, request, &format!("answer {number}"))
            .await
            .unwrap();
    }
    drop(log);
    let store = home.open();
    store
        .write::<_, StoreError, _>(|transaction| {
            transaction.execute(
                "UPDATE message SET text = '  ' WHERE text IN ('question 1', 'answer 2')",
                [],
            )?;
            Ok(())
        })
        .await
        .unwrap();
    drop(store);
    let log = home.conversations();
    assert_eq!(
        texts(&log, &key, ALL).await,
        ["question 2", "question 3", "answer 3"]
    );
}

#[tokio::test]
async fn a_reset_starts_afresh_and_keeps_what_was_said() {
    let home = Home::new();
    let log = home.conversations();
    let key = chat("1");
    assert!(
        !log.reset(&key, NOON).await.unwrap(),
        "there was no conversation"
    );
    let old = ask(&log, &key, "old").await;
    assert!(log.reset(&key, UnixMillis(NOON.0 + 1)).await.unwrap());
    let new = ask(&log, &key, "new").await;
    answer(&log, &key, old, "an answer to the old one")
        .await
        .unwrap();
    answer(&log, &key, new, "an answer to the new one")
        .await
        .unwrap();
    assert_eq!(
        texts(&log, &key, ALL).await,
        ["new", "an answer to the new one"]
    );

    let other = chat("2");
    log.append_user(
        &other,
        NewUserMessage {
            at: UnixMillis(NOON.0 + HOUR),
            ..said("hi")
        },
    )
    .await
    .unwrap();
    let listed = log.list_conversations(10).await.unwrap();
    let summary: Vec<_> = listed
        .iter()
        .map(|entry| (entry.key.chat_id.as_str(), entry.messages))
        .collect();
    assert_eq!(summary, [("2", 1), ("1", 2)]);
    assert_eq!(log.list_conversations(1).await.unwrap().len(), 1);

    let store = home.open();
    let stored: i64 = store
        .read::<_, StoreError, _>(|connection| {
            Ok(connection.query_row(
                "SELECT count(*) FROM message WHERE text LIKE '%old%'",
                [],
                |row| row.get(0),
            )?)
        })
        .await
        .unwrap();
    assert_eq!(stored, 2);
}

#[tokio::test]
async fn a_platform_id_is_accepted_once_per_channel_within_its_window() {
    let home = Home::new();
    let log = home.conversations();
    let telegram = ConversationKey::root("telegram", "1");
    let slack = ConversationKey::root("slack", "1");
    let Appended::Stored(first) = log.append_user(&telegram, sent("m0", NOON)).await.unwrap()
    else {
        panic!()
    };
    drop(log);

    let log = home.conversations();
    let other_chat = ConversationKey::root("telegram", "2");
    for key in [&telegram, &other_chat] {
        assert_eq!(
            log.append_user(key, sent("m0", NOON)).await.unwrap(),
            Appended::Duplicate(first)
        );
    }
    assert_eq!(texts(&log, &telegram, ALL).await.len(), 1);
    assert!(texts(&log, &other_chat, ALL).await.is_empty());
    assert!(matches!(
        log.append_user(&slack, sent("m0", NOON)).await.unwrap(),
        Appended::Stored(_)
    ));

    let almost_a_day = UnixMillis(NOON.0 + 24 * HOUR - 1);
    assert_eq!(
        log.append_user(&telegram, sent("m0", almost_a_day))
            .await
            .unwrap(),
        Appended::Duplicate(first)
    );
    let a_day = UnixMillis(NOON.0 + 24 * HOUR);
    assert!(matches!(
        log.append_user(&telegram, sent("m0", a_day)).await.unwrap(),
        Appended::Stored(_)
    ));

    for number in 1..=999 {
        log.append_user(&telegram, sent(&format!("m{number}"), a_day))
            .await
            .unwrap();
    }
    assert!(matches!(
        log.append_user(&telegram, sent("m0", a_day)).await.unwrap(),
        Appended::Duplicate(_)
    ));
    log.append_user(&telegram, sent("m1000", a_day))
        .await
        .unwrap();
    assert!(matches!(
        log.append_user(&telegram, sent("m0", a_day)).await.unwrap(),
        Appended::Stored(_)
    ));
}

#[tokio::test]
async fn tokens_are_summed_by_day_and_model_and_what_was_not_reported_stays_absent() {
    let home = Home::new();
    let log = home.conversations();
    let key = chat("1");
    let midnight = NOON.0 - NOON.0.rem_euclid(24 * HOUR);
    let counts = |prompt, completion| TokenCounts {
        prompt,
        completion,
        ..TokenCounts::default()
    };
    let rows = [
        (midnight - 1, "openai", counts(Some(1), Some(1))),
        (midnight, "openai", counts(Some(10), Some(2))),
        (midnight + 24 * HOUR - 1, "openai", counts(Some(30), None)),
        (midnight + HOUR, "anthropic", counts(None, None)),
        (midnight + 24 * HOUR, "openai", counts(Some(1), Some(1))),
    ];
    for (at, provider, tokens) in rows {
        let request = ask(&log, &key, "count").await;
        let record = TurnRecord {
            at: UnixMillis(at),
            provider: Some(provider.to_owned()),
            tokens,
            ..TurnRecord::default()
        };
        log.append_assistant(&key, request, ReplyContent::Text("one".to_owned()), record)
            .await
            .unwrap();
    }
    let totals = log.token_totals(NOON).await.unwrap();
    let summary: Vec<_> = totals
        .iter()
        .map(|row| (row.provider.as_str(), row.turns, row.tokens))
        .collect();
    assert_eq!(
        summary,
        [
            ("anthropic", 1, counts(None, None)),
            ("openai", 2, counts(Some(40), Some(2)))
        ]
    );
}

#[tokio::test]
async fn session_numbers_never_repeat() {
    let home = Home::new();
    for expected in [1, 2, 3] {
        assert_eq!(
            home.conversations().next_session_number().await.unwrap(),
            expected
        );
    }
}

#[tokio::test]
async fn requests_without_an_ending_are_found() {
    let home = Home::new();
    let log = home.conversations();
    let open = ask(&log, &chat("open"), "one").await;
    let closed = ask(&log, &chat("closed"), "two").await;
    answer(&log, &chat("closed"), closed, "yes").await.unwrap();
    ask(&log, &chat("reset"), "three").await;
    log.reset(&chat("reset"), NOON).await.unwrap();
    assert_eq!(log.unanswered().await.unwrap(), [(chat("open"), open)]);
    let record = TurnRecord {
        at: NOON,
        ..TurnRecord::default()
    };
    log.append_unfinished_marker(&chat("open"), open, record)
        .await
        .unwrap();
    assert_eq!(log.unanswered().await.unwrap(), []);
}
