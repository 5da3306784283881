//! Files appear and change as a whole, and only where they may.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use fermix_sandbox::{FileError, Scope, WritablePath, Written};
use fermix_types::{SandboxMode, ToolError};

use crate::support::TestHome;

#[test]
fn files_are_created_replaced_and_left_alone() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    let workspace = test.workspace();
    let target = |name: &str| -> WritablePath {
        sandbox
            .writable(
                &workspace.join(name).display().to_string(),
                &Scope::default(),
            )
            .expect("allowed")
    };

    let deep = target("a/b/c.txt");
    assert!(matches!(
        deep.replace(b"x", None),
        Err(FileError::NoParent(_))
    ));
    deep.create_parents().expect("created");
    assert_eq!(
        deep.replace(b"one", None).expect("written"),
        Written::Created
    );
    assert_eq!(
        fs::metadata(workspace.join("a/b/c.txt"))
            .expect("there")
            .mode()
            & 0o133,
        0,
        "never wider than 0644"
    );

    fs::set_permissions(
        workspace.join("note.txt"),
        fs::Permissions::from_mode(0o750),
    )
    .expect("set");
    let before = fs::metadata(workspace.join("note.txt")).expect("there");
    let note = target("note.txt");
    assert_eq!(
        note.replace(b"hello", None).expect("same"),
        Written::Unchanged
    );
    assert_eq!(
        fs::metadata(workspace.join("note.txt"))
            .expect("there")
            .mtime_nsec(),
        before.mtime_nsec()
    );
    assert_eq!(
        note.replace(b"HELLO", None).expect("same length"),
        Written::Replaced
    );
    assert_eq!(
        note.replace(b"other", None).expect("written"),
        Written::Replaced
    );
    assert_eq!(
        fs::metadata(workspace.join("note.txt"))
            .expect("there")
            .mode()
            & 0o777,
        0o750,
        "the mode is kept"
    );

    // A link inside the root is written through to the file it leads to, and stays a link.
    test.link("note.txt", "link");
    assert_eq!(
        target("link").replace(b"via link", None).expect("written"),
        Written::Replaced
    );
    assert!(workspace.join("link").is_symlink());
    assert_eq!(
        fs::read(workspace.join("note.txt")).expect("there"),
        b"via link"
    );

    assert!(matches!(
        target("a").replace(b"x", None),
        Err(FileError::IsDirectory(_))
    ));
    assert!(matches!(
        target("").replace(b"x", None),
        Err(FileError::IsDirectory(_))
    ));
    let below_a_file = sandbox.writable(
        &workspace.join("note.txt/x").display().to_string(),
        &Scope::default(),
    );
    assert_eq!(
        below_a_file.err().map(|denied| denied.reason.as_str()),
        Some("invalid_path")
    );
    let names: Vec<_> = fs::read_dir(workspace)
        .expect("listed")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().contains("fermix-")),
        "{names:?}"
    );
}

#[test]
fn an_edit_meets_only_the_file_it_read() {
    let test = TestHome::new(SandboxMode::Standard);
    let sandbox = test.sandbox();
    let note = test.workspace().join("note.txt");
    let target = sandbox
        .writable(&note.display().to_string(), &Scope::default())
        .expect("allowed");
    let read = || target.read_existing(100).expect("readable").expect("there");
    assert_eq!(read().bytes, b"hello");

    let before = read();
    fs::write(&note, "somebody else was here").expect("written");
    let error = target.replace(b"mine", Some(before)).expect_err("changed");
    assert_eq!(ToolError::from(error).tag, "changed");
    assert_eq!(
        fs::read_to_string(&note).expect("there"),
        "somebody else was here"
    );

    let before = read();
    assert_eq!(
        target.replace(b"mine", Some(before)).expect("written"),
        Written::Replaced
    );
    let before = read();
    fs::remove_file(&note).expect("removed");
    assert!(matches!(
        target.replace(b"x", Some(before)),
        Err(FileError::Changed(_))
    ));
    assert!(target.read_existing(100).expect("readable").is_none());

    fs::write(&note, vec![b'x'; 101]).expect("written");
    assert!(matches!(
        target.read_existing(100),
        Err(FileError::TooLarge {
            len: 101,
            limit: 100,
            ..
        })
    ));
}

/// Writers take turns: what each was told is written stays, whoever else writes. The lock is the
/// file's, so the two sandboxes stand for two processes.
#[test]
fn writers_of_one_file_lose_nothing() {
    const EDITS: usize = 200;
    let test = TestHome::new(SandboxMode::Standard);
    let note = test.workspace().join("note.txt");
    fs::write(&note, "0 0 0").expect("written");
    let edit = |target: &WritablePath, place: usize| -> Result<Written, FileError> {
        let before = target.read_existing(100)?.expect("there");
        let mut counts: Vec<usize> = std::str::from_utf8(&before.bytes)
            .expect("text")
            .split(' ')
            .map(|count| count.parse().expect("a count"))
            .collect();
        counts[place] += 1;
        let text = format!("{} {} {}", counts[0], counts[1], counts[2]);
        target.replace(text.as_bytes(), Some(before))
    };
    std::thread::scope(|threads| {
        for place in 0..3 {
            let (sandbox, path) = (test.sandbox(), note.display().to_string());
            threads.spawn(move || {
                let mut done = 0;
                while done < EDITS {
                    let target = sandbox.writable(&path, &Scope::default()).expect("allowed");
                    match edit(&target, place) {
                        Ok(written) => {
                            assert_eq!(written, Written::Replaced);
                            done += 1;
                        }
                        Err(FileError::Changed(_) | FileError::Locked(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(
        fs::read_to_string(&note).expect("there"),
        format!("{EDITS} {EDITS} {EDITS}")
    );
    // Whoever replaces all of it takes a turn too, and never fails because others do.
    std::thread::scope(|threads| {
        for writer in 0..3 {
            let (sandbox, path) = (test.sandbox(), note.display().to_string());
            threads.spawn(move || {
                for round in 0..EDITS / 4 {
                    let written = sandbox
                        .writable(&path, &Scope::default())
                        .expect("allowed")
                        .replace(format!("{writer} {round}").as_bytes(), None);
                    assert_eq!(written.expect("written"), Written::Replaced);
                }
            });
        }
    });
    let names: Vec<_> = fs::read_dir(test.workspace()).expect("listed").collect();
    assert_eq!(names.len(), 1, "nothing is left behind: {names:?}");
}

#[test]
fn a_file_that_somebody_keeps_locked_is_left_alone() {
    let test = TestHome::new(SandboxMode::Standard);
    let note = test.workspace().join("note.txt");
    let scope = Scope::default();
    let target = test
        .sandbox()
        .writable(&note.display().to_string(), &scope)
        .expect("allowed");
    let keeper = fs::File::open(&note).expect("there");
    keeper.lock().expect("nobody else has it");
    // A stopped turn does not wait.
    scope.cancel.cancel();
    for refused in [
        target.read_existing(100).map(|_| ()),
        target.replace(b"mine", None).map(|_| ()),
    ] {
        let error = refused.expect_err("locked");
        assert_eq!(ToolError::from(error).tag, "locked");
    }
    drop(keeper);
    assert_eq!(
        target.replace(b"mine", None).expect("free"),
        Written::Replaced
    );
}

#[test]
fn what_runs_later_is_guarded() {
    let mut test = TestHome::new(SandboxMode::Open);
    for folder in [
        "project/.git/hooks",
        "project/.git/info",
        ".config/fish",
        ".config/git",
    ] {
        fs::create_dir_all(test.home.join(folder)).expect("created");
    }
    test.settings.allowed_roots = vec![
        test.home.join(".config/fish"),
        test.home.join(".vimrc"),
        test.home.join("project"),
    ];
    let sandbox = test.sandbox();
    let unattended = Scope::default();
    let attended = Scope {
        attended: true,
        ..Scope::default()
    };
    for (path, expected_unattended, expected_attended) in [
        ("project/.git/config", "guarded_path", "guarded_path"),
        ("project/.GIT/Config", "guarded_path", "guarded_path"),
        (
            "project/.git/hooks/post-commit",
            "guarded_path",
            "guarded_path",
        ),
        (
            "project/.git/info/attributes",
            "guarded_path",
            "guarded_path",
        ),
        ("project/sub/.git", "guarded_path", "guarded_path"),
        ("project/.gitignore", "allow", "allow"),
        (".bashrc", "guarded_path", "guarded_path"),
        (".config/git/config", "guarded_path", "guarded_path"),
        (".local/bin/tool", "guarded_path", "guarded_path"),
        (".zlogout", "guarded_path", "guarded_path"),
        (
            ".config/environment.d/x.conf",
            "guarded_path",
            "guarded_path",
        ),
        ("project/.envrc", "guarded_path", "guarded_path"),
        (
            ".local/lib/python3.13/site-packages/x.pth",
            "guarded_path",
            "guarded_path",
        ),
        // Named although it is a file.
        (".vimrc", "allow", "allow"),
        (".cargo/config.toml", "guarded_path", "guarded_path"),
        // The owner named this one.
        (".config/fish/config.fish", "allow", "allow"),
        (".fermix/skills/x/SKILL.md", "guarded_path", "allow"),
        ("bin2/tool", "allow", "allow"),
        (".ssh/authorized_keys", "protected_path", "protected_path"),
    ] {
        for (scope, expected) in [
            (&unattended, expected_unattended),
            (&attended, expected_attended),
        ] {
            let found = sandbox
                .writable(&format!("~/{path}"), scope)
                .map_or_else(|denied| denied.reason.as_str(), |_| "allow");
            assert_eq!(found, expected, "{path} attended {}", scope.attended);
        }
        assert_eq!(
            sandbox.readable(&format!("~/{path}"), &unattended).is_ok(),
            expected_attended != "protected_path",
            "reading {path}"
        );
    }
    let refusal = sandbox
        .writable("~/.bashrc", &attended)
        .expect_err("guarded");
    let error = ToolError::from(refusal);
    assert_eq!(error.tag, "guarded_path");
    let bashrc = test.home.join(".bashrc").display().to_string();
    assert!(
        error.message.contains(&format!("`{bashrc}`")),
        "{}",
        error.message
    );
}

#[test]
fn what_a_startup_file_is_a_link_to_is_guarded_too() {
    let mut test = TestHome::new(SandboxMode::Standard);
    let dotfiles = test.home.join("dotfiles");
    fs::create_dir_all(dotfiles.join("nvim")).expect("created");
    fs::create_dir_all(test.home.join(".config")).expect("created");
    fs::write(dotfiles.join("bashrc"), "").expect("written");
    std::os::unix::fs::symlink("dotfiles/bashrc", test.home.join(".bashrc")).expect("linked");
    std::os::unix::fs::symlink("../dotfiles/nvim", test.home.join(".config/nvim")).expect("linked");
    test.surroundings.launch_dir = Some(dotfiles);
    let verdict = |test: &TestHome, path: &str| {
        let written = test.sandbox().writable(path, &Scope::default());
        written.map_or_else(|denied| denied.reason.as_str(), |_| "allow")
    };
    assert_eq!(verdict(&test, "bashrc"), "guarded_path");
    assert_eq!(verdict(&test, "~/.bashrc"), "guarded_path");
    assert_eq!(verdict(&test, "nvim/init.lua"), "guarded_path");
    assert_eq!(verdict(&test, "README"), "allow");
    // A grant of the link would follow wherever a command points it; the folder itself is one.
    test.settings.allowed_roots = vec![test.home.join(".config/nvim")];
    assert_eq!(verdict(&test, "nvim/init.lua"), "guarded_path");
    test.settings.allowed_roots = vec![test.home.join("dotfiles/nvim")];
    assert_eq!(verdict(&test, "nvim/init.lua"), "allow");
    assert_eq!(verdict(&test, "bashrc"), "guarded_path");
}

#[test]
fn asking_from_a_guarded_folder_does_not_open_it() {
    for mode in [SandboxMode::Standard, SandboxMode::Open] {
        let mut test = TestHome::new(mode);
        fs::create_dir_all(test.home.join(".config/autostart/mine")).expect("created");
        test.surroundings.launch_dir = Some(test.home.join(".config/autostart"));
        let scope = Scope {
            cwd: Some(test.home.join(".config/autostart/mine")),
            attended: true,
            ..Scope::default()
        };
        let verdict = |test: &TestHome| {
            let written = test.sandbox().writable("x.desktop", &scope);
            written.map_or_else(|denied| denied.to_string(), |_| "allow".to_owned())
        };
        let refused = verdict(&test);
        assert!(refused.starts_with("Path is guarded: "), "{refused}");
        let remedy = format!(
            "`fermix grant path {}`",
            test.home.join(".config/autostart").display()
        );
        assert!(refused.contains(&remedy), "{refused}");
        // A grant of what contains the guarded folder names something else.
        test.settings.allowed_roots = vec![test.home.join(".config")];
        assert!(verdict(&test).starts_with("Path is guarded: "));
        test.settings.allowed_roots = vec![test.home.join(".config/autostart/other")];
        assert!(verdict(&test).starts_with("Path is guarded: "));
        test.settings.allowed_roots = vec![test.home.join(".config/autostart")];
        assert_eq!(verdict(&test), "allow");
    }
}

#[test]
fn a_name_of_a_folder_is_no_name_for_a_file() {
    let test = TestHome::new(SandboxMode::Strict);
    let sandbox = test.sandbox();
    for path in ["new/", "new/.", "note.txt/"] {
        let denied = sandbox
            .writable(path, &Scope::default())
            .expect_err("refused");
        assert_eq!(denied.reason.as_str(), "invalid_path", "{path}");
    }
}

#[test]
fn a_killed_writers_copy_is_removed_by_the_next_writer() {
    let test = TestHome::new(SandboxMode::Strict);
    let sandbox = test.sandbox();
    let copy = |letter: char, age: u64| {
        let name = format!(".fermix-{}.tmp", letter.to_string().repeat(32));
        let path = test.workspace().join(name);
        fs::write(&path, "half").expect("written");
        let file = fs::File::options().write(true).open(&path).expect("there");
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        file.set_modified(then).expect("set");
        (path, file)
    };
    let (left_behind, file) = copy('a', 300);
    drop(file);
    let (being_written, writer) = copy('b', 300);
    writer.lock().expect("nobody else has it");
    let (young, file) = copy('c', 0);
    drop(file);
    let other = test.workspace().join(".fermix-notes.tmp");
    fs::write(&other, "mine").expect("written");

    let scope = Scope::default();
    let target = sandbox.writable("new.txt", &scope).expect("allowed");
    target.replace(b"whole", None).expect("written");
    assert!(!left_behind.exists());
    assert!(being_written.exists() && young.exists() && other.exists());

    let root = sandbox.readable(".", &scope).expect("allowed");
    let seen = std::sync::Mutex::new(Vec::new());
    let tree = sandbox.batch(root, &scope);
    tree.walk(&crate::support::walk_options(), &|file| {
        let name = file.path().file_name().expect("a name").to_owned();
        seen.lock().expect("unpoisoned").push(name);
        std::ops::ControlFlow::Continue(())
    })
    .expect("walked");
    let mut seen = seen.into_inner().expect("unpoisoned");
    seen.sort();
    assert_eq!(seen, [".fermix-notes.tmp", "new.txt", "note.txt"]);
}
