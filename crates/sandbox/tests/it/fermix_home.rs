//! Fermix's own home: closed but for the workspace and the skills.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::sync::Mutex;

use fermix_sandbox::{Sandbox, Scope};
use fermix_types::SandboxMode;

use crate::support::{TestHome, walk_options};

fn verdicts(sandbox: &Sandbox, home: &std::path::Path, paths: &[(&str, &str)]) {
    for (path, expected) in paths {
        let path = home.join(path).display().to_string();
        let found = sandbox
            .readable(&path, &Scope::default())
            .map_or_else(|denied| denied.reason.as_str(), |_| "allow");
        assert_eq!(found, *expected, "{path}");
    }
}

#[test]
fn everything_but_the_open_parts_is_closed() {
    let mut test = TestHome::new(SandboxMode::Open);
    let fermix = test.surroundings.fermix_home.clone();
    for folder in ["oauth", "tools/shop", "workspace/sub", "skills/mail"] {
        fs::create_dir_all(fermix.join(folder)).expect("created");
    }
    fs::create_dir_all(test.home.join("traces/day")).expect("created");
    fs::write(fermix.join("oauth/token"), "SECRET").expect("written");
    fs::write(fermix.join("tools/shop/own.txt"), "mine").expect("written");
    fs::write(fermix.join("skills/mail/SKILL.md"), "skill").expect("written");
    fs::hard_link(fermix.join("oauth/token"), test.home.join("project/alias")).expect("linked");
    fs::hard_link(
        fermix.join("workspace/note.txt"),
        test.home.join("project/note"),
    )
    .expect("linked");
    symlink(fermix.join("oauth"), test.home.join("project/out")).expect("linked");
    test.settings.workspace_root = fermix.join("tools/shop");
    let sandbox = test
        .sandbox()
        .protecting(vec![test.home.join("traces")])
        .expect("absolute");
    verdicts(
        &sandbox,
        &test.home,
        &[
            (".fermix", "protected_path"),
            (".fermix/oauth/token", "protected_path"),
            (".FERMIX/oauth", "protected_path"),
            (".fermix/new", "protected_path"),
            (".fermix/tools", "protected_path"),
            (".fermix/tools/other", "protected_path"),
            (".fermix/tools/shop/own.txt", "allow"),
            (".fermix/workspace/new/file", "allow"),
            (".fermix/workspace/../oauth", "protected_path"),
            (".fermix/skills/mail/SKILL.md", "allow"),
            (".fermix-notes/x", "allow"),
            ("project/out/token", "protected_path"),
            ("traces/day/x.jsonl", "protected_path"),
        ],
    );
    assert!(
        sandbox.protecting(vec!["relative".into()]).is_err(),
        "a relative folder moves with the process"
    );

    let scope = Scope::default();
    let root = sandbox.readable("~", &scope).expect("the home is a root");
    let seen = Mutex::new(Vec::new());
    let summary = sandbox
        .batch(root, &scope)
        .walk(&walk_options(), &|file| {
            if file.is_permitted() {
                let below = file.path().strip_prefix(&test.home).expect("below");
                let name = below.display().to_string();
                seen.lock().expect("unpoisoned").push(name);
            }
            ControlFlow::Continue(())
        })
        .expect("walked");
    let mut seen = seen.into_inner().expect("unpoisoned");
    seen.sort();
    assert_eq!(
        seen,
        [
            ".fermix/skills/mail/SKILL.md",
            ".fermix/tools/shop/own.txt",
            ".fermix/workspace/note.txt",
            "project/a.txt",
            "project/note",
        ]
    );
    assert_eq!(summary.not_entered, 0);
}

#[test]
fn a_link_in_place_of_an_open_part_opens_nothing() {
    let test = TestHome::new(SandboxMode::Open);
    let fermix = test.surroundings.fermix_home.clone();
    fs::create_dir_all(fermix.join("oauth")).expect("created");
    fs::remove_dir(fermix.join("skills")).expect("empty");
    symlink("oauth", fermix.join("skills")).expect("linked");
    verdicts(
        &test.sandbox(),
        &test.home,
        &[
            (".fermix/skills/token", "protected_path"),
            (".fermix/oauth/token", "protected_path"),
        ],
    );
}
