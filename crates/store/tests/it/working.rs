//! Writes one after the other, reads beside them, and how both end.

use std::time::Duration;

use fermix_store::{Store, StoreError, StoreOptions};

use crate::Home;

const ENDLESS: &str = "WITH RECURSIVE counter (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter) SELECT max(n) FROM counter";

async fn count(store: &Store) -> i64 {
    store
        .read::<_, StoreError, _>(|connection| {
            Ok(connection.query_row("SELECT count(*) FROM counter", [], |row| row.get(0))?)
        })
        .await
        .unwrap()
}

async fn insert(store: &Store, name: &'static str) -> Result<(), StoreError> {
    store
        .write(move |transaction| {
            transaction.execute("INSERT INTO counter VALUES (?1, 0)", [name])?;
            Ok(())
        })
        .await
}

#[tokio::test]
async fn a_write_that_fails_panics_or_never_ends_is_undone_and_the_next_one_works() {
    let home = Home::new();
    let options = StoreOptions {
        deadline: Duration::from_millis(50),
        ..StoreOptions::default()
    };
    let store = Store::open(&home.path(), &options).unwrap();
    insert(&store, "kept").await.unwrap();

    let failed = store
        .write::<(), StoreError, _>(|transaction| {
            transaction.execute("INSERT INTO counter VALUES ('undone', 0)", [])?;
            transaction.execute("INSERT INTO counter VALUES ('kept', 0)", [])?;
            Ok(())
        })
        .await;
    assert!(matches!(failed, Err(StoreError::Database(_))), "{failed:?}");

    let panicked = store
        .write::<(), StoreError, _>(|transaction| {
            transaction.execute("INSERT INTO counter VALUES ('undone', 0)", [])?;
            panic!("a defect in a domain's code")
        })
        .await;
    assert!(
        matches!(panicked, Err(StoreError::Panicked)),
        "{panicked:?}"
    );

    let endless = store
        .write::<(), StoreError, _>(|transaction| {
            transaction.execute("INSERT INTO counter VALUES ('undone', 0)", [])?;
            transaction.query_row(ENDLESS, [], |_| Ok(()))?;
            Ok(())
        })
        .await;
    assert!(matches!(endless, Err(StoreError::Deadline)), "{endless:?}");

    insert(&store, "kept too").await.unwrap();
    assert_eq!(count(&store).await, 2);
}

#[tokio::test]
async fn a_database_that_another_program_holds_is_named_as_such() {
    let home = Home::new();
    let store = home.open();
    let other = rusqlite::Connection::open(home.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let held = insert(&store, "waits in vain").await.unwrap_err();
    assert!(matches!(held, StoreError::Busy), "{held:?}");
    assert_eq!(
        held.to_string(),
        "another program holds memory.db; close it and try again"
    );
    other.execute_batch("ROLLBACK").unwrap();
    insert(&store, "now it works").await.unwrap();
    assert_eq!(count(&store).await, 1);
}

#[tokio::test]
async fn reads_are_bounded_cannot_write_and_do_not_wait_for_the_writer() {
    let home = Home::new();
    let options = StoreOptions {
        deadline: Duration::from_millis(100),
        ..StoreOptions::default()
    };
    let store = Store::open(&home.path(), &options).unwrap();

    let written = store
        .read::<(), StoreError, _>(|connection| {
            connection.execute("INSERT INTO counter VALUES ('sneaked in', 0)", [])?;
            Ok(())
        })
        .await;
    assert!(
        matches!(written, Err(StoreError::Database(_))),
        "{written:?}"
    );

    let panicked = store
        .read::<(), StoreError, _>(|_| panic!("a defect in a domain's code"))
        .await;
    assert!(
        matches!(panicked, Err(StoreError::Panicked)),
        "{panicked:?}"
    );

    // More endless reads than there are connections: each ends, and the pool is usable after.
    let mut reads = Vec::new();
    for _ in 0..6 {
        let store = store.clone();
        reads.push(tokio::spawn(async move {
            store
                .read::<(), StoreError, _>(|connection| {
                    Ok(connection.query_row(ENDLESS, [], |_| Ok(()))?)
                })
                .await
        }));
    }
    for read in reads {
        let outcome = read.await.unwrap();
        assert!(
            matches!(outcome, Err(StoreError::Deadline | StoreError::Busy)),
            "{outcome:?}"
        );
    }

    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (began, begun) = tokio::sync::oneshot::channel();
    let writer = store.clone();
    let write = tokio::spawn(async move {
        writer
            .write::<_, StoreError, _>(move |transaction| {
                transaction.execute("INSERT INTO counter VALUES ('slow', 0)", [])?;
                began.send(()).unwrap();
                held.recv().unwrap();
                Ok(())
            })
            .await
    });
    begun.await.unwrap();
    assert_eq!(count(&store).await, 0, "the write is not committed yet");
    hold.send(()).unwrap();
    write.await.unwrap().unwrap();
    assert_eq!(count(&store).await, 1);
}

#[tokio::test]
async fn dropping_the_store_carries_out_what_is_queued() {
    let home = Home::new();
    let store = home.open();
    let writes: Vec<_> = (0..200)
        .map(|number: i64| {
            let store = store.clone();
            tokio::spawn(async move {
                store
                    .write::<_, StoreError, _>(move |transaction| {
                        transaction.execute(
                            "INSERT INTO counter VALUES (?1, ?2)",
                            (number.to_string(), number),
                        )?;
                        Ok(())
                    })
                    .await
            })
        })
        .collect();
    drop(store);
    for write in writes {
        write.await.unwrap().unwrap();
    }
    assert_eq!(count(&home.open()).await, 200);
}

#[tokio::test]
async fn a_write_nobody_waits_for_does_not_begin() {
    let home = Home::new();
    let store = home.open();
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (began, begun) = tokio::sync::oneshot::channel();
    let blocker = store.clone();
    let blocking = tokio::spawn(async move {
        blocker
            .write::<_, StoreError, _>(move |_| {
                began.send(()).unwrap();
                held.recv().unwrap();
                Ok(())
            })
            .await
    });
    begun.await.unwrap();
    {
        let abandoned = insert(&store, "abandoned");
        tokio::pin!(abandoned);
        let waited = tokio::time::timeout(Duration::from_millis(20), &mut abandoned).await;
        assert!(waited.is_err(), "the writer is busy");
    }
    hold.send(()).unwrap();
    blocking.await.unwrap().unwrap();
    insert(&store, "kept").await.unwrap();
    assert_eq!(count(&store).await, 1);
}
