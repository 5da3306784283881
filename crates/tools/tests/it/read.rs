//! `file_read` on plain files (spec/02 §4.2, field failures "Files").

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use fermix_capability::{Caller, Ports};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, ok, refused};

const CAP: usize = 100 * 1024;

/// A world whose workspace holds `f` with these bytes.
fn holding(bytes: impl AsRef<[u8]>) -> World {
    let world = World::new();
    fs::write(world.home.workspace().join("f"), bytes).expect("the workspace exists");
    world
}

async fn read(world: &World, arguments: Value) -> String {
    ok(world.call("file_read", arguments).await)
}

#[tokio::test]
async fn a_window_is_shown_byte_for_byte() {
    let cases: &[(&[u8], Value, &str)] = &[
        (b"one\ntwo\nthree\n", json!({}), "one\ntwo\nthree\n"),
        (b"one\ntwo\nthree", json!({}), "one\ntwo\nthree"),
        (
            b"one\ntwo\nthree",
            json!({"offset": 2}),
            "two\nthree\n[note: lines 2-3 of 3]",
        ),
        (
            b"one\ntwo\nthree",
            json!({"offset": 2, "limit": 1}),
            "two\n[note: lines 2-2 of 3]",
        ),
        (
            b"one\ntwo\nthree",
            json!({"offset": 3, "limit": 9}),
            "three\n[note: lines 3-3 of 3]",
        ),
        (
            b"one\ntwo\n",
            json!({"offset": "2"}),
            "two\n[note: lines 2-2 of 2]",
        ),
        (b"one\r\n\ttwo\r\n", json!({}), "one\r\n\ttwo\r\n"),
        (b"\n\n", json!({}), "\n\n"),
        (b"", json!({}), "[note: the file is empty]"),
        (b"\xef\xbb\xbfmarked\n", json!({}), "marked\n"),
        (
            b"a\xf1o\n",
            json!({}),
            "a\u{FFFD}o\n[note: bytes that are not text are shown as U+FFFD; editing keeps them]",
        ),
        (
            b"\xff\xfeh\0\xe4\0\n\0x\0",
            json!({}),
            "hä\nx\n[note: decoded from UTF-16LE]",
        ),
        (
            b"\xfe\xff\0h\0\xe4\xd8\x3d\xde\x00",
            json!({}),
            "hä😀\n[note: decoded from UTF-16BE]",
        ),
    ];
    for (bytes, arguments, expected) in cases {
        let world = holding(bytes);
        let mut arguments = arguments.clone();
        arguments["path"] = "f".into();
        assert_eq!(
            read(&world, arguments.clone()).await,
            *expected,
            "{arguments} of {bytes:?}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_shown_says_why() {
    let world = holding("one\ntwo");
    let workspace = world.home.workspace();
    fs::create_dir(workspace.join("folder")).unwrap();
    fs::write(workspace.join("empty"), "").unwrap();
    fs::write(world.home.os_home().join("outside.txt"), "secret").unwrap();
    fs::create_dir_all(world.home.os_home().join(".ssh")).unwrap();
    fs::write(world.home.os_home().join(".ssh/key"), "secret").unwrap();
    symlink(
        world.home.os_home().join("outside.txt"),
        workspace.join("leaves"),
    )
    .unwrap();
    symlink("loop", workspace.join("loop")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        workspace.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let cases = [
        (
            json!({"path": "f", "offset": 3}),
            "offset 3 is past the end: the file has 2 lines",
        ),
        (
            json!({"path": "empty", "offset": 2}),
            "offset 2 is past the end: the file has 0 lines",
        ),
        (json!({"path": "f", "offset": 0}), "offset"),
        (json!({"path": "f", "offset": -1}), "offset"),
        (json!({"path": "f", "offset": 1.5}), "offset"),
        (json!({"path": "f", "limit": 0}), "limit"),
        (json!({"path": "f", "limit": "many"}), "limit"),
        (json!({"path": "f", "ofset": 2}), "did you mean `offset`"),
        (json!({}), "path"),
        (json!({"path": ""}), "path"),
        (json!({"path": "a\0b"}), "Path contains null bytes"),
        (json!({"path": "nothing"}), "File not found"),
        (json!({"path": "f/below"}), "Not a directory"),
        (json!({"path": "folder"}), "Path is a directory"),
        (json!({"path": "fifo"}), "Not a regular file"),
        (
            json!({"path": "/dev/zero"}),
            "Path is protected by the sandbox",
        ),
        (
            json!({"path": "loop"}),
            "Path resolved through too many symlinks",
        ),
        (
            json!({"path": "leaves"}),
            "Path is outside the sandbox roots",
        ),
        (
            json!({"path": "~/outside.txt"}),
            "Path is outside the sandbox roots",
        ),
        (
            json!({"path": "~/.SSH/key"}),
            "Path is protected by the sandbox",
        ),
        (
            json!({"path": "~/.ssh/key"}),
            "Path is protected by the sandbox",
        ),
    ];
    for (arguments, words) in cases {
        let outcome = world.call("file_read", arguments.clone()).await;
        refused(&outcome, &[words]);
        assert!(!outcome.text.contains("secret"), "{arguments}");
    }
    let blocked = World::with(|settings, _| {
        settings.blocked_roots = vec![settings.workspace_root.join("private")];
    });
    fs::create_dir(blocked.home.workspace().join("private")).unwrap();
    fs::write(blocked.home.workspace().join("private/f"), "secret").unwrap();
    let outcome = blocked
        .call("file_read", json!({"path": "private/f"}))
        .await;
    refused(&outcome, &["Path is under a blocked root"]);
}

#[tokio::test]
async fn a_guest_cannot_tell_it_from_a_tool_that_does_not_exist() {
    let world = holding("secret");
    let guest = || Caller::guest(Ports::default());
    let hidden = world
        .call_as(guest(), "file_read", json!({"path": "f"}))
        .await;
    let absent = world.call_as(guest(), "no_such_tool", json!({})).await;
    assert_eq!(
        hidden.text.replace("file_read", "X"),
        absent.text.replace("no_such_tool", "X")
    );
}

#[tokio::test]
async fn a_link_that_stays_inside_is_read() {
    let world = holding("inside");
    symlink("f", world.home.workspace().join("link")).unwrap();
    assert!(
        read(&world, json!({"path": "link"}))
            .await
            .starts_with("inside")
    );
}

/// A relative path starts in the folder the owner's request came from.
#[tokio::test]
async fn relative_paths_start_in_the_turns_folder() {
    let mut world = World::new();
    let project = world.home.os_home().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("Cargo.toml"), "[workspace]").unwrap();
    world.cwd = Some(project);
    assert!(
        read(&world, json!({"path": "Cargo.toml"}))
            .await
            .starts_with("[workspace]")
    );
}

#[tokio::test]
async fn a_long_file_is_read_in_pieces_that_join_without_a_gap() {
    let lines: Vec<String> = (1..=100_000)
        .map(|n| format!("line {n}: some words\n"))
        .collect();
    let whole = lines.concat();
    let world = holding(&whole);
    let mut joined = String::new();
    let mut offset = 1;
    let mut pieces = 0;
    loop {
        let text = read(&world, json!({"path": "f", "offset": offset})).await;
        let (body, note) = text.rsplit_once("\n[note: lines ").expect("a note");
        assert!(note.ends_with(" of 100000]"), "{note}");
        let Some((body, marker)) = body.split_once("[cut at 100 KB: continue with offset ") else {
            joined.push_str(body);
            joined.push('\n');
            break;
        };
        assert!(body.len() <= CAP && body.len() > CAP - 64, "{}", body.len());
        joined.push_str(body);
        offset = marker.trim_end_matches(']').parse().expect("a number");
        pieces += 1;
    }
    assert!(pieces > 10, "{pieces}");
    assert!(joined == whole, "the pieces do not join to the file");
    let last = read(&world, json!({"path": "f", "offset": 100_000, "limit": 5})).await;
    assert_eq!(
        last,
        "line 100000: some words\n[note: lines 100000-100000 of 100000]"
    );
}

#[tokio::test]
async fn a_line_longer_than_the_cap_is_cut_and_says_so() {
    let long = "ä".repeat(80_000);
    let world = holding(format!("{long}\nnext\n"));
    let text = read(&world, json!({"path": "f"})).await;
    let (shown, marker) = text.split_once('\n').expect("a marker");
    assert_eq!(shown, "ä".repeat(CAP / 2));
    assert_eq!(
        marker,
        "[cut at 100 KB: line 1 is longer than that; its first 102400 of 160000 bytes are shown; \
         continue with offset 2]\n[note: lines 1-1 of 2]"
    );
    assert!(
        read(&world, json!({"path": "f", "offset": 2}))
            .await
            .starts_with("next\n")
    );

    // Behind a short line it does not fit at all, and comes first in the next piece.
    let world = holding(format!("short\n{long}"));
    let text = read(&world, json!({"path": "f"})).await;
    assert_eq!(
        text,
        "short\n[cut at 100 KB: continue with offset 2]\n[note: lines 1-1 of 2]"
    );
    let text = read(&world, json!({"path": "f", "offset": 2})).await;
    assert!(text.contains("of 160000 bytes are shown]\n[note: lines 2-2 of 2]"));

    // Bytes that are not text may not blow the answer up beyond the cap.
    let text = read(&holding(vec![0xF1; 90_000]), json!({"path": "f"})).await;
    assert!(text.contains("are shown]"), "{}", &text[text.len() - 300..]);
    assert!(text.len() < CAP + 1024);

    // A line that just fits is whole.
    let exact = "x".repeat(CAP);
    let text = read(&holding(format!("{exact}\n")), json!({"path": "f"})).await;
    assert_eq!(text, format!("{exact}\n"));
}

/// Lines beyond the window are not counted in a large file, and not read either.
#[tokio::test]
async fn a_huge_file_costs_its_window() {
    let world = World::new();
    let path = world.home.workspace().join("f");
    fs::write(&path, "first\nsecond\nthird\n").unwrap();
    // A sparse terabyte: reading to its end would take minutes.
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let text = format!("{}\n", "many lines\n".repeat(1000));
    use std::os::unix::fs::FileExt as _;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(text.as_bytes(), 19).unwrap();
    let started = Instant::now();
    let text = read(&world, json!({"path": "f", "offset": 2, "limit": 2})).await;
    assert_eq!(text, "second\nthird\n[note: lines 2-3]");
    assert!(started.elapsed() < Duration::from_secs(20));

    // A window that is never reached ends with the turn.
    let turn = world.turn(crate::world::owner());
    let cancel = turn.cancel.clone();
    let stopping = async {
        tokio::task::yield_now().await;
        cancel.cancel();
    };
    let call = world.call_in(
        &turn,
        "file_read",
        json!({"path": "f", "offset": 5_000_000}),
    );
    let (outcome, ()) = tokio::join!(call, stopping);
    refused(&outcome, &["stopped"]);
}

#[tokio::test]
async fn binary_files_are_named_and_not_shown() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    let cases: &[(&[u8], &str)] = &[
        (png, "binary file, 16 bytes, type PNG image"),
        (b"PK\x03\x04\0\0", "binary file, 6 bytes, type zip archive"),
        (
            b"\x7fELF\x02\x01\x01\0",
            "binary file, 8 bytes, type ELF executable",
        ),
        (
            b"SQLite format 3\0",
            "binary file, 16 bytes, type SQLite database",
        ),
        (
            b"\xff\xfe\0\0a\0\0\0",
            "binary file, 8 bytes, type UTF-32 text",
        ),
        (b"text\0text", "binary file, 9 bytes, type unknown"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(read(&holding(bytes), json!({"path": "f"})).await, *expected);
    }
    // Only the first 4 KiB decide.
    let late = [vec![b'x'; 4096], vec![0]].concat();
    assert!(
        read(&holding(late), json!({"path": "f"}))
            .await
            .starts_with("xxx")
    );
}
