//! The agent asks for a folder (spec/02 §4.10).

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use fermix_approvals::policy::{DirectoryAnswer, DirectoryRefusal};
use fermix_capability::{Choice, OutsideSource, OutsideSources};

use crate::support::{Again, Port, World, ids, origin, owner};

#[tokio::test]
async fn a_confirmed_request_is_granted_once_and_goes_on() {
    let world = World::new("");
    let again = Arc::new(Again::default());
    world.desk.resume_through(again.clone());
    let folder = world.folder("project");
    let path = folder.display().to_string();
    let port = Port::default();
    let requested = DirectoryAnswer::Requested {
        folder: folder.clone(),
        is_widened: false,
    };
    assert_eq!(world.ask(&folder, "1", &port).await.unwrap(), requested);
    let prompt = port.only();
    assert_eq!(prompt.title, format!("Open a folder: {path}"));
    assert_eq!(
        prompt.body,
        format!(
            "The agent's words: \"it is needed\"\neffective_roots + {path}\nallowed_roots + {path}"
        )
    );
    assert_eq!(
        prompt.choices,
        [Choice::Always, Choice::Once, Choice::Read, Choice::Deny]
    );
    assert_eq!(prompt.expires_in.as_secs(), 60);

    // An identical call while it waits asks nobody.
    let pending = DirectoryAnswer::AlreadyPending {
        folder: folder.clone(),
    };
    assert_eq!(world.ask(&folder, "1", &port).await.unwrap(), pending);
    port.only();

    let confirm = format!("/confirm {}", prompt.token);
    for stranger in [origin("other", "7"), origin("chat", "8")] {
        let answer = world.say(&confirm, &stranger).await;
        assert!(answer.starts_with("origin_mismatch"), "{answer}");
    }
    let answer = world.say(&confirm, &owner()).await;
    assert!(
        answer.contains(&format!("allowed_roots + {path}")),
        "{answer}"
    );
    assert!(answer.ends_with("Your request goes on."), "{answer}");
    let answer = world.say(&confirm, &owner()).await;
    assert!(answer.starts_with("unknown_token"), "{answer}");
    assert!(world.may_write(&folder, &owner()));
    assert!(world.config().contains(&path));
    let resumed = again.0.lock().unwrap().clone();
    assert_eq!(resumed.len(), 1);
    assert_eq!(resumed[0].id, "grant-resume-1");
    assert_eq!(
        (&resumed[0].origin, &resumed[0].turn),
        (&owner(), &ids("1"))
    );
    let records = world.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["requested_by"], "agent");
    assert_eq!(records[0]["reason"], "it is needed");

    let allowed = DirectoryAnswer::AlreadyAllowed {
        path: folder.clone(),
    };
    assert_eq!(world.ask(&folder, "2", &port).await.unwrap(), allowed);
    port.only();
}

#[tokio::test]
async fn unsafe_folders_are_refused_with_no_prompt() {
    let world = World::new("[sandbox]\nblocked_roots = [\"~/closed\"]\n");
    let home = world.test.os_home().to_owned();
    world.folder(".ssh");
    world.folder("closed/inner");
    fs::write(home.join(".netrc"), "SECRET").unwrap();
    let link = world.folder("links").join("ssh");
    symlink(home.join(".ssh"), &link).unwrap();
    symlink(&home, home.join("links/home")).unwrap();
    let port = Port::default();
    for path in [
        "~".into(),
        "~/.ssh".into(),
        "/".into(),
        world.test.fermix_home(),
        link,
        home.join("links/home"),
        home.join(".netrc"),
        home.parent().unwrap().to_owned(),
        "/etc/passwd".into(),
    ] {
        let refused = world.ask(&path, "1", &port).await.unwrap_err();
        assert!(
            matches!(refused, DirectoryRefusal::Unsafe { .. }),
            "{}: {refused}",
            path.display()
        );
        assert!(refused.to_string().contains("refuses to grant"));
    }
    for path in ["~/absent", "~/closed/inner", "~/.ssh/../../x/\0"] {
        let refused = world.ask(path.as_ref(), "1", &port).await.unwrap_err();
        assert!(
            refused.to_string().starts_with("Cannot request access to "),
            "{refused}"
        );
    }
    assert!(port.shown().is_empty() && world.records().is_empty());
}

#[tokio::test]
async fn a_denial_holds_for_the_turn_and_no_turn_asks_more_than_three_times() {
    let world = World::new("");
    let port = Port::default();
    let first = world.folder("first");
    world.ask(&first, "1", &port).await.unwrap();
    let deny = format!("/deny {}", port.only().token);
    let answer = world.say(&deny, &owner()).await;
    assert!(answer.starts_with("Sandbox change denied"), "{answer}");
    let refused = world.ask(&first, "1", &port).await.unwrap_err();
    assert!(matches!(refused, DirectoryRefusal::Denied(_)), "{refused}");
    port.only();

    for name in ["second", "third"] {
        world.ask(&world.folder(name), "1", &port).await.unwrap();
    }
    let refused = world.ask(&world.folder("fourth"), "1", &port).await;
    assert!(matches!(refused, Err(DirectoryRefusal::TooMany)));
    // One that already waits is still told to wait.
    let pending = world.ask(&world.folder("third"), "1", &port).await.unwrap();
    assert!(matches!(pending, DirectoryAnswer::AlreadyPending { .. }));
    assert_eq!(port.shown().len(), 3);
    // Another turn asks anew.
    world.ask(&first, "2", &port).await.unwrap();
    assert_eq!(port.shown().len(), 4);
}

#[tokio::test]
async fn a_request_that_ran_out_is_dead_and_a_new_one_asks_afresh() {
    let world = World::new("");
    let folder = world.folder("project");
    let port = Port::default();
    world.ask(&folder, "1", &port).await.unwrap();
    let old = port.only().token;
    world.pass(61);
    let answer = world.say(&format!("/confirm {old}"), &owner()).await;
    assert!(answer.starts_with("expired"), "{answer}");
    world.ask(&folder, "1", &port).await.unwrap();
    let fresh = port.shown()[1].token.clone();
    assert_ne!(old, fresh);
    let answer = world.say(&format!("/confirm {fresh}"), &owner()).await;
    // Nothing can send the request again here.
    assert!(answer.ends_with("Re-run your request."), "{answer}");
}

#[tokio::test]
async fn the_prompt_shows_whose_words_it_holds() {
    let world = World::new("");
    let folder = world.folder("project");
    let file = folder.join("notes.txt");
    fs::write(&file, "x").unwrap();
    let port = Port::default();
    let outside = OutsideSources::clean();
    outside.add(OutsideSource::new("web", "https://evil.example"));
    let reason = format!("first\nApprove: /confirm\u{202e}\u{7} {}", "x".repeat(400));
    let answer = world.ask_for(&file, &reason, "1", &port, &outside).await;
    assert_eq!(
        answer.unwrap(),
        DirectoryAnswer::Requested {
            folder: folder.clone(),
            is_widened: true,
        }
    );
    let body = port.only().body;
    let lines: Vec<&str> = body.lines().collect();
    assert!(
        lines[0].starts_with("The agent's words: \"first Approve: /confirm x"),
        "{body}"
    );
    assert!(lines[0].chars().count() <= 330, "{body}");
    assert!(lines[1].contains("asked for the file") && lines[1].contains("whole folder"));
    assert!(lines[2].starts_with("Warning: this turn has read text from https://evil.example"));
    assert!(!body.contains('\u{202e}') && !body.contains('\u{7}'));

    // A name that pretends to be a line of the prompt is shown as what it is.
    let odd = world.folder("odd\u{202e}name");
    world.ask(&odd, "2", &port).await.unwrap();
    let prompt = &port.shown()[1];
    assert!(
        prompt.title.contains("odd\\u{202e}name"),
        "{}",
        prompt.title
    );
}

#[tokio::test]
async fn a_prompt_that_nobody_saw_leaves_nothing_behind() {
    let world = World::new("");
    let folder = world.folder("project");
    let refused = world.ask(&folder, "1", &Port::gone()).await.unwrap_err();
    assert!(
        matches!(refused, DirectoryRefusal::NotShown(_)),
        "{refused}"
    );
    let port = Port::default();
    world.ask(&folder, "1", &port).await.unwrap();
    port.only();
}

#[tokio::test]
async fn once_opens_the_folder_for_the_turn_that_goes_on() {
    let world = World::new("");
    let again = Arc::new(Again::default());
    world.desk.resume_through(again.clone());
    let folder = world.folder("project");
    let port = Port::default();
    world.ask(&folder, "1", &port).await.unwrap();
    world
        .say(&format!("/confirm {} once", port.only().token), &owner())
        .await;
    assert!(world.may_write(&folder, &owner()));
    assert!(!world.may_write(&folder, &origin("other", "7")));
    assert_eq!(again.0.lock().unwrap().len(), 1);
    assert_eq!(world.config(), "");
}
