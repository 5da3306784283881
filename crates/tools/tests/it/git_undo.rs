//! Changes by `git_write` leave a way back.

use std::fs;
use std::path::{Path, PathBuf};

use fermix_sandbox::Scope;
use fermix_tools::git::undo::restore;
use fermix_types::ConversationKey;
use fermix_undo::{Change, UndoError};
use pretty_assertions::assert_eq;

use crate::git_support::{Daemon, git, repository, settings, snapshot, try_git, verdict};
use crate::world::{World, undo_log};

fn scope() -> Scope {
    Scope {
        conversation: Some(ConversationKey::root("cli", "test")),
        attended: true,
        ..Scope::default()
    }
}

async fn write(world: &World, repo: &Path, command: &str, args: &[&str]) -> String {
    let (found, outcome) = verdict(world, "git_write", command, repo, args).await;
    assert_eq!(found, "ok", "{command} {args:?}: {}", outcome.text);
    outcome.text
}

async fn changes(world: &World) -> Vec<Change> {
    let log = undo_log(world.home.fermix_home());
    log.list(None, 100).await.unwrap()
}

async fn undo_last(world: &World) -> Result<String, UndoError> {
    let log = undo_log(world.home.fermix_home());
    let change = log.find(None, None).await?;
    restore(&log, &change, &world.sandbox, scope()).await
}

/// Everything of a repository that its owner would miss.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    head: String,
    branches: String,
    index: String,
    status: String,
    files: Vec<(PathBuf, Vec<u8>)>,
}

fn seen(world: &World, repo: &Path) -> Seen {
    let said = |args: &[&str]| {
        let output = try_git(world, repo, args);
        String::from_utf8(output.stdout).unwrap()
    };
    let mut files = snapshot(repo);
    files.retain(|(path, _)| !path.starts_with(repo.join(".git")));
    Seen {
        head: format!(
            "{}{}",
            fs::read_to_string(repo.join(".git/HEAD")).unwrap(),
            said(&["rev-parse", "--verify", "--quiet", "HEAD"])
        ),
        branches: said(&["for-each-ref", "refs/heads"]),
        index: said(&["ls-files", "--stage"]),
        status: said(&["status", "--porcelain"]),
        files,
    }
}

/// A repository with a changed, a staged, a deleted and a new file.
fn busy(world: &World, name: &str) -> PathBuf {
    let repo = repository(world, name);
    for file in ["c.txt", "d.txt", "e.txt"] {
        fs::write(repo.join(file), format!("{file}\n")).unwrap();
    }
    git(world, &repo, &["add", "."]);
    git(world, &repo, &["commit", "-qm", "third"]);
    fs::write(repo.join("c.txt"), "staged\n").unwrap();
    git(world, &repo, &["add", "c.txt"]);
    fs::write(repo.join("c.txt"), "staged\nand more\n").unwrap();
    fs::write(repo.join("d.txt"), "unstaged \u{0} bytes\n").unwrap();
    fs::remove_file(repo.join("e.txt")).unwrap();
    fs::write(repo.join("new.txt"), "new\n").unwrap();
    repo
}

#[tokio::test]
async fn every_command_is_taken_back() {
    for (command, args) in [
        ("add", &["-A"][..]),
        ("add", &["new.txt"]),
        ("commit", &["-m", "x"]),
        ("commit", &["-am", "x"]),
        ("commit", &["--amend", "-m", "other"]),
        ("checkout", &["-b", "fresh"]),
        ("checkout", &["-B", "topic"]),
        ("checkout", &["--orphan", "fresh"]),
        ("checkout", &["--detach"]),
        ("checkout", &["-f", "topic"]),
        ("checkout", &["-f", "v1"]),
        ("checkout", &["--", "d.txt"]),
        ("checkout", &["--", "."]),
        ("checkout", &["HEAD", "--", "."]),
        ("checkout", &["v1", "--", "a.txt"]),
    ] {
        let world = World::new();
        let repo = busy(&world, "repo");
        let before = seen(&world, &repo);
        write(&world, &repo, command, args).await;
        let after = seen(&world, &repo);
        assert_ne!(before, after, "{command} {args:?} changed nothing");
        assert_eq!(changes(&world).await.len(), 1, "{command} {args:?}");
        let said = undo_last(&world).await;
        let said = said.unwrap_or_else(|error| panic!("{command} {args:?}: {error}"));
        assert!(said.contains("as it was before git_write"), "{said}");
        assert_eq!(seen(&world, &repo), before, "{command} {args:?}");
        assert!(matches!(
            undo_last(&world).await,
            Err(UndoError::Nothing(None))
        ));
        git(&world, &repo, &["fsck", "--strict"]);
    }
}

#[tokio::test]
async fn the_first_commit_and_the_first_file_are_taken_back() {
    let world = World::new();
    settings(&world);
    let repo = world.home.workspace().join("repo");
    fs::create_dir(&repo).unwrap();
    git(&world, &repo, &["init", "-q"]);
    fs::write(repo.join("a.txt"), "one\n").unwrap();
    let empty = seen(&world, &repo);
    write(&world, &repo, "add", &["a.txt"]).await;
    let staged = seen(&world, &repo);
    write(&world, &repo, "commit", &["-m", "first"]).await;
    undo_last(&world).await.unwrap();
    assert_eq!(seen(&world, &repo), staged);
    undo_last(&world).await.unwrap();
    assert_eq!(seen(&world, &repo), empty);
}

/// A switch takes folders away and brings others, and a file in the place of a folder.
#[tokio::test]
async fn a_switch_is_taken_back_with_its_folders() {
    let world = World::new();
    let repo = repository(&world, "repo");
    git(&world, &repo, &["checkout", "-q", "topic"]);
    git(&world, &repo, &["rm", "-q", "dir/b.txt"]);
    fs::write(repo.join("dir"), "a file\n").unwrap();
    fs::create_dir_all(repo.join("more/deep")).unwrap();
    fs::write(repo.join("more/deep/[x]*.txt"), "odd name\n").unwrap();
    fs::write(repo.join(".gitignore"), "*.log\n").unwrap();
    fs::write(repo.join("kept.log"), "theirs\n").unwrap();
    git(&world, &repo, &["add", "-f", "."]);
    git(&world, &repo, &["commit", "-qm", "other"]);
    git(&world, &repo, &["checkout", "-q", "main"]);
    // Git overwrites a file that is ignored without a word.
    fs::write(repo.join(".git/info/exclude"), "*.log\n").unwrap();
    fs::write(repo.join("kept.log"), "mine\n").unwrap();
    let before = seen(&world, &repo);
    write(&world, &repo, "checkout", &["topic"]).await;
    assert_eq!(fs::read(repo.join("kept.log")).unwrap(), b"theirs\n");
    // Looking at the repository is no change.
    std::thread::sleep(std::time::Duration::from_millis(20));
    git(&world, &repo, &["status"]);
    undo_last(&world).await.unwrap();
    assert_eq!(seen(&world, &repo), before);
    assert!(!repo.join("more").exists());
}

#[tokio::test]
async fn changes_are_taken_back_one_by_one() {
    let world = World::new();
    let repo = busy(&world, "repo");
    let mut states = Vec::new();
    for (command, args) in [
        ("checkout", &["-b", "fresh"][..]),
        ("add", &["."]),
        ("commit", &["-m", "x"]),
        ("checkout", &["topic"]),
        ("checkout", &["v1"]),
    ] {
        states.push(seen(&world, &repo));
        write(&world, &repo, command, args).await;
    }
    while let Some(state) = states.pop() {
        undo_last(&world).await.unwrap();
        assert_eq!(seen(&world, &repo), state);
    }
}

#[tokio::test]
async fn what_changed_since_is_left_alone() {
    type Later = fn(&World, &Path);
    let later: [Later; 6] = [
        |world, repo| {
            git(
                world,
                repo,
                &["commit", "-q", "--allow-empty", "-m", "later"],
            );
        },
        |world, repo| {
            fs::write(repo.join("later.txt"), "x").unwrap();
            git(world, repo, &["add", "later.txt"]);
        },
        |_, repo| fs::write(repo.join("a.txt"), "by hand\n").unwrap(),
        |_, repo| fs::write(repo.join("d.txt"), "by hand\n").unwrap(),
        |_, repo| fs::write(repo.join("c.txt"), "c by hand, where a file was removed\n").unwrap(),
        |world, repo| {
            git(world, repo, &["checkout", "-q", "-b", "elsewhere"]);
        },
    ];
    for (number, later) in later.into_iter().enumerate() {
        let world = World::new();
        let repo = busy(&world, "repo");
        write(&world, &repo, "checkout", &["-f", "topic"]).await;
        later(&world, &repo);
        let before = seen(&world, &repo);
        let refused = undo_last(&world).await;
        assert!(
            matches!(refused, Err(UndoError::ChangedSince(_))),
            "{number}: {refused:?}"
        );
        assert_eq!(seen(&world, &repo), before, "{number}");
        assert!(!repo.join(".git/index.lock").exists());
    }
    let world = World::new();
    let repo = busy(&world, "repo");
    write(&world, &repo, "add", &["new.txt"]).await;
    let before = seen(&world, &repo);
    fs::write(repo.join(".git/index.lock"), "").unwrap();
    let refused = undo_last(&world).await.unwrap_err().to_string();
    assert!(refused.contains("index.lock"), "{refused}");
    fs::remove_file(repo.join(".git/index.lock")).unwrap();
    assert_eq!(seen(&world, &repo), before);
    undo_last(&world).await.unwrap();
}

#[tokio::test]
async fn what_fails_or_changes_nothing_leaves_nothing() {
    let world = World::new();
    let repo = repository(&world, "repo");
    for (command, args) in [
        ("commit", &["-m", "nothing to commit"][..]),
        ("commit", &["--dry-run", "--allow-empty"]),
        ("add", &["absent"]),
        ("add", &["-n", "."]),
        ("add", &["."]),
        ("checkout", &["absent"]),
        ("checkout", &["main"]),
        ("pull", &[]),
    ] {
        let (found, outcome) = verdict(&world, "git_write", command, &repo, args).await;
        let left = changes(&world).await.len();
        assert_eq!(left, 0, "{command} {args:?}: {found} {}", outcome.text);
    }
    let objects = world.home.fermix_home().join("undo");
    let left = if objects.exists() {
        snapshot(&objects)
    } else {
        Vec::new()
    };
    assert_eq!(left, []);
}

#[tokio::test]
async fn a_pull_is_taken_back() {
    let world = World::new();
    settings(&world);
    let base = world.home.os_home().join("served");
    let other = base.join("work");
    fs::create_dir_all(&other).unwrap();
    git(&world, &other, &["init", "-q"]);
    fs::write(other.join("a.txt"), "one\n").unwrap();
    fs::write(other.join("b.txt"), "one\n").unwrap();
    git(&world, &other, &["add", "."]);
    git(&world, &other, &["commit", "-qm", "first"]);
    let _daemon = Daemon::start(&world, &base);
    let url = format!("git://127.0.0.1:{}/work", _daemon.port);
    git(
        &world,
        &world.home.workspace(),
        &["clone", "-q", &url, "clone"],
    );
    let repo = world.home.workspace().join("clone");
    fs::write(other.join("a.txt"), "two\n").unwrap();
    fs::write(other.join("c.txt"), "new\n").unwrap();
    git(&world, &other, &["add", "."]);
    git(&world, &other, &["commit", "-qm", "second"]);
    fs::write(repo.join("b.txt"), "local\n").unwrap();
    let before = seen(&world, &repo);
    write(&world, &repo, "pull", &["--ff-only"]).await;
    assert!(repo.join("c.txt").exists());
    undo_last(&world).await.unwrap();
    assert_eq!(seen(&world, &repo), before);
}

#[tokio::test]
async fn what_is_too_much_to_keep_is_named() {
    let world = World::new();
    let repo = repository(&world, "repo");
    fs::write(repo.join("a.txt"), vec![b'x'; 33 * 1024 * 1024]).unwrap();
    fs::write(repo.join("dir/b.txt"), "small\n").unwrap();
    let said = write(&world, &repo, "checkout", &["--", "."]).await;
    assert!(
        said.contains("the local changes of a.txt are not kept"),
        "{said}"
    );
    undo_last(&world).await.unwrap();
    assert_eq!(fs::read(repo.join("dir/b.txt")).unwrap(), b"small\n");
    assert_eq!(fs::read(repo.join("a.txt")).unwrap(), b"one\nmore\n");
}
