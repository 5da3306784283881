//! Refusals name a way out, and only ways that lead out.

use std::fs;

use fermix_sandbox::{DenialReason, Scope};
use fermix_types::{SandboxMode, ToolError};

use crate::support::TestHome;

#[test]
fn refusals_say_what_the_owner_can_do() {
    let mut test = TestHome::new(SandboxMode::Strict);
    let outside = test.outside();
    let spaced = outside.join("It's Mine");
    fs::create_dir_all(&spaced).expect("created");
    fs::create_dir_all(test.home.join("closed")).expect("created");
    test.settings.blocked_roots = vec![test.home.join("closed")];
    let sandbox = test.sandbox();
    let scope = Scope::default();
    let out = outside.display().to_string();
    let home = test.home.display().to_string();
    for (path, lead, words) in [
        (
            format!("{out}/new.txt"),
            "Path is outside the sandbox roots: ",
            vec![
                format!("`fermix ask --root {out}`"),
                format!("`fermix grant path {out}`"),
                "`request_directory_access`".to_owned(),
            ],
        ),
        (
            format!("{}/x", spaced.display()),
            "Path is outside the sandbox roots: ",
            vec![
                format!("--root '{out}/It'\\''s Mine'"),
                format!("grant path '{out}/It'\\''s Mine'"),
            ],
        ),
        (
            format!("{out}/new/deep.txt"),
            "Path is outside the sandbox roots: ",
            vec![format!("`{out}/new` is not an existing folder")],
        ),
        // What can never be granted is not advised.
        (
            "/x".to_owned(),
            "Path is outside the sandbox roots: ",
            vec!["can never be opened".to_owned()],
        ),
        (
            "/tmp/x".to_owned(),
            "Path is outside the sandbox roots: ",
            vec!["`/tmp` itself can never be opened".to_owned()],
        ),
        (
            format!("{home}/note"),
            "Path is outside the sandbox roots: ",
            vec![format!("`{home}` itself can never be opened")],
        ),
        (
            format!("{home}/closed/x"),
            "Path is under a blocked root: ",
            vec![
                format!("`{home}/closed`"),
                "sandbox.blocked_roots".to_owned(),
            ],
        ),
        (
            "/etc/passwd".to_owned(),
            "Path is protected by the sandbox: ",
            vec!["`/etc` belongs to the operating system".to_owned()],
        ),
        (
            format!("{home}/.ssh/id"),
            "Path is protected by the sandbox: ",
            vec![format!("`{home}/.ssh` holds credentials")],
        ),
        (
            format!("{home}/.fermix/plugins/x"),
            "Path is protected by the sandbox: ",
            vec!["Fermix's own home is closed".to_owned()],
        ),
    ] {
        let denied = sandbox.writable(&path, &scope).expect_err("refused");
        assert_eq!(
            denied.grantable().is_some(),
            denied.reason == DenialReason::OutsideRoot && words[0].contains("--root"),
            "{path}"
        );
        let error = ToolError::from(denied);
        assert_eq!(error.tag, "sandbox_denied");
        assert!(error.enforcement.is_some(), "{path}");
        assert!(error.message.starts_with(lead), "{}", error.message);
        for word in words {
            assert!(error.message.contains(&word), "{word}: {}", error.message);
        }
        if !error.message.contains("--root") {
            assert!(!error.message.contains("fermix "), "{}", error.message);
        }
    }
}

#[test]
fn advice_does_not_take_away_what_was_granted() {
    let mut test = TestHome::new(SandboxMode::Strict);
    test.settings.allowed_roots = vec![test.home.join("project")];
    let path = test.outside().join("x").display().to_string();
    let denied = test
        .sandbox()
        .writable(&path, &Scope::default())
        .expect_err("refused");
    let message = denied.to_string();
    assert!(!message.contains("config set"), "{message}");
    assert!(message.contains("fermix grant path"), "{message}");
}
