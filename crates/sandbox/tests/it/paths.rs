//! Which paths are admitted, and in which words others are refused.

use std::fs;

use fermix_sandbox::{Provenance, Sandbox, Scope};
use fermix_types::{SandboxMode, ToolError};

use crate::support::TestHome;

fn verdict(sandbox: &Sandbox, path: &str, scope: &Scope) -> &'static str {
    match sandbox.readable(path, scope) {
        Ok(_) => "allow",
        Err(denied) => denied.reason.as_str(),
    }
}

#[test]
fn the_order_of_the_rules_is_the_policy() {
    let mut test = TestHome::new(SandboxMode::Standard);
    let home = test.home.display().to_string();
    fs::create_dir_all(test.home.join("granted/blocked/deep")).expect("created");
    fs::create_dir_all(test.home.join("granted-evil")).expect("created");
    fs::create_dir_all(test.home.join("blocked-launch")).expect("created");
    test.settings.allowed_roots = vec![
        test.home.join("granted"),
        test.home.join(".ssh"),
        test.home.join("blocked-launch"),
    ];
    test.settings.blocked_roots = vec![
        test.home.join("granted/blocked"),
        test.home.join("blocked-launch"),
    ];
    test.surroundings.launch_dir = Some(test.home.join("project"));
    for hop in 0..65 {
        let target = if hop == 0 {
            "note.txt".to_owned()
        } else {
            format!("hop{}", hop - 1)
        };
        test.link(target, &format!("hop{hop}"));
    }
    test.link("loop", "loop");
    test.link("/etc/passwd", "passwd");
    test.link("../../.ssh", "keys");
    test.link(test.outside().join("new"), "dangling");
    test.link("note.txt", "inside");
    let sandbox = test.sandbox();
    let scope = Scope::default();
    let fermix = format!("{home}/.fermix");
    let workspace = format!("{fermix}/workspace");
    let cases = [
        // Relative paths start at the launch folder, because it lies in a root.
        ("a.txt".to_owned(), "allow"),
        ("./x/../a.txt".to_owned(), "invalid_path"),
        ("~/project/a.txt".to_owned(), "allow"),
        ("~owner/x".to_owned(), "allow"),
        (format!("{home}/granted/new/file"), "allow"),
        (format!("{home}/granted//./x"), "allow"),
        (format!("{home}/granted-evil/x"), "outside_root"),
        (format!("{home}/granted/blocked/deep"), "blocked_root"),
        (format!("{home}/granted/BLOCKED/deep"), "blocked_root"),
        (format!("{home}/blocked-launch/x"), "blocked_root"),
        (format!("{home}/.ssh/id"), "protected_path"),
        (format!("{home}/.SSH/id"), "protected_path"),
        (format!("{home}/.\u{17F}sh/id"), "protected_path"),
        (format!("{home}/.ssh-backup/id"), "protected_path"),
        (format!("{home}/granted/../.netrc"), "protected_path"),
        (format!("{fermix}/auth.json"), "protected_path"),
        (format!("{fermix}/memory.db-wal"), "protected_path"),
        (format!("{fermix}/config.toml.bak"), "protected_path"),
        (format!("{fermix}/daemon.sock"), "protected_path"),
        (format!("{fermix}/skills/x/SKILL.md"), "allow"),
        (format!("{fermix}/other"), "protected_path"),
        (fermix, "protected_path"),
        (format!("{workspace}/note.txt/"), "invalid_path"),
        (format!("{workspace}/note.txt/."), "invalid_path"),
        (format!("{workspace}/"), "allow"),
        ("/etc/passwd".to_owned(), "protected_path"),
        ("/proc/self/environ".to_owned(), "protected_path"),
        ("/ETC/passwd".to_owned(), "protected_path"),
        (home, "outside_root"),
        (format!("{workspace}/inside"), "allow"),
        (format!("{workspace}/passwd"), "protected_path"),
        (format!("{workspace}/keys/id"), "protected_path"),
        (format!("{workspace}/dangling"), "outside_root"),
        (format!("{workspace}/hop63"), "allow"),
        (format!("{workspace}/hop64"), "too_many_symlinks"),
        (format!("{workspace}/loop"), "too_many_symlinks"),
        (format!("{workspace}/note.txt/x"), "invalid_path"),
        (format!("{workspace}/a\0b"), "invalid_path"),
        (format!("{workspace}/%2e%2e/x"), "allow"),
        (String::new(), "invalid_path"),
    ];
    for (path, expected) in &cases {
        assert_eq!(verdict(&sandbox, path, &scope), *expected, "{path}");
    }
    let decisions: Vec<_> = test
        .trace
        .rows()
        .iter()
        .map(|row| row.fields["decision"].clone())
        .collect();
    assert_eq!(decisions.len(), cases.len(), "each decision leaves one row");
    let row = &test.trace.rows()[0].fields;
    assert_eq!(
        (row["policy_class"].as_str(), row["operation"].as_str()),
        (Some("read_only"), Some("read"))
    );
}

#[test]
fn each_mode_admits_its_own_folders() {
    let paths = [
        "/.fermix/workspace/x",
        "/.fermix/skills/x",
        "/project/a.txt",
        "/other/x",
        "/.ssh/id",
        "/.fermix/auth.json",
    ];
    for (mode, cwd, launch, expected) in [
        (
            SandboxMode::Strict,
            Some("project"),
            Some("project"),
            "yes no no no no no",
        ),
        (SandboxMode::Standard, None, None, "yes yes no no no no"),
        (
            SandboxMode::Standard,
            Some("project"),
            None,
            "yes yes yes no no no",
        ),
        (
            SandboxMode::Standard,
            None,
            Some("project"),
            "yes yes yes no no no",
        ),
        // The home itself, Fermix's own home, a file and a link out of the home are never admitted.
        (
            SandboxMode::Standard,
            Some(""),
            Some(""),
            "yes yes no no no no",
        ),
        (
            SandboxMode::Standard,
            Some("link-out"),
            Some("project/a.txt"),
            "yes yes no no no no",
        ),
        (
            SandboxMode::Standard,
            Some(".fermix"),
            None,
            "yes yes no no no no",
        ),
        (SandboxMode::Open, None, None, "yes yes yes yes no no"),
    ] {
        let mut test = TestHome::new(mode);
        std::os::unix::fs::symlink(test.outside(), test.home.join("link-out")).expect("linked");
        test.surroundings.launch_dir = launch.map(|folder| test.home.join(folder));
        let scope = Scope {
            cwd: cwd.map(|folder| test.home.join(folder)),
            ..Scope::default()
        };
        let sandbox = test.sandbox();
        let found: Vec<&str> = paths
            .iter()
            .map(|path| {
                if sandbox
                    .readable(&format!("{}{path}", test.home.display()), &scope)
                    .is_ok()
                {
                    "yes"
                } else {
                    "no"
                }
            })
            .collect();
        assert_eq!(
            found.join(" "),
            expected,
            "{mode} cwd {cwd:?} launch {launch:?}"
        );
        assert!(
            sandbox
                .readable(&test.outside().join("file").display().to_string(), &scope)
                .is_err(),
            "{mode}"
        );
    }
}

#[test]
fn roots_say_where_they_come_from() {
    let mut test = TestHome::new(SandboxMode::Standard);
    std::os::unix::fs::symlink(test.home.join("project"), test.home.join("alias")).expect("linked");
    test.settings.allowed_roots = vec![test.home.join("alias"), test.home.join("project")];
    let sandbox = test.sandbox();
    assert_eq!(
        sandbox.linked_grants(),
        [(test.home.join("alias"), test.home.join("project"))]
    );
    let roots = sandbox.roots(&Scope {
        cwd: Some(test.home.join("project")),
        ..Scope::default()
    });
    let found: Vec<(String, Provenance)> = roots
        .iter()
        .map(|root| {
            (
                root.path
                    .strip_prefix(&test.home)
                    .expect("in the home")
                    .display()
                    .to_string(),
                root.provenance,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (".fermix/workspace".to_owned(), Provenance::Mode),
            (".fermix/skills".to_owned(), Provenance::Mode),
            ("project".to_owned(), Provenance::Granted),
        ]
    );
}

#[test]
fn refusals_name_the_way_out() {
    let test = TestHome::new(SandboxMode::Strict);
    let sandbox = test.sandbox();
    let scope = Scope::default();
    let read = |path: &str| ToolError::from(sandbox.readable(path, &scope).expect_err("refused"));

    for (path, words) in [("a\0b", "Path contains null bytes"), ("", "Path is empty")] {
        let error = read(path);
        assert_eq!(
            (error.tag, error.message.as_str(), error.enforcement),
            ("invalid_path", words, None)
        );
    }
    let missing = ToolError::from(
        sandbox
            .working_dir(Some("no/such"), &scope)
            .expect_err("refused"),
    );
    assert_eq!(
        (missing.tag, missing.enforcement),
        ("invalid_working_dir", None)
    );
    assert!(
        missing
            .message
            .starts_with("Working directory does not exist: "),
        "{}",
        missing.message
    );

    let hardline = ToolError::from(
        sandbox
            .hardline("rm -rf ~", None, &scope)
            .expect_err("refused"),
    );
    assert_eq!(hardline.tag, "sandbox_hardline");
    assert!(
        hardline
            .message
            .starts_with("Sandbox hardline blocked command: recursive delete of "),
        "{}",
        hardline.message
    );
    assert!(sandbox.hardline("rm -rf build", None, &scope).is_ok());
    assert_eq!(
        test.trace.rows().last().expect("recorded").fields["decision"],
        "hardline"
    );
}

#[test]
fn unsafe_roots_are_never_granted() {
    let test = TestHome::new(SandboxMode::Standard);
    std::os::unix::fs::symlink(&test.home, test.home.join("me")).expect("linked");
    fs::create_dir_all(test.home.join(".fermix/logs")).expect("created");
    let sandbox = test.sandbox();
    for path in [
        "/",
        "/proc",
        "/tmp",
        "/run",
        "/etc/ssl",
        "~",
        "~/me",
        "~/.fermix",
        "~/..",
        "~/.ssh",
        "~/.fermix/logs",
        "~/project/a.txt",
        "~/missing",
    ] {
        assert!(sandbox.grantable_root(path.as_ref()).is_err(), "{path}");
    }
    assert_eq!(
        sandbox.grantable_root("~/project".as_ref()),
        Ok(test.home.join("project"))
    );
    assert_eq!(
        sandbox.grantable_root("~/me/project".as_ref()),
        Ok(test.home.join("project"))
    );
}

#[test]
fn the_working_directory_has_an_order() {
    let mut test = TestHome::new(SandboxMode::Standard);
    fs::create_dir_all(test.home.join("project/sub")).expect("created");
    fs::create_dir_all(test.home.join("launch")).expect("created");
    test.surroundings.launch_dir = Some(test.home.join("launch"));
    let sandbox = test.sandbox();
    let turn = Scope {
        cwd: Some(test.home.join("project")),
        ..Scope::default()
    };
    let at = |requested, scope: &Scope| {
        sandbox
            .working_dir(requested, scope)
            .map(|folder| folder.path().to_owned())
    };
    assert_eq!(at(None, &turn), Ok(test.home.join("project")));
    assert_eq!(at(Some("sub"), &turn), Ok(test.home.join("project/sub")));
    assert_eq!(at(None, &Scope::default()), Ok(test.home.join("launch")));
    let remote = Scope {
        cwd: Some(test.outside()),
        ..Scope::default()
    };
    assert_eq!(at(None, &remote), Ok(test.home.join("launch")));
    for (requested, reason) in [
        ("a.txt", "missing_working_dir"),
        ("nope", "missing_working_dir"),
        ("/etc", "protected_path"),
        ("a\0", "invalid_working_dir"),
    ] {
        assert_eq!(
            at(Some(requested), &turn)
                .expect_err("refused")
                .reason
                .as_str(),
            reason,
            "{requested}"
        );
    }
    assert_eq!(
        sandbox.search_root(None, &turn).expect("allowed").path(),
        test.home.join("project")
    );
}

#[test]
fn settings_change_while_the_runner_stays() {
    let test = TestHome::new(SandboxMode::Strict);
    let sandbox = test.sandbox();
    let project = test.home.join("project/a.txt").display().to_string();
    assert_eq!(
        verdict(&sandbox, &project, &Scope::default()),
        "outside_root"
    );
    let mut settings = test.settings.clone();
    settings.allowed_roots = vec![test.home.join("project")];
    let changed = sandbox.with_settings(settings.clone()).expect("valid");
    assert_eq!(verdict(&changed, &project, &Scope::default()), "allow");
    settings.blocked_roots = vec!["relative".into()];
    assert!(sandbox.with_settings(settings).is_err());
}
