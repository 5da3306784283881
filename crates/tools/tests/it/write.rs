//! `file_write` (spec/02 §4.3).

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fermix_capability::{Caller, Ports};
use fermix_types::SandboxMode;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::{World, ok, owner, refused};

#[tokio::test]
async fn creates_overwrites_and_leaves_equal_content_alone() {
    let world = World::new();
    let path = world.home.workspace().join("a/b/notes.txt");
    let text = "first\r\n\u{feff}\ttab\n";
    let said = ok(world
        .call(
            "file_write",
            json!({"path": "a/b/notes.txt", "content": text}),
        )
        .await);
    assert_eq!(
        said,
        format!("Wrote {} bytes to {}", text.len(), path.display())
    );
    assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
    assert_eq!(
        fs::metadata(&path).unwrap().mode() & 0o7133,
        0,
        "0644 less the umask"
    );

    // A mode the owner chose stays.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    ok(world
        .call("file_write", json!({"path": path, "content": "second"}))
        .await);
    assert_eq!(fs::read(&path).unwrap(), b"second");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o750);

    let before = fs::metadata(&path).unwrap();
    let said = ok(world
        .call("file_write", json!({"path": path, "content": "second"}))
        .await);
    assert!(said.contains("unchanged"), "{said}");
    let after = fs::metadata(&path).unwrap();
    assert_eq!(
        (before.ino(), before.mtime(), before.mtime_nsec()),
        (after.ino(), after.mtime(), after.mtime_nsec())
    );

    ok(world
        .call("file_write", json!({"path": path, "content": ""}))
        .await);
    assert_eq!(fs::read(&path).unwrap(), b"");
    let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays: {left:?}");
}

#[tokio::test]
async fn says_why_it_cannot() {
    let world = World::new();
    let outside = world.home.os_home().join("elsewhere");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(world.home.os_home().join(".ssh")).unwrap();
    world.home.file("folder/inside.txt", "x");
    world.home.file("plain", "x");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.home.workspace().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    symlink(&outside, world.home.workspace().join("way-out")).unwrap();
    let folder = outside.display().to_string();
    let grant = format!("fermix ask --root {folder}");
    let too_much = "x".repeat(1024);
    let cases = [
        (
            json!({"content": "x"}),
            vec!["Missing required parameter: path"],
        ),
        (
            json!({"path": "new"}),
            vec!["Missing required parameter: content"],
        ),
        (json!({"path": "", "content": "x"}), vec!["path"]),
        (json!({"path": "a\0b", "content": "x"}), vec!["null byte"]),
        (
            json!({"path": outside.join("f"), "content": "x"}),
            vec![
                "Path is outside the sandbox roots",
                &grant,
                "fermix grant path",
            ],
        ),
        (
            json!({"path": "way-out/f", "content": "x"}),
            vec!["Path is outside the sandbox roots"],
        ),
        (
            json!({"path": "~/.ssh/authorized_keys", "content": "x"}),
            vec!["Path is protected by the sandbox"],
        ),
        (
            json!({"path": "~/.fermix/config.toml", "content": "x"}),
            vec!["Path is protected by the sandbox"],
        ),
        (
            json!({"path": "folder", "content": "x"}),
            vec!["Path is a directory"],
        ),
        (
            json!({"path": "pipe", "content": "x"}),
            vec!["Not a regular file"],
        ),
        (
            json!({"path": "plain/below", "content": &too_much}),
            vec!["plain"],
        ),
        (
            json!({"path": "no/such/folder/f", "content": "x", "mkdir": false}),
            vec!["Directory not found", "mkdir"],
        ),
        (
            json!({"path": ".git/hooks/pre-commit", "content": "x"}),
            vec!["Path is guarded"],
        ),
        (
            json!({"path": "sub/.git/config", "content": "x"}),
            vec!["Path is guarded"],
        ),
        (
            json!({"path": "sub/.git", "content": "x"}),
            vec!["Path is guarded"],
        ),
    ];
    for (arguments, words) in cases {
        refused(&world.call("file_write", arguments).await, &words);
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let guest = world
        .call_as(
            Caller::guest(Ports::default()),
            "file_write",
            json!({"path": "x", "content": ""}),
        )
        .await;
    assert_eq!(guest.text, "Error: Tool 'file_write' not found");
}

#[tokio::test]
async fn startup_files_and_skills_have_their_own_rules() {
    let open = World::with(|settings, _| settings.mode = SandboxMode::Open);
    for path in [
        "~/.bashrc",
        "~/.config/systemd/user/x.service",
        "~/.cargo/bin/cargo",
        "~/bin/ls",
    ] {
        let answer = open
            .call("file_write", json!({"path": path, "content": "x"}))
            .await;
        refused(&answer, &["Path is guarded", "sandbox.allowed_roots"]);
    }
    ok(open
        .call("file_write", json!({"path": "~/notes.txt", "content": "x"}))
        .await);

    let standard = World::new();
    fs::create_dir(standard.home.fermix_home().join("skills")).unwrap();
    let skill = json!({"path": "~/.fermix/skills/tea/SKILL.md", "content": "x"});
    refused(
        &standard
            .call_as(Caller::detached(), "file_write", skill.clone())
            .await,
        &["skill"],
    );
    ok(standard.call_as(owner(), "file_write", skill).await);
}

/// A link that stays inside leads to its file, and stays a link.
#[tokio::test]
async fn links_inside_the_workspace_are_followed() {
    let world = World::new();
    let target = world.home.file("real/file", "one");
    let link = world.home.workspace().join("link");
    symlink("real/file", &link).unwrap();
    symlink("real", world.home.workspace().join("folder")).unwrap();
    ok(world
        .call("file_write", json!({"path": "link", "content": "two"}))
        .await);
    assert_eq!(fs::read(&target).unwrap(), b"two");
    let edit = json!({"path": "folder/file", "old_string": "two", "new_string": "three"});
    ok(world.call("file_edit", edit).await);
    assert_eq!(fs::read(&link).unwrap(), b"three");
    assert!(link.is_symlink());
    ok(world
        .call(
            "file_write",
            json!({"path": "folder/new/file", "content": "x"}),
        )
        .await);
    assert_eq!(world.home.read("real/new/file").unwrap(), b"x");
}

/// The way changes between a folder of the workspace and a link that leaves it. Whatever is
/// reported, nothing outside is ever written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_swapped_in_never_leads_out() {
    let world = World::new();
    let outside = world.home.os_home().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "precious").unwrap();
    let way = world.home.workspace().join("way");
    let aside = world.home.workspace().join("aside");
    fs::create_dir(&way).unwrap();
    fs::write(way.join("file"), "inside").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (stop, way, aside, outside) =
            (stop.clone(), way.clone(), aside.clone(), outside.clone());
        move || {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&way, &aside).unwrap();
                symlink(&outside, &way).unwrap();
                fs::remove_file(&way).unwrap();
                fs::rename(&aside, &way).unwrap();
            }
        }
    });
    for round in 0..300 {
        let content = format!("round {round}");
        let write = json!({"path": "way/file", "content": content, "mkdir": false});
        let edit = json!({"path": "way/file", "old_string": "precious", "new_string": "gone"});
        world.call("file_write", write).await;
        let edited = world.call("file_edit", edit).await;
        assert!(edited.is_error, "{}", edited.text);
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}
