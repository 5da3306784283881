//! `file_edit` (spec/02 §4.4).

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, ok, refused};

/// Edits a file that holds `before`; gives what it holds then and what was answered.
async fn edit(before: &[u8], mut arguments: Value) -> (Vec<u8>, fermix_capability::CallOutcome) {
    let world = World::new();
    world.home.file("file.txt", before);
    arguments["path"] = "file.txt".into();
    let outcome = world.call("file_edit", arguments).await;
    (
        world.home.read("file.txt").expect("it is still there"),
        outcome,
    )
}

#[tokio::test]
async fn replaces_exactly_what_was_named() {
    let cases: &[(&str, &[u8], Value, &[u8])] = &[
        (
            "one occurrence",
            b"a b c",
            json!({"old_string": "b", "new_string": "B"}),
            b"a B c",
        ),
        (
            "removal",
            b"a b c",
            json!({"old_string": " b", "new_string": ""}),
            b"a c",
        ),
        (
            "tabs stay tabs",
            b"\tif x {\n\t\ty\n\t}\n",
            json!({"old_string": "\t\ty\n", "new_string": "\t\tz\n"}),
            b"\tif x {\n\t\tz\n\t}\n",
        ),
        (
            "a byte order mark stays",
            b"\xEF\xBB\xBFfirst\nsecond\n",
            json!({"old_string": "first\n", "new_string": "1\n"}),
            b"\xEF\xBB\xBF1\nsecond\n",
        ),
        (
            "bytes that are no UTF-8 stay",
            b"caf\xE9 \xFF\xFE old \x00 end",
            json!({"old_string": "old", "new_string": "n\u{e9}w"}),
            b"caf\xE9 \xFF\xFE n\xC3\xA9w \x00 end",
        ),
        (
            "a CRLF file takes LF anchors and keeps CRLF",
            b"one\r\ntwo\r\nthree\r\n",
            json!({"old_string": "one\ntwo\n", "new_string": "1\n2\n2b\n"}),
            b"1\r\n2\r\n2b\r\nthree\r\n",
        ),
        (
            "lines put into a CRLF line end with CRLF",
            b"one\r\ntwo\r\n",
            json!({"old_string": "two", "new_string": "two\nthree"}),
            b"one\r\ntwo\r\nthree\r\n",
        ),
        (
            "the last line of a CRLF file",
            b"one\r\ntwo",
            json!({"old_string": "two", "new_string": "two\nthree"}),
            b"one\r\ntwo\r\nthree",
        ),
        (
            "mixed endings: each place keeps its own",
            b"a\r\nb\nc\n",
            json!({"old_string": "b\nc", "new_string": "b\nx\nc"}),
            b"a\r\nb\nx\nc\n",
        ),
        (
            "spelled-out endings are meant",
            b"one\r\ntwo\r\n",
            json!({"old_string": "one\r\n", "new_string": "one\n"}),
            b"one\ntwo\r\n",
        ),
        (
            "a lone carriage return is content",
            b"a\rb\nc",
            json!({"old_string": "b\nc", "new_string": "d"}),
            b"a\rd",
        ),
        (
            "replace_all",
            b"x-x-x",
            json!({"old_string": "x", "new_string": "yy", "replace_all": true}),
            b"yy-yy-yy",
        ),
        (
            "replace_all takes overlapping ones from the left",
            b"aaa",
            json!({"old_string": "aa", "new_string": "b", "replace_all": true}),
            b"ba",
        ),
        (
            "replace_all with null is absent",
            b"x",
            json!({"old_string": "x", "new_string": "y", "replace_all": null}),
            b"y",
        ),
    ];
    for (name, before, arguments, after) in cases {
        let (found, outcome) = edit(before, arguments.clone()).await;
        assert!(!outcome.is_error, "{name}: {}", outcome.text);
        assert_eq!(
            String::from_utf8_lossy(&found),
            String::from_utf8_lossy(after),
            "{name}"
        );
        assert_eq!(&found, after, "{name}");
    }
}

#[tokio::test]
async fn refuses_what_is_not_exactly_there() {
    let no_guess = "fn main() {\n    let x = 1;\n    done();\n}\n";
    let cases: &[(&str, &[u8], Value, &[&str])] = &[
        (
            "two matches name both lines",
            b"x\nfoo\ny\nfoo\n",
            json!({"old_string": "foo", "new_string": "bar"}),
            &[
                "old_string is not unique; found 2 occurrences",
                "lines 2, 4",
            ],
        ),
        (
            "overlapping occurrences count",
            b"aaa",
            json!({"old_string": "aa", "new_string": "b"}),
            &["found 2 occurrences"],
        ),
        (
            "the same text with both endings",
            b"a\nb\na\r\nb\n",
            json!({"old_string": "a\nb", "new_string": "c"}),
            &["found 2 occurrences", "lines 1, 3"],
        ),
        (
            "other indentation is no match",
            no_guess.as_bytes(),
            json!({"old_string": "\tlet x = 1;\n\tdone();", "new_string": "x"}),
            &[
                "old_string not found",
                "Only whitespace or line endings differ from line 2",
                "2:     let x = 1;",
                "3:     done();",
            ],
        ),
        (
            "spelled-out CRLF in an LF file",
            no_guess.as_bytes(),
            json!({"old_string": "x = 1;\r\n    done", "new_string": "x"}),
            &["Only whitespace or line endings differ from line 2"],
        ),
        (
            "a near miss shows the nearest line",
            no_guess.as_bytes(),
            json!({"old_string": "let x = 2;", "new_string": "x"}),
            &["The nearest text starts at line 2", "2:     let x = 1;"],
        ),
        (
            "nothing like it",
            no_guess.as_bytes(),
            json!({"old_string": "completely different", "new_string": "x"}),
            &["old_string not found", "Nothing in the file is close"],
        ),
        (
            "UTF-16",
            b"\xFF\xFEa\x00b\x00",
            json!({"old_string": "ab", "new_string": "x"}),
            &["UTF-16"],
        ),
        (
            "blank anchors have no near text",
            b"a",
            json!({"old_string": "  \n", "new_string": "x"}),
            &["old_string not found"],
        ),
        (
            "empty anchor",
            b"a",
            json!({"old_string": "", "new_string": "x"}),
            &["old_string"],
        ),
        (
            "missing anchor",
            b"a",
            json!({"new_string": "x"}),
            &["Missing required parameter: old_string"],
        ),
        (
            "missing replacement",
            b"a",
            json!({"old_string": "a"}),
            &["Missing required parameter: new_string"],
        ),
        (
            "misspelled option",
            b"aa",
            json!({"old_string": "a", "new_string": "b", "replace_al": true}),
            &["unknown parameter `replace_al`", "replace_all"],
        ),
    ];
    for (name, before, arguments, words) in cases {
        let (found, outcome) = edit(before, arguments.clone()).await;
        refused(&outcome, words);
        assert_eq!(&found, before, "{name}");
    }
}

#[tokio::test]
async fn the_file_around_the_edit() {
    let world = World::new();
    let path = world.home.file("run.sh", "echo a\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let change =
        |old: &str, new: &str| json!({"path": "run.sh", "old_string": old, "new_string": new});
    let said = ok(world.call("file_edit", change("a\n", "b\n")).await);
    assert_eq!(
        said,
        format!("Replaced unique anchor in {}", path.display())
    );
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);

    let before = fs::metadata(&path).unwrap();
    let said = ok(world.call("file_edit", change("b", "b")).await);
    assert!(said.contains("unchanged"), "{said}");
    let after = fs::metadata(&path).unwrap();
    assert_eq!(
        (before.ino(), before.mtime_nsec()),
        (after.ino(), after.mtime_nsec())
    );

    let said = ok(world
        .call(
            "file_edit",
            json!({"path": "run.sh", "old_string": "b", "new_string": "c", "replace_all": true}),
        )
        .await);
    assert!(said.starts_with("Replaced 1 occurrence in"), "{said}");

    for (path, words) in [
        ("../workspace/run.sh", "Path traversal is not allowed"),
        ("a/../run.sh", "Path traversal is not allowed"),
        ("missing.txt", "File not found"),
        (".", "Path is a directory"),
        ("~/elsewhere/file", "Path is outside the sandbox roots"),
        ("/etc/hosts", "Path is protected by the sandbox"),
        ("~/.ssh/config", "Path is protected by the sandbox"),
        (".git/config", "Path is guarded"),
    ] {
        let outcome = world
            .call(
                "file_edit",
                json!({"path": path, "old_string": "a", "new_string": "b"}),
            )
            .await;
        refused(&outcome, &[words]);
    }

    // More than 10 MiB, before or after.
    world.home.file("big", vec![b'a'; 10 * 1024 * 1024 + 1]);
    let outcome = world
        .call(
            "file_edit",
            json!({"path": "big", "old_string": "b", "new_string": ""}),
        )
        .await;
    refused(&outcome, &["too large"]);
    world.home.file("grows", vec![b'a'; 4 * 1024 * 1024]);
    let grow =
        json!({"path": "grows", "old_string": "a", "new_string": "aaaa", "replace_all": true});
    refused(
        &world.call("file_edit", grow).await,
        &["more than 10485760 bytes"],
    );
    assert_eq!(world.home.read("grows").unwrap().len(), 4 * 1024 * 1024);
}

/// Hostile repetition costs no more than the file is long: a search that started anew at each byte
/// would take hours here.
#[tokio::test]
async fn repetitive_files_are_searched_in_one_pass() {
    let world = World::new();
    let len = 2 * 1024 * 1024;
    world.home.file("same", vec![b'a'; len]);
    let anchor = "a".repeat(len / 8);
    let outcome = world
        .call(
            "file_edit",
            json!({"path": "same", "old_string": anchor, "new_string": "b\nb"}),
        )
        .await;
    refused(
        &outcome,
        &[
            &format!("found {} occurrences", len - len / 8 + 1),
            "lines 1, 1",
        ],
    );
    let outcome = world
        .call(
            "file_edit",
            json!({"path": "same", "old_string": format!("{anchor}b"), "new_string": ""}),
        )
        .await;
    refused(&outcome, &["old_string not found"]);
    let all = json!({"path": "same", "old_string": "aa", "new_string": "\n", "replace_all": true});
    ok(world.call("file_edit", all).await);
    assert_eq!(world.home.read("same").unwrap(), vec![b'\n'; len / 2]);
}

/// Edits of one file take turns, also between processes, for which the two worlds' sandboxes stand:
/// what an edit said it changed stays changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_edits_lose_nothing() {
    const EDITS: usize = 200;
    let first = World::new();
    first.home.file("counts", "a 0.\nb 0.\n");
    let workspace = first.home.workspace();
    let second = World::with(|settings, _| settings.workspace_root = workspace);
    let count = |world: World, line: &'static str| async move {
        for done in 0..EDITS {
            let edit = json!({
                "path": "counts",
                "old_string": format!("{line} {done}."),
                "new_string": format!("{line} {}.", done + 1),
            });
            // Whoever is told that the file changed has changed nothing, and may try again.
            loop {
                let outcome = world.call("file_edit", edit.clone()).await;
                if !outcome.is_error {
                    break;
                }
                refused(&outcome, &["file changed while editing, read it again"]);
            }
        }
        // The home goes with its world.
        world
    };
    let counts = [
        tokio::spawn(count(first, "a")),
        tokio::spawn(count(second, "b")),
    ];
    let [first, _second] = counts.map(|count| async { count.await.unwrap() });
    let (first, _second) = tokio::join!(first, _second);
    assert_eq!(
        first.home.read("counts").unwrap(),
        format!("a {EDITS}.\nb {EDITS}.\n").into_bytes()
    );
}

#[tokio::test]
async fn one_of_several_names_gets_the_new_content_and_the_answer_says_so() {
    let world = World::new();
    world.home.file("one.txt", "old");
    let one = world.home.workspace().join("one.txt");
    let other = world.home.workspace().join("other.txt");
    fs::hard_link(&one, &other).unwrap();
    let arguments = json!({"path": "one.txt", "old_string": "old", "new_string": "new"});
    let outcome = world.call("file_edit", arguments).await;
    assert!(!outcome.is_error, "{}", outcome.text);
    assert!(outcome.notes[0].contains("2 names"), "{:?}", outcome.notes);
    assert_eq!(fs::read_to_string(one).unwrap(), "new");
    assert_eq!(fs::read_to_string(other).unwrap(), "old");
}
