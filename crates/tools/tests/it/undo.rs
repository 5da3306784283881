//! Changes of files leave a way back.

use fermix_sandbox::Scope;
use fermix_types::ConversationKey;
use fermix_undo::{Restored, UndoError};
use serde_json::json;

use super::world::{World, ok, undo_log};

fn scope() -> Scope {
    Scope {
        conversation: Some(ConversationKey::root("cli", "test")),
        attended: true,
        ..Scope::default()
    }
}

/// Undoes the newest change of the conversation.
async fn undo_last(world: &World) -> Result<Restored, UndoError> {
    let log = undo_log(world.home.fermix_home());
    let conversation = ConversationKey::root("cli", "test").to_string();
    let change = log.find(None, Some(&conversation)).await?;
    log.restore_file(&change, &world.sandbox, &scope()).await
}

#[tokio::test]
async fn changes_are_undone_one_by_one() {
    let world = World::new();
    let file = world.home.workspace().join("a.txt");
    std::fs::write(&file, "one\r\n\u{0}two").unwrap();
    ok(world
        .call("file_write", json!({"path": "a.txt", "content": "three"}))
        .await);
    ok(world
        .call(
            "file_edit",
            json!({"path": "a.txt", "old_string": "ree", "new_string": "read"}),
        )
        .await);
    // What changed nothing leaves nothing to undo.
    ok(world
        .call("file_write", json!({"path": "a.txt", "content": "thread"}))
        .await);

    assert_eq!(undo_last(&world).await.unwrap(), Restored::Content);
    assert_eq!(std::fs::read(&file).unwrap(), b"three");
    assert_eq!(undo_last(&world).await.unwrap(), Restored::Content);
    assert_eq!(std::fs::read(&file).unwrap(), b"one\r\n\0two");
    assert!(matches!(
        undo_last(&world).await,
        Err(UndoError::Nothing(None))
    ));
}

#[tokio::test]
async fn a_file_that_changed_since_is_left_alone() {
    let world = World::new();
    let file = world.home.workspace().join("a.txt");
    std::fs::write(&file, "before").unwrap();
    ok(world
        .call("file_write", json!({"path": "a.txt", "content": "after"}))
        .await);
    std::fs::write(&file, "by hand").unwrap();
    let refused = undo_last(&world).await.unwrap_err();
    assert!(
        refused.to_string().contains("has changed since"),
        "{refused}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"by hand");
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(
        undo_last(&world).await,
        Err(UndoError::ChangedSince(_))
    ));
    // Put back by hand, the change can be undone after all.
    std::fs::write(&file, "after").unwrap();
    assert_eq!(undo_last(&world).await.unwrap(), Restored::Content);
    assert_eq!(std::fs::read(&file).unwrap(), b"before");
}

#[tokio::test]
async fn what_a_change_created_is_removed_with_its_empty_folders() {
    let world = World::new();
    let workspace = world.home.workspace();
    std::fs::create_dir(workspace.join("kept")).unwrap();
    ok(world
        .call(
            "file_write",
            json!({"path": "kept/new/deep/a.txt", "content": "x"}),
        )
        .await);
    assert_eq!(undo_last(&world).await.unwrap(), Restored::Removed);
    assert!(workspace.join("kept").exists() && !workspace.join("kept/new").exists());

    ok(world
        .call(
            "file_write",
            json!({"path": "kept/new/b.txt", "content": "x"}),
        )
        .await);
    std::fs::write(workspace.join("kept/new/other"), "mine").unwrap();
    assert_eq!(undo_last(&world).await.unwrap(), Restored::Removed);
    assert!(workspace.join("kept/new/other").exists());
}

#[tokio::test]
async fn a_write_that_fails_leaves_nothing_to_undo() {
    let world = World::new();
    let folder = world.home.workspace().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let outcome = world
        .call(
            "file_write",
            json!({"path": "missing/a.txt", "content": "x", "mkdir": false}),
        )
        .await;
    assert!(outcome.is_error, "{}", outcome.text);
    assert!(matches!(
        undo_last(&world).await,
        Err(UndoError::Nothing(None))
    ));
}

#[tokio::test]
async fn old_contents_lie_outside_what_tools_reach_and_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    std::fs::write(world.home.workspace().join("a.txt"), "private words").unwrap();
    ok(world
        .call("file_write", json!({"path": "a.txt", "content": "x"}))
        .await);
    let folder = world.home.fermix_home().join("undo");
    let outcome = world
        .call(
            "content_search",
            json!({"pattern": "private words", "path": folder}),
        )
        .await;
    assert!(outcome.is_error, "{}", outcome.text);
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for entry in std::fs::read_dir(&folder).unwrap() {
        for object in std::fs::read_dir(entry.unwrap().path()).unwrap() {
            assert_eq!(mode(&object.unwrap().path()), 0o600);
        }
    }
}
