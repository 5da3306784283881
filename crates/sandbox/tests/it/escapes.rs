//! Attacks on the step between the check and the use.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use fermix_sandbox::{FileError, ReadablePath, Scope};
use fermix_types::SandboxMode;

use crate::support::TestHome;

fn read(path: &ReadablePath) -> Result<String, FileError> {
    let mut text = String::new();
    path.open()?
        .file
        .read_to_string(&mut text)
        .expect("readable");
    Ok(text)
}

#[test]
fn hard_links_to_secrets_are_known() {
    let test = TestHome::new(SandboxMode::Open);
    let sandbox = test.sandbox();
    let scope = Scope::default();
    let workspace = test.workspace().to_owned();
    let open =
        |name: &str| read(&sandbox.readable(&workspace.join(name).display().to_string(), &scope)?);

    // An innocent file with two names fills the cache first.
    fs::hard_link(workspace.join("note.txt"), workspace.join("twin")).expect("linked");
    assert_eq!(open("twin").expect("readable"), "hello");
    for (secret, name) in [
        (".ssh/id", "k1"),
        (".netrc", "k2"),
        (".fermix/auth.json", "k3"),
    ] {
        fs::hard_link(test.home.join(secret), workspace.join(name)).expect("linked");
        let Err(FileError::Denied(denied)) = open(name) else {
            panic!("{name} was read")
        };
        assert!(
            matches!(denied.reason.as_str(), "protected_alias" | "protected_path"),
            "{name}: {denied:?}"
        );
        // A protected file itself is known by its identity at the check, one in a protected folder when
        // it is opened.
        let Ok(target) = sandbox.writable(&workspace.join(name).display().to_string(), &scope)
        else {
            continue;
        };
        assert!(
            matches!(target.replace(b"x", None), Err(FileError::Denied(_))),
            "{name}"
        );
        assert!(target.read_existing(100).is_err(), "{name}");
    }
    assert_eq!(
        fs::read_to_string(test.home.join(".netrc")).expect("there"),
        "SECRET netrc"
    );
    assert_eq!(open("twin").expect("readable"), "hello");
}

#[test]
fn what_is_swapped_after_the_check_is_refused() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    let scope = Scope::default();
    let workspace = test.workspace();
    let check = |name: &str| {
        sandbox
            .readable(&workspace.join(name).display().to_string(), &scope)
            .expect("allowed")
    };

    // A file becomes a link to a secret.
    let path = check("note.txt");
    fs::remove_file(workspace.join("note.txt")).expect("removed");
    symlink(test.home.join(".ssh/id"), workspace.join("note.txt")).expect("linked");
    assert!(matches!(read(&path), Err(FileError::Denied(_))));

    // A file becomes a link to another allowed file: that is what the path means now.
    fs::write(workspace.join("other"), "other").expect("written");
    fs::write(workspace.join("file"), "file").expect("written");
    let path = check("file");
    fs::remove_file(workspace.join("file")).expect("removed");
    symlink("other", workspace.join("file")).expect("linked");
    assert_eq!(read(&path).expect("allowed"), "other");

    // The root itself is replaced.
    let path = check("other");
    fs::rename(workspace, test.home.join("moved")).expect("moved");
    fs::create_dir(workspace).expect("created");
    fs::write(workspace.join("other"), "impostor").expect("written");
    assert!(matches!(read(&path), Err(FileError::Denied(_))));

    let target = sandbox
        .writable(&workspace.join("new").display().to_string(), &scope)
        .expect("allowed");
    fs::remove_dir_all(workspace).expect("removed");
    symlink(test.outside(), workspace).expect("linked");
    assert!(target.replace(b"x", None).is_err());
    assert!(!test.outside().join("new").exists());
}

#[test]
fn special_files_neither_hang_nor_open() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    let scope = Scope::default();
    let fifo = test.workspace().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("made");
    let _socket =
        std::os::unix::net::UnixListener::bind(test.workspace().join("socket")).expect("bound");
    for name in ["fifo", "socket"] {
        let path = test.workspace().join(name).display().to_string();
        assert!(
            matches!(
                sandbox.readable(&path, &scope).expect("allowed").open(),
                Err(FileError::NotRegular(_))
            ),
            "{name}"
        );
        let target = sandbox.writable(&path, &scope).expect("allowed");
        assert!(
            matches!(target.replace(b"x", None), Err(FileError::NotRegular(_))),
            "{name}"
        );
    }
    let folder = sandbox
        .readable(&test.workspace().display().to_string(), &scope)
        .expect("allowed");
    assert!(matches!(folder.open(), Err(FileError::IsDirectory(_))));
    let missing = sandbox
        .readable(&test.workspace().join("nope").display().to_string(), &scope)
        .expect("allowed");
    assert!(matches!(missing.open(), Err(FileError::NotFound(_))));
}

#[test]
fn a_folder_flipping_to_a_link_never_leads_out() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    let scope = Scope::default();
    let workspace = test.workspace().to_owned();
    let outside = test.outside();
    fs::create_dir(workspace.join("d")).expect("created");
    fs::write(workspace.join("d/file"), "inside").expect("written");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                fs::rename(workspace.join("d"), workspace.join("away")).expect("moved");
                symlink(&outside, workspace.join("d")).expect("linked");
                fs::remove_file(workspace.join("d")).expect("removed");
                fs::rename(workspace.join("away"), workspace.join("d")).expect("moved back");
                std::thread::yield_now();
            }
        });
        let path = workspace.join("d/file").display().to_string();
        let mut read_well = 0;
        // On a busy machine the reader may lose for a long time.
        for round in 0..1_000_000 {
            if round >= 10_000 && read_well > 0 {
                break;
            }
            if let Ok(checked) = sandbox.readable(&path, &scope)
                && let Ok(text) = read(&checked)
            {
                assert_eq!(text, "inside", "round {round}");
                read_well += 1;
            }
            if round % 50 == 0
                && let Ok(target) =
                    sandbox.writable(&workspace.join("d/new").display().to_string(), &scope)
            {
                // Whether it works depends on the moment; where it lands does not.
                let _ = target.replace(format!("{round}").as_bytes(), None);
            }
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(read_well > 0, "the race was never won by the reader");
    });
    assert!(!outside.join("new").exists(), "a write left the root");
    assert_eq!(
        fs::read_to_string(outside.join("file")).expect("there"),
        "SECRET outside"
    );
}
