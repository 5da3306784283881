//! What `Store::open` accepts, makes and refuses.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use fermix_store::rusqlite::Connection;
use fermix_store::{ConversationLog as _, Store, StoreError, StoreOptions};

use crate::Home;

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_new_database_is_private_durable_and_strict() {
    let home = Home::new();
    let store = home.open();
    let facts = store
        .write::<_, StoreError, _>(|transaction| {
            let text = |query: &str| transaction.query_row(query, [], |row| row.get::<_, String>(0));
            let number = |query: &str| transaction.query_row(query, [], |row| row.get::<_, i64>(0));
            Ok((
                text("PRAGMA journal_mode")?,
                number("PRAGMA synchronous")?,
                number("PRAGMA foreign_keys")?,
                number("PRAGMA application_id")?,
                number("SELECT count(*) FROM pragma_table_list
                        WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' AND NOT strict")?,
            ))
        })
        .await
        .unwrap();
    assert_eq!(facts, ("wal".to_owned(), 1, 1, 0x4665_726d, 0));
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(
            mode(&home.path().with_file_name(format!("memory.db{ending}"))),
            0o600
        );
    }
    drop(store);
    let names: Vec<_> = fs::read_dir(home.path().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(
        names,
        ["memory.db"],
        "closing folds the log in and leaves nothing else"
    );
}

#[test]
fn a_file_others_could_read_becomes_private() {
    let home = Home::new();
    drop(home.open());
    fs::set_permissions(home.path(), Permissions::from_mode(0o644)).unwrap();
    let _store = home.open();
    assert_eq!(mode(&home.path()), 0o600);
}

#[tokio::test]
async fn a_quick_exit_leaves_the_log_and_loses_nothing() {
    let home = Home::new();
    let options = StoreOptions {
        checkpoint_on_close: false,
        ..StoreOptions::default()
    };
    for expected in 1..=3 {
        let store = Store::open(&home.path(), &options).unwrap();
        let numbers = fermix_store::Conversations::new(store);
        assert_eq!(numbers.next_session_number().await.unwrap(), expected);
        drop(numbers);
        assert!(home.path().with_file_name("memory.db-wal").exists());
    }
}

#[test]
fn what_is_not_a_whole_database_of_ours_is_named_and_left_alone() {
    enum Expect {
        Corrupt { with_backup: bool },
        Foreign,
    }
    let whole = {
        let home = Home::new();
        drop(home.open());
        fs::read(home.path()).unwrap()
    };
    let foreign = {
        let home = Home::new();
        let other = Connection::open(home.path()).unwrap();
        other
            .execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1);")
            .unwrap();
        drop(other);
        fs::read(home.path()).unwrap()
    };
    let cut = whole[..whole.len() / 2].to_vec();
    let cases: [(&str, Vec<u8>, Option<&str>, Expect); 6] = [
        (
            "text",
            b"this was never a database, whatever it is called".repeat(50),
            None,
            Expect::Corrupt { with_backup: false },
        ),
        (
            "cut in half",
            cut.clone(),
            None,
            Expect::Corrupt { with_backup: false },
        ),
        (
            "cut, with a backup",
            cut,
            Some("memory.db.backup-v1"),
            Expect::Corrupt { with_backup: true },
        ),
        (
            "emptied beside a backup",
            Vec::new(),
            Some("memory.db.backup-v1"),
            Expect::Corrupt { with_backup: true },
        ),
        (
            "emptied beside its log",
            Vec::new(),
            Some("memory.db-wal"),
            Expect::Corrupt { with_backup: false },
        ),
        ("another program's", foreign, None, Expect::Foreign),
    ];
    for (name, contents, neighbour, expect) in cases {
        let home = Home::new();
        fs::write(home.path(), &contents).unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o600)).unwrap();
        if let Some(neighbour) = neighbour {
            fs::write(home.path().with_file_name(neighbour), b"something to lose").unwrap();
        }
        let refused = Store::open(&home.path(), &StoreOptions::default()).unwrap_err();
        let message = refused.to_string();
        match (expect, refused) {
            (Expect::Corrupt { with_backup }, StoreError::Corrupt { backup, .. }) => {
                assert_eq!(backup.is_some(), with_backup, "{name}");
                assert_eq!(
                    message.contains("memory.db.backup-v1"),
                    with_backup,
                    "{name}: {message}"
                );
            }
            (Expect::Foreign, StoreError::Foreign { .. }) => {}
            (_, other) => panic!("{name}: {other:?}"),
        }
        assert!(
            message.contains(&home.path().display().to_string()),
            "{name}: {message}"
        );
        assert_eq!(fs::read(home.path()).unwrap(), contents, "{name}");
        if let Some(neighbour) = neighbour {
            let kept = fs::read(home.path().with_file_name(neighbour)).unwrap();
            assert_eq!(kept, b"something to lose", "{name}");
        }
    }
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let home = Home::new();
    let path = home.path().join("absent").join("memory.db");
    let refused = Store::open(&path, &StoreOptions::default()).unwrap_err();
    assert!(
        matches!(refused, StoreError::Unreachable { .. }),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("absent"));
}

#[test]
fn many_processes_may_open_one_new_database_at_once() {
    // Threads stand in for the processes: SQLite's locks work between connections.
    let home = Home::new();
    std::thread::scope(|scope| {
        let openers: Vec<_> = (0..8).map(|_| scope.spawn(|| home.open())).collect();
        for opener in openers {
            opener.join().unwrap();
        }
    });
}
