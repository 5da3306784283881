//! `content_search` (spec/02 §4.6).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, ok, refused};

fn file(root: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("below the root")).expect("the home is ours");
    fs::write(path, content).expect("the home is ours");
}

fn library() -> World {
    let world = World::new();
    let root = world.home.workspace();
    file(
        &root,
        "b.txt",
        "needle one\nnothing\nNEEDLE two\nneedle three   \n",
    );
    file(&root, "a/z.rs", "fn main() {\r\n\tneedle();\r\n}\r\n");
    file(&root, "a-c.rs", "// a needle. needle.*\n");
    file(&root, "latin.txt", b"ni\xf1o needle\n");
    file(&root, "binary.bin", b"needle\0needle\n");
    file(
        &root,
        "late.bin",
        [vec![b' '; 4096], b"\0needle\n".to_vec()].concat(),
    );
    file(&root, ".hidden", "a needle\n");
    file(&root, ".git/config", "needle\n");
    file(&root, "out/built.rs", "needle\n");
    file(&root, ".gitignore", "out/\n");
    world
}

async fn answer(world: &World, arguments: Value) -> (Value, Vec<String>) {
    let text = ok(world.call("content_search", arguments).await);
    let mut lines = text.lines();
    let answer = serde_json::from_str(lines.next().expect("an object")).expect("an object");
    (answer, lines.map(str::to_owned).collect())
}

/// Runs a search; `path:line:text` for each match, paths below the workspace.
async fn search(world: &World, arguments: Value) -> Vec<String> {
    let (answer, _) = answer(world, arguments).await;
    let root = format!(
        "{}/",
        fs::canonicalize(world.home.workspace())
            .expect("it exists")
            .display()
    );
    answer["matches"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|found| {
            let path = found["path"].as_str().expect("text");
            let path = path
                .strip_prefix(&root)
                .expect("absolute and below the workspace");
            format!(
                "{path}:{}:{}",
                found["line"],
                found["text"].as_str().expect("text")
            )
        })
        .collect()
}

#[tokio::test]
async fn matches_come_in_the_order_of_paths_and_lines() {
    let world = library();
    let all = [
        ".hidden:1:a needle",
        "a-c.rs:1:// a needle. needle.*",
        "a/z.rs:2:\tneedle();",
        "b.txt:1:needle one",
        "b.txt:4:needle three",
        "late.bin:1:…",
        "latin.txt:1:ni\u{FFFD}o needle",
        "out/built.rs:1:needle",
    ];
    let mut found = search(&world, json!({"pattern": "needle"})).await;
    let late = found
        .iter_mut()
        .find(|line| line.starts_with("late.bin"))
        .expect("it is text");
    assert!(late.ends_with("\0needle"), "{late}");
    *late = "late.bin:1:…".to_owned();
    assert_eq!(found, all);
}

#[tokio::test]
async fn what_is_searched_and_for_what() {
    let world = library();
    let root = world.home.workspace();
    let cases: &[(Value, &[&str])] = &[
        // Literal unless told otherwise.
        (
            json!({"pattern": "needle.*"}),
            &["a-c.rs:1:// a needle. needle.*"],
        ),
        (json!({"pattern": "needle();"}), &["a/z.rs:2:\tneedle();"]),
        (
            json!({"pattern": "^needle (one|two)$", "regex": true}),
            &["b.txt:1:needle one"],
        ),
        (
            json!({"pattern": "(?i)^needle t", "regex": true}),
            &["b.txt:3:NEEDLE two", "b.txt:4:needle three"],
        ),
        // `$` matches before a CRLF, too.
        (
            json!({"pattern": r"\(\);$", "regex": true}),
            &["a/z.rs:2:\tneedle();"],
        ),
        (json!({"pattern": "no such thing"}), &[]),
        // Where.
        (
            json!({"pattern": "needle", "path": "a"}),
            &["a/z.rs:2:\tneedle();"],
        ),
        (
            json!({"pattern": "needle", "path": "b.txt"}),
            &["b.txt:1:needle one", "b.txt:4:needle three"],
        ),
        (
            json!({"pattern": "needle", "path": root.join("b.txt"), "max_results": 1}),
            &["b.txt:1:needle one"],
        ),
        (json!({"pattern": "needle", "path": "binary.bin"}), &[]),
        (
            json!({"pattern": "needle", "glob": "*.rs"}),
            &[
                "a-c.rs:1:// a needle. needle.*",
                "a/z.rs:2:\tneedle();",
                "out/built.rs:1:needle",
            ],
        ),
        (
            json!({"pattern": "needle", "glob": "a/*"}),
            &["a/z.rs:2:\tneedle();"],
        ),
        (
            json!({"pattern": "needle", "glob": "*.rs", "respect_gitignore": true}),
            &["a-c.rs:1:// a needle. needle.*", "a/z.rs:2:\tneedle();"],
        ),
        (
            json!({"pattern": "needle", "glob": ".git/*"}),
            &[".git/config:1:needle"],
        ),
        (
            json!({"pattern": "needle", "path": ".git"}),
            &[".git/config:1:needle"],
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(
            search(&world, arguments.clone()).await,
            *expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn context_surrounds_each_match() {
    let world = World::new();
    let lines: String = (1..=20).map(|n| format!("line {n}\n")).collect();
    file(&world.home.workspace(), "f", lines);
    let arguments = json!({"pattern": "line (5|7|20)$", "regex": true, "context": 2});
    let (found, _) = answer(&world, arguments).await;
    let path = fs::canonicalize(world.home.workspace().join("f")).unwrap();
    let expected = json!({"matches": [
        {"path": path, "line": 5, "text": "line 5", "before": ["line 3", "line 4"], "after": ["line 6"]},
        {"path": path, "line": 7, "text": "line 7", "after": ["line 8", "line 9"]},
        {"path": path, "line": 20, "text": "line 20", "before": ["line 18", "line 19"]},
    ], "truncated": false});
    assert_eq!(found, expected);
    let (_, notes) = answer(&world, json!({"pattern": "line 5", "context": 99})).await;
    assert_eq!(notes, ["[note: context 99 was taken as 5 (0 to 5)]"]);
}

#[tokio::test]
async fn limits_are_told() {
    let world = World::new();
    let root = world.home.workspace();
    for n in 0..50 {
        file(&root, &format!("{n:02}"), "hit\n".repeat(40));
    }
    for (wanted, shown, truncated) in [
        (json!(null), 200, true),
        (json!(7), 7, true),
        (json!(0), 1, true),
    ] {
        let (found, notes) = answer(&world, json!({"pattern": "hit", "max_results": wanted})).await;
        let matches = found["matches"].as_array().expect("a list");
        assert_eq!(matches.len(), shown);
        assert_eq!(found["truncated"], truncated);
        assert!(found.get("timed_out").is_none());
        assert!(
            notes.iter().any(|note| note.contains("narrow")),
            "{notes:?}"
        );
        // Always the first ones, whichever thread was faster.
        for (at, found) in matches.iter().enumerate() {
            assert!(
                found["path"]
                    .as_str()
                    .expect("text")
                    .ends_with(&format!("/{:02}", at / 40))
            );
            assert_eq!(found["line"], at % 40 + 1);
        }
    }
    let (found, notes) = answer(
        &world,
        json!({"pattern": "hit", "path": "00", "max_results": 40}),
    )
    .await;
    assert_eq!(
        (found["truncated"].clone(), notes.len()),
        (json!(false), 0),
        "exactly as many as asked for"
    );

    // An answer with long lines is cut between matches, and stays JSON.
    file(
        &root,
        "wide",
        format!("{}hit{}\n", "\u{1}".repeat(300), "\u{1}".repeat(300)).repeat(1000),
    );
    let (found, _) = answer(
        &world,
        json!({"pattern": "hit", "path": "wide", "max_results": 1000}),
    )
    .await;
    let count = found["matches"].as_array().expect("a list").len();
    assert!(count > 50 && count < 1000, "{count}");
    assert_eq!(found["truncated"], true);
}

#[tokio::test]
async fn files_too_large_are_skipped_and_counted() {
    let world = World::new();
    let root = world.home.workspace();
    file(&root, "small", "hit\n");
    fs::File::create(root.join("large"))
        .unwrap()
        .set_len(33 * 1024 * 1024)
        .unwrap();
    file(&root, "one-line", "x".repeat(9 * 1024 * 1024));
    let (found, notes) = answer(&world, json!({"pattern": "hit"})).await;
    assert_eq!(found["matches"].as_array().expect("a list").len(), 1);
    assert!(notes[0].contains("1 file larger than 32 MiB"), "{notes:?}");
    assert!(
        notes[1].contains("1 file with a line longer than 8 MiB"),
        "{notes:?}"
    );
}

/// An expression that makes backtracking engines run for ever is linear here; a search whose time
/// is up gives what it has.
#[tokio::test]
async fn time_is_bounded() {
    let world = World::new();
    file(
        &world.home.workspace(),
        "f",
        format!("{}!\n", "a".repeat(200_000)),
    );
    let (found, _) = answer(&world, json!({"pattern": "^(a+)+$", "regex": true})).await;
    assert_eq!(found["matches"], json!([]));

    for n in 0..3_000 {
        file(
            &world.home.workspace(),
            &format!("many/{n}"),
            "hit\n".repeat(2_000),
        );
    }
    let arguments = json!({"pattern": "(h|i|t|[a-z]{1,9})+$", "regex": true, "timeout_ms": 0});
    let (found, notes) = answer(&world, arguments).await;
    assert_eq!(found["truncated"], true);
    assert_eq!(found["timed_out"], true);
    assert!(
        notes.iter().any(|note| note.contains("time was up")),
        "{notes:?}"
    );
    assert!(
        notes
            .iter()
            .any(|note| note.contains("timeout_ms 0 was taken as 1")),
        "{notes:?}"
    );
}

#[tokio::test]
async fn links_fifos_and_protected_places() {
    let world = library();
    let root = world.home.workspace();
    file(
        world.home.os_home(),
        "elsewhere/secret",
        "needle in secret\n",
    );
    file(world.home.os_home(), ".ssh/id", "needle in secret\n");
    symlink(
        world.home.os_home().join("elsewhere/secret"),
        root.join("s"),
    )
    .unwrap();
    symlink(world.home.os_home().join("elsewhere"), root.join("folder")).unwrap();
    symlink("b.txt", root.join("inside")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let found = search(&world, json!({"pattern": "needle"})).await;
    assert!(
        found.iter().any(|line| line == "inside:1:needle one"),
        "{found:?}"
    );
    assert!(
        !found.iter().any(|line| line.contains("secret")),
        "{found:?}"
    );
    for (path, words) in [
        ("~/.ssh", "Path is protected by the sandbox"),
        ("folder", "Path is outside the sandbox roots"),
        ("fifo", "Not a regular file"),
        ("a/..", "Path traversal is not allowed"),
        ("nowhere", "File not found"),
    ] {
        let outcome = world
            .call("content_search", json!({"pattern": "needle", "path": path}))
            .await;
        refused(&outcome, &[words]);
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let world = library();
    for (arguments, words) in [
        (json!({"pattern": "(", "regex": true}), "invalid_regex: "),
        (
            json!({"pattern": "a\\nb", "regex": true}),
            "invalid_regex: ",
        ),
        (
            json!({"pattern": "(a{1000}){1000}", "regex": true}),
            "invalid_regex: ",
        ),
        (json!({"pattern": "a\nb"}), "line by line"),
        (json!({"pattern": "a", "glob": "[", }), "invalid_pattern: "),
        (json!({"pattern": ""}), "pattern"),
        (json!({"pattern": "a", "regex": "maybe"}), "regex"),
    ] {
        refused(&world.call("content_search", arguments).await, &[words]);
    }
}

/// Another name of a protected file is named by no search and read by none.
#[tokio::test]
async fn a_hard_link_to_a_secret_is_not_found() {
    let world = World::new();
    let secret = world.home.fermix_home().join("auth.json");
    fs::write(&secret, "hidden words").unwrap();
    world.home.file("plain.txt", "hidden words");
    fs::hard_link(&secret, world.home.workspace().join("alias.txt")).unwrap();
    let workspace = world.home.workspace();
    fs::hard_link(workspace.join("plain.txt"), workspace.join("twin.txt")).unwrap();
    let text = ok(world.call("glob_search", json!({"pattern": "*"})).await);
    let found: Vec<std::path::PathBuf> = serde_json::from_str(&text).unwrap();
    assert_eq!(
        found,
        [workspace.join("plain.txt"), workspace.join("twin.txt")]
    );
    let pattern = json!({"pattern": "hidden words"});
    let text = ok(world.call("content_search", pattern).await);
    assert!(text.contains("plain.txt") && text.contains("twin.txt"));
    assert!(!text.contains("alias.txt"), "{text}");
    for (tool, arguments) in [
        (
            "content_search",
            json!({"pattern": "hidden", "path": "alias.txt"}),
        ),
        ("file_read", json!({"path": "alias.txt"})),
    ] {
        let outcome = world.call(tool, arguments).await;
        refused(&outcome, &["Path is protected by the sandbox"]);
    }
}

/// A folder too deep for the system is missing from the answer, and the answer says so.
#[tokio::test]
async fn folders_that_cannot_be_entered_are_told() {
    let world = World::new();
    let name = "d".repeat(250);
    let mut folder = fs::File::open(world.home.workspace()).unwrap();
    for _ in 0..20 {
        let mode = rustix::fs::Mode::from_raw_mode(0o755);
        rustix::fs::mkdirat(&folder, &name, mode).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
        folder = rustix::fs::openat(&folder, &name, flags, rustix::fs::Mode::empty())
            .unwrap()
            .into();
    }
    for (tool, arguments) in [
        ("glob_search", json!({"pattern": "**/x"})),
        ("content_search", json!({"pattern": "x"})),
    ] {
        let outcome = world.call(tool, arguments).await;
        assert!(!outcome.is_error);
        let [note] = outcome.notes.as_slice() else {
            panic!("{:?}", outcome.notes)
        };
        assert!(
            note.starts_with("truncated: 1 folder could not be entered"),
            "{note}"
        );
        let output: serde_json::Value = serde_json::from_str(&outcome.output).unwrap();
        if tool == "content_search" {
            assert_eq!(output["truncated"], true);
        }
    }
}
