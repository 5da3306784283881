//! The policy's commands in a chat, and its tokens (spec/02 §2.11, §2.12).

use std::fs;
use std::os::unix::fs::symlink;

use fermix_approvals::policy::Who;

use crate::support::{World, origin, owner, token};

#[tokio::test]
async fn grant_confirm_and_again() {
    let world = World::new("");
    let folder = world.folder("project");
    let path = folder.display().to_string();
    let prompt = world.say("/grant path ~/project", &owner()).await;
    assert!(
        prompt.starts_with(&format!(
            "Open a folder: {path}\neffective_roots + {path}\nallowed_roots + {path}\n"
        )),
        "{prompt}"
    );
    assert!(prompt.contains("expires in 60s"), "{prompt}");
    let token = token(&prompt);
    // The same request again has the same token.
    assert!(
        world
            .say("/grant path ~/project", &owner())
            .await
            .contains(&token)
    );

    // From elsewhere, or by somebody else, it does nothing and burns nothing.
    let confirm = format!("/confirm {token}");
    for stranger in [origin("chat", "8"), origin("other", "7")] {
        let answer = world.say(&confirm, &stranger).await;
        assert!(answer.starts_with("origin_mismatch"), "{answer}");
    }
    assert!(!world.may_write(&folder, &owner()));
    let answer = world.say(&confirm.to_lowercase(), &owner()).await;
    assert!(
        answer.contains(&format!("allowed_roots + {path}")),
        "{answer}"
    );
    assert!(world.may_write(&folder, &owner()));
    assert!(world.config().contains(&path));
    let answer = world.say(&confirm, &owner()).await;
    assert!(answer.starts_with("unknown_token"), "{answer}");
    let records = world.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["channel"], "telegram");
    assert_eq!(records[0]["confirmed_by"], "7");
    let hash = records[0]["token_hash"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    let written = serde_json::to_string(&records).unwrap();
    let traced = format!("{:?}", world.trace.rows());
    assert!(!written.contains(&token) && !traced.contains(&token));

    let answer = world.say(&format!("/revoke path {path}"), &owner()).await;
    assert!(answer.starts_with("applied"), "{answer}");
    assert!(!world.may_write(&folder, &owner()));
}

#[tokio::test]
async fn only_the_owner_in_person_changes_anything() {
    let world = World::new("");
    let folder = world.folder("project");
    let prompt = world.say("/grant path ~/project", &owner()).await;
    let token = token(&prompt);
    let confirm = format!("/confirm {token}");
    let deny = format!("/deny {token}");
    let before = world.config();
    let lines = [
        "/grant path ~/other",
        "/revoke path ~/project",
        confirm.as_str(),
        deny.as_str(),
        "/sandbox mode strict",
        "/sandbox env allow A",
        "/sandbox env set A -- pass show",
        "/sandbox env deny A",
        "/sandbox env unset A",
        "/sandbox env get A",
        "/sandbox commands profile assistant",
        "/sandbox commands enable dev_tools",
        "/sandbox commands disable dev_tools",
        "/sandbox grants",
        "/sandbox check ~/x",
        "/sandbox nonsense",
    ];
    let looks = ["/sandbox status", "/sandbox explain"];
    for (who, may_look) in [
        (Who::StartedByFermix, false),
        (
            Who::Guest {
                is_allowlisted: false,
            },
            false,
        ),
        (
            Who::Guest {
                is_allowlisted: true,
            },
            true,
        ),
    ] {
        for line in lines.iter().chain(&looks) {
            let words: Vec<&str> = line.split_whitespace().collect();
            // Even from the owner's own chat.
            let reply = world.desk.chat_command(&words, &owner(), who).await;
            let is_refused = reply.text == "only the owner may do that"
                || reply.text.contains("started by Fermix");
            let may = may_look && looks.contains(line);
            assert_eq!(!is_refused, may, "{who:?} {line}: {}", reply.text);
        }
    }
    assert_eq!(world.config(), before);
    // The prompt still waits.
    world.say(&confirm, &owner()).await;
    assert!(world.may_write(&folder, &owner()));
}

#[tokio::test]
async fn a_token_runs_out_and_a_restart_forgets_it() {
    let world = World::new("");
    let folder = world.folder("project");
    let prompt = world.say("/grant path ~/project", &owner()).await;
    world.pass(61);
    let late = world
        .say(&format!("/confirm {}", token(&prompt)), &owner())
        .await;
    assert!(late.starts_with("expired"), "{late}");
    let fresh = world.say("/grant path ~/project", &owner()).await;
    assert_ne!(token(&prompt), token(&fresh));

    let World { test, .. } = world;
    let world = World::in_home(test);
    let answer = world
        .say(&format!("/confirm {}", token(&fresh)), &owner())
        .await;
    assert!(answer.starts_with("unknown_token"), "{answer}");
    assert!(!world.may_write(&folder, &owner()));
}

#[tokio::test]
async fn answers_can_be_narrower_than_the_question() {
    let world = World::new("");
    let folder = world.folder("project");
    let there = origin("other", "7");

    let prompt = world.say("/grant path ~/project", &owner()).await;
    let once = format!("/confirm {} once", token(&prompt));
    let answer = world.say(&once, &owner()).await;
    assert!(answer.contains("(this conversation)"), "{answer}");
    assert!(world.may_write(&folder, &owner()) && !world.may_write(&folder, &there));
    assert_eq!(
        world.config(),
        "",
        "nothing is written for one conversation"
    );
    assert_eq!(world.records()[0]["scope"], "once");
    let answer = world.say("/revoke path ~/project", &owner()).await;
    assert!(answer.starts_with("applied"), "{answer}");
    assert!(!world.may_write(&folder, &owner()));

    let prompt = world.say("/grant path ~/project", &owner()).await;
    world
        .say(&format!("/confirm {} read", token(&prompt)), &owner())
        .await;
    assert!(world.may_read(&folder) && !world.may_write(&folder, &owner()));
    assert!(world.config().contains("read_roots"));

    // Typed with the question, no other answer widens it.
    let notes = world.folder("notes");
    let prompt = world.say("/grant path ~/notes --read", &owner()).await;
    let token = token(&prompt);
    let answer = world.say(&format!("/confirm {token} once"), &owner()).await;
    assert!(answer.contains("does not fit"), "{answer}");
    world.say(&format!("/confirm {token}"), &owner()).await;
    assert!(world.may_read(&notes) && !world.may_write(&notes, &owner()));

    // What is no grant takes no narrower answer.
    let prompt = world.say("/sandbox mode open", &owner()).await;
    let token = crate::support::token(&prompt);
    let answer = world.say(&format!("/confirm {token} read"), &owner()).await;
    assert!(answer.contains("does not fit"), "{answer}");
    let answer = world.say(&format!("/deny {token}"), &owner()).await;
    assert!(answer.starts_with("Sandbox change denied"), "{answer}");
    assert!(!world.config().contains("open"));
}

#[tokio::test]
async fn a_path_that_was_swapped_before_the_answer_is_refused() {
    let world = World::new("");
    let (shown, other) = (world.folder("shown"), world.folder("other"));
    let link = world.test.os_home().join("link");
    symlink(&shown, &link).unwrap();
    let prompt = world.say("/grant path ~/link", &owner()).await;
    assert!(prompt.contains(&shown.display().to_string()), "{prompt}");
    fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    let answer = world
        .say(&format!("/confirm {}", token(&prompt)), &owner())
        .await;
    assert!(answer.contains("leads somewhere else"), "{answer}");
    assert!(!world.may_write(&shown, &owner()) && !world.may_write(&other, &owner()));
    assert_eq!(world.config(), "");

    // A folder that turned into a link to something unsafe is refused too.
    let prompt = world.say("/grant path ~/other", &owner()).await;
    fs::remove_dir(&other).unwrap();
    symlink(world.test.os_home(), &other).unwrap();
    let answer = world
        .say(&format!("/confirm {}", token(&prompt)), &owner())
        .await;
    assert!(answer.contains("unsafe_root"), "{answer}");
    assert!(world.records().is_empty());
}

#[tokio::test]
async fn a_change_that_became_wider_since_it_was_shown_is_refused() {
    let world = World::new("");
    let prompt = world
        .say("/sandbox commands enable dev_tools", &owner())
        .await;
    let profile = world
        .say("/sandbox commands profile assistant", &owner())
        .await;
    assert!(profile.starts_with("applied"), "{profile}");
    // Now the preset would bring tools that the prompt did not show.
    let answer = world
        .say(&format!("/confirm {}", token(&prompt)), &owner())
        .await;
    assert!(answer.contains("changed since this was shown"), "{answer}");
    assert!(!world.config().contains("dev_tools"));
}

#[tokio::test]
async fn guessing_is_not_listened_to() {
    let world = World::new("");
    world.folder("project");
    let prompt = world.say("/grant path ~/project", &owner()).await;
    let guesser = origin("chat", "8");
    for _ in 0..5 {
        world.say("/confirm AAAAAAAA", &guesser).await;
    }
    let answer = world
        .say(&format!("/confirm {}", token(&prompt)), &guesser)
        .await;
    assert!(answer.starts_with("too many wrong tokens"), "{answer}");
    let answer = world
        .say(&format!("/confirm {}", token(&prompt)), &owner())
        .await;
    assert!(answer.contains("applied"), "{answer}");
}
