//! Where a repository's folders lie, and where it leads (spec/02 §4.7, §9.4 row 12).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use fermix_types::SandboxMode;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::git_support::{git, repository, settings, snapshot, try_git, verdict};
use crate::world::{World, refused};

/// A repository in the workspace, and one outside every root with a file nobody may read.
fn inside_and_outside() -> (World, PathBuf, PathBuf) {
    let world = World::new();
    let repo = repository(&world, "repo");
    let outside = world.home.os_home().join("outside");
    fs::rename(repository(&world, "other"), &outside).unwrap();
    fs::write(outside.join("secret.txt"), "secret\n").unwrap();
    git(&world, &outside, &["add", "."]);
    git(&world, &outside, &["commit", "-qm", "secret"]);
    (world, repo, outside)
}

async fn both_refused(world: &World, repo: &std::path::Path, tag: &str, words: &[&str]) {
    for (tool, command, args) in [
        ("git_read", "log", &["-p"][..]),
        ("git_read", "status", &[]),
        ("git_write", "add", &["-A"]),
        ("git_write", "commit", &["-am", "x"]),
        ("git_write", "checkout", &["-b", "x"]),
        ("git_write", "pull", &[]),
    ] {
        let (found, outcome) = verdict(world, tool, command, repo, args).await;
        assert_eq!(found, tag, "{tool} {command}: {}", outcome.text);
        refused(&outcome, words);
        assert!(!outcome.text.contains("secret"), "{}", outcome.text);
    }
}

#[tokio::test]
async fn a_git_file_that_points_outside_is_refused() {
    let (world, repo, outside) = inside_and_outside();
    let lure = world.home.workspace().join("lure");
    fs::create_dir(&lure).unwrap();
    fs::write(
        lure.join(".git"),
        format!("gitdir: {}/.git\n", outside.display()),
    )
    .unwrap();
    both_refused(
        &world,
        &lure,
        "sandbox_denied",
        &["points to", "outside", "fermix ask --root"],
    )
    .await;
    fs::write(lure.join(".git"), "gitdir: ../../../outside/.git\n").unwrap();
    both_refused(&world, &lure, "sandbox_denied", &["points to"]).await;
    fs::remove_file(lure.join(".git")).unwrap();
    symlink(outside.join(".git"), lure.join(".git")).unwrap();
    both_refused(&world, &lure, "sandbox_denied", &["outside"]).await;
    fs::remove_file(lure.join(".git")).unwrap();
    fs::write(lure.join(".git"), "something else\n").unwrap();
    both_refused(&world, &lure, "repository_refused", &["gitdir:"]).await;
    // One that stays inside is how linked work trees are made.
    git(
        &world,
        &repo,
        &["worktree", "add", "-q", "../linked", "topic"],
    );
    let linked = world.home.workspace().join("linked");
    fs::write(linked.join("a.txt"), "x\n").unwrap();
    let (found, outcome) = verdict(&world, "git_write", "commit", &linked, &["-am", "x"]).await;
    assert_eq!(found, "ok", "{}", outcome.text);
    assert!(outcome.text.contains("on branch topic"));
    // Its `commondir` may not lead out either.
    let admin = repo.join(".git/worktrees/linked");
    fs::write(
        admin.join("commondir"),
        format!("{}/.git\n", outside.display()),
    )
    .unwrap();
    both_refused(&world, &linked, "sandbox_denied", &["commondir", "outside"]).await;
}

#[tokio::test]
async fn a_foreign_work_tree_is_never_used() {
    let (world, repo, outside) = inside_and_outside();
    git(
        &world,
        &repo,
        &["config", "core.worktree", outside.to_str().unwrap()],
    );
    // The control: git itself would show the foreign files.
    let shown = try_git(&world, &repo, &["status", "--short"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("secret.txt"));
    both_refused(
        &world,
        &repo,
        "sandbox_denied",
        &["core.worktree", "outside"],
    )
    .await;
    // Elsewhere in the roots it is not used for reading, and stops writing.
    let elsewhere = world.home.workspace().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("theirs.txt"), "x\n").unwrap();
    git(
        &world,
        &repo,
        &["config", "core.worktree", elsewhere.to_str().unwrap()],
    );
    let (found, outcome) = verdict(&world, "git_read", "status", &repo, &["-s"]).await;
    assert_eq!(
        (found.as_str(), outcome.text.as_str()),
        ("ok", "[note: git status printed nothing]")
    );
    let (found, outcome) = verdict(&world, "git_write", "add", &repo, &["-A"]).await;
    assert_eq!(found, "untrusted_repo_config");
    refused(&outcome, &["core.worktree"]);
}

#[tokio::test]
async fn alternates_outside_are_refused() {
    let (world, repo, outside) = inside_and_outside();
    let list = repo.join(".git/objects/info/alternates");
    let head = git(&world, &outside, &["rev-parse", "HEAD"]);
    let cases = [
        format!("{}/.git/objects\n", outside.display()),
        "../../../../../outside/.git/objects\n".to_owned(),
    ];
    for text in &cases {
        fs::write(&list, text).unwrap();
        assert!(
            try_git(&world, &repo, &["show", &head]).status.success(),
            "the control"
        );
        both_refused(&world, &repo, "sandbox_denied", &["alternates", "outside"]).await;
    }
    // Through another one.
    let middle = repository(&world, "middle");
    fs::write(middle.join(".git/objects/info/alternates"), &cases[0]).unwrap();
    fs::write(&list, format!("{}/.git/objects\n", middle.display())).unwrap();
    both_refused(&world, &repo, "sandbox_denied", &["alternates", "outside"]).await;
    fs::remove_file(middle.join(".git/objects/info/alternates")).unwrap();
    let (found, outcome) = verdict(&world, "git_read", "log", &repo, &[]).await;
    assert_eq!(found, "ok", "{}", outcome.text);
    fs::write(repo.join("a.txt"), "x\n").unwrap();
    let (found, outcome) = verdict(&world, "git_write", "commit", &repo, &["-am", "x"]).await;
    assert_eq!(found, "ok", "{}", outcome.text);
    fs::write(&list, "\"../quoted\"\n").unwrap();
    both_refused(&world, &repo, "repository_refused", &["quoted"]).await;
}

#[tokio::test]
async fn a_repository_around_the_roots_is_not_found() {
    let world = World::new();
    settings(&world);
    let home = world.home.os_home().to_owned();
    git(&world, &home, &["init", "-q"]);
    fs::write(home.join("secret.txt"), "secret\n").unwrap();
    let workspace = world.home.workspace();
    assert!(
        try_git(&world, &workspace, &["status"]).status.success(),
        "the control"
    );
    both_refused(
        &world,
        &workspace,
        "not_a_repository",
        &["not in a git repository"],
    )
    .await;
}

/// Git writes through a link wherever it keeps something.
#[tokio::test]
async fn links_out_of_the_git_folder_are_refused() {
    for name in [
        "COMMIT_EDITMSG",
        "ORIG_HEAD",
        "FETCH_HEAD",
        "index",
        "logs/HEAD",
        "logs/refs/heads/main",
        "refs/heads/main",
        "info/exclude",
        "packed-refs",
        "MERGE_MSG",
    ] {
        let (world, repo, _) = inside_and_outside();
        let startup = world.home.os_home().join(".bashrc");
        fs::write(&startup, "# mine\n").unwrap();
        let link = repo.join(".git").join(name);
        let _ = fs::remove_file(&link);
        symlink(&startup, &link).unwrap();
        both_refused(&world, &repo, "sandbox_denied", &[name, "outside"]).await;
        assert_eq!(fs::read(&startup).unwrap(), b"# mine\n", "{name}");
    }
    // The control.
    let (world, repo, _) = inside_and_outside();
    let startup = world.home.os_home().join(".bashrc");
    let _ = fs::remove_file(repo.join(".git/COMMIT_EDITMSG"));
    symlink(&startup, repo.join(".git/COMMIT_EDITMSG")).unwrap();
    git(&world, &repo, &["commit", "--allow-empty", "-m", "evil"]);
    assert_eq!(fs::read(&startup).unwrap(), b"evil\n");
}

/// In `open` mode the home is a root, but its startup files are no place for git to write.
#[tokio::test]
async fn links_to_startup_files_stop_a_write_in_open_mode() {
    let world = World::with(|settings, _| settings.mode = SandboxMode::Open);
    let repo = repository(&world, "repo");
    let startup = world.home.os_home().join(".bashrc");
    fs::write(&startup, "# mine\n").unwrap();
    fs::remove_file(repo.join(".git/COMMIT_EDITMSG")).unwrap();
    symlink(&startup, repo.join(".git/COMMIT_EDITMSG")).unwrap();
    fs::write(repo.join("a.txt"), "x\n").unwrap();
    let (found, outcome) = verdict(&world, "git_write", "commit", &repo, &["-am", "x"]).await;
    assert_eq!(found, "guarded_path", "{}", outcome.text);
    assert_eq!(fs::read(&startup).unwrap(), b"# mine\n");
}

/// Folders of objects may be shared, as some checkouts do; folders of refs bring links of their own.
#[tokio::test]
async fn links_that_stay_in_the_roots_are_followed() {
    let world = World::new();
    let repo = repository(&world, "repo");
    let shared = world.home.workspace().join("shared");
    fs::rename(repo.join(".git/objects"), &shared).unwrap();
    symlink(&shared, repo.join(".git/objects")).unwrap();
    let (found, outcome) = verdict(&world, "git_read", "log", &repo, &[]).await;
    assert_eq!(found, "ok", "{}", outcome.text);
    fs::write(repo.join("a.txt"), "x\n").unwrap();
    let (found, outcome) = verdict(&world, "git_write", "commit", &repo, &["-am", "x"]).await;
    assert_eq!(found, "ok", "{}", outcome.text);
    let refs = world.home.workspace().join("refs");
    fs::rename(repo.join(".git/refs"), &refs).unwrap();
    symlink(&refs, repo.join(".git/refs")).unwrap();
    both_refused(&world, &repo, "repository_refused", &["link to a folder"]).await;
}

/// A submodule whose `.git` file leads out is not entered on the way.
#[tokio::test]
async fn a_submodule_may_not_lead_outside() {
    let (world, repo, outside) = inside_and_outside();
    let head = git(&world, &repo, &["rev-parse", "HEAD"]);
    let cache = format!("160000,{head},sub");
    git(
        &world,
        &repo,
        &["update-index", "--add", "--cacheinfo", &cache],
    );
    fs::create_dir(repo.join("sub")).unwrap();
    let (found, outcome) = verdict(&world, "git_write", "commit", &repo, &["-m", "x"]).await;
    assert_eq!(found, "ok", "{}", outcome.text);
    fs::write(
        repo.join("sub/.git"),
        format!("gitdir: {}/.git\n", outside.display()),
    )
    .unwrap();
    let (found, outcome) = verdict(&world, "git_write", "add", &repo, &["-A"]).await;
    assert_eq!(found, "sandbox_denied", "{}", outcome.text);
    let (found, outcome) = verdict(&world, "git_read", "status", &repo, &[]).await;
    assert!(!outcome.text.contains("secret"), "{found} {}", outcome.text);
}

#[tokio::test]
async fn blocked_folders_stay_closed() {
    let world = World::with(|settings, _| {
        settings.blocked_roots = vec![settings.workspace_root.join("repo/.git")];
    });
    let repo = repository(&world, "repo");
    both_refused(&world, &repo, "sandbox_denied", &["blocked"]).await;
}

/// Words that arguments are made of: what is accepted, what is not, and what is nearly one of them.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "-p",
            "-n",
            "-5",
            "--stat",
            "-U3",
            "--name-only",
            "HEAD",
            "v1",
            "main",
            "--",
            "a.txt",
            "dir",
            "--oneline",
            "--all",
            "-S",
            "--format=%H",
            "--cached",
            "-z",
            "-a",
            "-v",
            "--graph",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec![
            "--output=made",
            "--output",
            "--outp=made",
            "-O",
            "--no-index",
            "--ext-diff",
            "-d",
            "-D",
            "-m",
            "-f",
            "--delete",
            "topic",
            "new",
            "/etc/passwd",
            "../x",
            "--textconv",
            "made",
            "--contains",
            "--exec-path=.",
            "--edit-description",
            "-u",
            "--set-upstream-to=main",
        ])
        .prop_map(str::to_owned),
        "-[a-zA-Z0-9]{1,4}",
        "--[a-z]{1,4}(-[a-z]{1,5})?(=made)?",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is put together of them, nothing in the repository changes and nothing appears.
    #[test]
    fn no_arguments_make_a_read_write(
        vectors in prop::collection::vec(
            (prop::sample::select(vec!["status", "log", "diff", "branch", "show"]),
             prop::collection::vec(word(), 0..5)),
            6,
        )
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new();
            let repo = repository(&world, "repo");
            fs::write(repo.join("a.txt"), "changed\n").unwrap();
            let before = snapshot(&world.home.workspace());
            for (command, args) in &vectors {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let (_, outcome) = verdict(&world, "git_read", command, &repo, &args).await;
                assert!(
                    snapshot(&world.home.workspace()) == before,
                    "{command} {args:?}: {}",
                    outcome.text
                );
            }
        });
    }
}
