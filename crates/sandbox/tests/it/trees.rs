//! Searches see what may be read, once, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::sync::Mutex;
use std::time::Instant;

use fermix_sandbox::{Sandbox, Scope, Stopped, WalkOptions};
use fermix_types::SandboxMode;

use crate::support::{TestHome, walk_options};

fn files(sandbox: &Sandbox, root: &str, options: &WalkOptions) -> BTreeSet<String> {
    let scope = Scope::default();
    let root = sandbox.readable(root, &scope).expect("allowed");
    let base = root.path().to_owned();
    let tree = sandbox.batch(root, &scope);
    let found = Mutex::new(BTreeSet::new());
    let summary = tree
        .walk(options, &|file| {
            let mut text = String::new();
            file.open()
                .expect("a listed file opens")
                .file
                .read_to_string(&mut text)
                .expect("text");
            assert!(!text.contains("SECRET"), "{}", file.path().display());
            let name = file
                .path()
                .strip_prefix(&base)
                .expect("below the root")
                .display()
                .to_string();
            assert!(
                found.lock().expect("unpoisoned").insert(name),
                "visited twice"
            );
            ControlFlow::Continue(())
        })
        .expect("walked");
    assert_eq!(summary.stopped, None);
    found.into_inner().expect("unpoisoned")
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_walk_prunes_follows_nothing_and_leaves_nothing_else_out() {
    let mut test = TestHome::new(SandboxMode::Open);
    let project = test.home.join("project");
    for folder in [".git", "src/deep", "blocked", "built", "sub"] {
        fs::create_dir_all(project.join(folder)).expect("created");
    }
    for (file, text) in [
        (".git/HEAD", "ref"),
        (".git/config", "git"),
        (".hidden", "dot"),
        ("src/main.rs", "main"),
        ("src/deep/x.rs", "x"),
        ("blocked/secret", "SECRET blocked"),
        ("built/out.o", "o"),
        ("keep.log", "log"),
        ("drop.log", "log"),
        ("sub/drop.log", "log"),
        ("sub/keep.log", "log"),
        (".gitignore", "*.log\nbuilt/\n!keep.log\n"),
        ("sub/.gitignore", "!drop.log\n"),
    ] {
        fs::write(project.join(file), text).expect("written");
    }
    symlink("src/main.rs", project.join("link.rs")).expect("linked");
    symlink("src", project.join("linked-folder")).expect("linked");
    symlink(test.home.join(".ssh/id"), project.join("key")).expect("linked");
    symlink(test.outside().join("file"), project.join("out")).expect("linked");
    symlink("nowhere", project.join("dangling")).expect("linked");
    test.settings.blocked_roots = vec![project.join("blocked")];
    let sandbox = test.sandbox();

    let mut expected = set(&[
        ".gitignore",
        ".hidden",
        "a.txt",
        "built/out.o",
        "drop.log",
        "keep.log",
        "link.rs",
        "src/deep/x.rs",
        "src/main.rs",
        "sub/.gitignore",
        "sub/drop.log",
        "sub/keep.log",
    ]);
    assert_eq!(files(&sandbox, "~/project", &walk_options()), expected);
    let honouring = WalkOptions {
        respect_gitignore: true,
        ..walk_options()
    };
    expected.retain(|name| !["built/out.o", "drop.log"].contains(&name.as_str()));
    assert_eq!(files(&sandbox, "~/project", &honouring), expected);
    assert_eq!(
        files(&sandbox, "~/project/sub", &honouring),
        set(&[".gitignore", "drop.log", "keep.log"])
    );
    assert_eq!(
        files(&sandbox, "~/project/src", &honouring),
        set(&["deep/x.rs", "main.rs"])
    );
    let with_git = WalkOptions {
        include_git: true,
        ..walk_options()
    };
    assert!(files(&sandbox, "~/project", &with_git).contains(".git/HEAD"));
    assert_eq!(
        files(&sandbox, "~/project/a.txt", &walk_options()),
        set(&[""])
    );

    // The whole home: everything protected is pruned, by folder and by file.
    let whole = files(&sandbox, "~", &walk_options());
    assert!(
        whole.contains(".fermix/workspace/note.txt") && whole.contains("project/a.txt"),
        "{whole:?}"
    );
    assert!(
        !whole.iter().any(|name| name.starts_with(".ssh")
            || name == ".netrc"
            || name.ends_with("auth.json")),
        "{whole:?}"
    );
    let denied: BTreeSet<String> = test
        .trace
        .rows()
        .iter()
        .filter(|row| row.fields["decision"] == "deny")
        .map(|row| row.fields["reason"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        denied,
        set(&["blocked_root", "outside_root", "protected_path"])
    );
}

#[test]
fn a_walk_ends_at_each_of_its_bounds() {
    let test = TestHome::new(SandboxMode::Standard);
    for folder in 0..20 {
        fs::create_dir(test.workspace().join(format!("{folder}"))).expect("created");
        for file in 0..20 {
            fs::write(test.workspace().join(format!("{folder}/{file}")), "").expect("written");
        }
    }
    let sandbox = test.sandbox();
    let walk = |options: &WalkOptions, scope: &Scope, most: usize| {
        let root = sandbox
            .readable(&test.workspace().display().to_string(), scope)
            .expect("allowed");
        let seen = Mutex::new(0);
        let summary = sandbox
            .batch(root, scope)
            .walk(options, &|_| {
                let mut seen = seen.lock().expect("unpoisoned");
                *seen += 1;
                if *seen >= most {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .expect("walked");
        (summary, seen.into_inner().expect("unpoisoned"))
    };
    let scope = Scope::default();
    let (summary, seen) = walk(&walk_options(), &scope, usize::MAX);
    assert_eq!((summary.entries, summary.stopped, seen), (421, None, 401));
    let (summary, _) = walk(
        &WalkOptions {
            max_entries: 50,
            ..walk_options()
        },
        &scope,
        usize::MAX,
    );
    assert_eq!(
        (summary.entries, summary.stopped),
        (50, Some(Stopped::EntryCap))
    );
    let (summary, seen) = walk(
        &WalkOptions {
            deadline: Instant::now(),
            ..walk_options()
        },
        &scope,
        usize::MAX,
    );
    assert_eq!((summary.stopped, seen), (Some(Stopped::Deadline), 0));
    let (summary, seen) = walk(
        &WalkOptions {
            max_depth: Some(1),
            ..walk_options()
        },
        &scope,
        usize::MAX,
    );
    assert_eq!(
        (summary.entries, summary.stopped, seen),
        (21, None, 1),
        "the folders are seen, and not entered"
    );
    let (summary, seen) = walk(
        &WalkOptions {
            max_depth: Some(2),
            ..walk_options()
        },
        &scope,
        usize::MAX,
    );
    assert_eq!((summary.entries, summary.stopped, seen), (421, None, 401));
    let (summary, seen) = walk(
        &WalkOptions {
            threads: 1,
            ..walk_options()
        },
        &scope,
        7,
    );
    assert_eq!((summary.stopped, seen), (Some(Stopped::Visitor), 7));
    scope.cancel.cancel();
    assert_eq!(
        walk(&walk_options(), &scope, usize::MAX).0.stopped,
        Some(Stopped::Cancelled)
    );
}

#[test]
fn what_could_not_be_entered_is_counted() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    // Deeper than a path can say: made and removed one step at a time.
    let name = "d".repeat(250);
    let mut folder = fs::File::open(test.workspace()).expect("there");
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
    for _ in 0..20 {
        let mode = rustix::fs::Mode::from_raw_mode(0o755);
        rustix::fs::mkdirat(&folder, &name, mode).expect("made");
        folder = rustix::fs::openat(&folder, &name, flags, rustix::fs::Mode::empty())
            .expect("opened")
            .into();
    }
    let scope = Scope::default();
    let root = sandbox.readable(".", &scope).expect("allowed");
    let summary = sandbox
        .batch(root, &scope)
        .walk(&walk_options(), &|_| ControlFlow::Continue(()))
        .expect("walked");
    assert_eq!((summary.stopped, summary.not_entered), (None, 1));
}
